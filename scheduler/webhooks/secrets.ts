/** Signing secrets, one an account, made when first wanted and kept encrypted in the account's row. */
import type { Engine } from '../engine/engine.ts';
import type { Cipher } from '../secrets/cipher.ts';
import { newSecret } from './signature.ts';

export class WebhookSecrets {
  readonly #engine: Engine;
  readonly #cipher: Cipher;

  constructor(engine: Engine, cipher: Cipher) {
    this.#engine = engine;
    this.#cipher = cipher;
  }

  /** The account's secret, `whsec_…`. */
  async of(account: string): Promise<string> {
    const place = `account/${account}/webhook-secret`;
    if (this.#sealed(account) === null) {
      const sealed = this.#cipher.encrypt(newSecret(), place).toString('base64');
      // Of several at once the first is kept; all of them read that one.
      await this.#engine.command({ command: 'put-webhook-secret', account, sealed });
    }
    return this.#cipher.decrypt(Buffer.from(this.#sealed(account) ?? '', 'base64'), place);
  }

  #sealed(account: string): string | null {
    return this.#engine.image.accounts.get(account)?.webhookSecretSealed ?? null;
  }
}

/** Signing secrets, one per account, created at first use and kept encrypted in the account's row. */
import type { AuditEntry } from '../core/audit.ts';
import type { AccountRow } from '../core/state/control-rows.ts';
import { places } from '../core/control/encryption.ts';
import type { Engine } from '../engine/engine.ts';
import type { Cipher } from '../secrets/cipher.ts';
import { newSecret } from './signature.ts';

export class WebhookSecrets {
  readonly #engine: Engine;
  readonly #cipher: Cipher;
  readonly #now: () => number;

  /** `now` is the wall clock, ms. */
  constructor(engine: Engine, cipher: Cipher, now: () => number) {
    this.#engine = engine;
    this.#cipher = cipher;
    this.#now = now;
  }

  /** Returns the account's secret, `whsec_…`. */
  async of(account: string): Promise<string> {
    if ((this.#row(account)?.webhookSecretSealed ?? null) === null) {
      // Of several concurrent calls the first secret is stored; all of them read that one.
      await this.#engine.command({ kind: 'put-webhook-secret', account, encrypted: this.#seal(account, newSecret()) });
    }
    return this.#open(account, this.#row(account)?.webhookSecretSealed ?? '');
  }

  /** Returns the present signing secrets: the account's secret, and for a while after a rotation the previous one. */
  async signing(account: string): Promise<string[]> {
    const secret = await this.of(account);
    const previous = this.#previous(account);
    return previous === null ? [secret] : [secret, this.#open(account, previous.sealed)];
  }

  /**
   * Creates a new secret; durable before it resolves. `previousUntil`: wall clock ms, null if there was no previous
   * one.
   */
  async rotate(account: string, audit: AuditEntry): Promise<{ readonly secret: string; readonly previousUntil: number | null }> {
    const secret = newSecret();
    await this.#engine.command({ kind: 'rotate-webhook-secret', account, encrypted: this.#seal(account, secret) }, audit);
    return { secret, previousUntil: this.#previous(account)?.until ?? null };
  }

  #previous(account: string): NonNullable<AccountRow['previousWebhookSecret']> | null {
    const previous = this.#row(account)?.previousWebhookSecret;
    return previous !== undefined && previous.until > this.#now() ? previous : null;
  }

  #row(account: string): AccountRow | undefined {
    // A webhook is sent on the state as it is: an unconfirmed term must not count as a failed try.
    return (this.#engine.image ?? this.#engine.state).accounts.get(account);
  }

  #seal(account: string, secret: string): string {
    return this.#cipher.encrypt(secret, places.webhookSecret(account)).toString('base64');
  }

  #open(account: string, sealed: string): string {
    return this.#cipher.decrypt(Buffer.from(sealed, 'base64'), places.webhookSecret(account));
  }
}

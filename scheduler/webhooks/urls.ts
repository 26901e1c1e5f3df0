/**
 * URLs of webhooks on their way in and out: which an account may use, and the encryption of those with secrets.
 *
 * The key is derived from the master key. After a rotation the keys derived from earlier master keys stay in the master
 * key's row, encrypted under the present one: a URL is kept no longer than its job and delivery, and is not encrypted anew.
 */
import { hkdfSync } from 'node:crypto';

import { encryptedUrl, keptUrl, redactUrl } from '../core/webhooks/webhook-url.ts';
import { Cipher } from '../secrets/cipher.ts';
import type { AddressGuard } from './guard.ts';

export class WebhookUrls {
  readonly #cipher: Cipher;
  readonly #guardOf: (account: string) => AddressGuard;

  /** Takes the master key, and earlier ones that are still at hand. */
  constructor(masterKey: Uint8Array, older: readonly Uint8Array[], guardOf: (account: string) => AddressGuard) {
    this.#cipher = new Cipher(urlKeyOf(masterKey), older.map(urlKeyOf));
    this.#guardOf = guardOf;
  }

  /** Encrypts with a key of another master key from now on. */
  use(masterKey: Uint8Array): void {
    this.#cipher.use(urlKeyOf(masterKey));
  }

  /** Decrypts with a key that an earlier master key gave, too. */
  keep(urlKey: Uint8Array): void {
    this.#cipher.keep(urlKey);
  }

  /** Why jobs of the account may not name this URL; null when only the connection can tell. */
  refusal(url: string, account: string): string | null {
    return this.#guardOf(account).refusal(url);
  }

  /** The form in which a job's URL is kept. */
  kept(url: string, job: string): string {
    const shown = redactUrl(url);
    return shown === url ? url : keptUrl(shown, this.#cipher.encrypt(url, place(job)).toString('base64'));
  }

  /** The URL that a delivery goes to. @throws CapstanError DATA_DIR when no key opens it. */
  open(kept: string, delivery: string): string {
    const encrypted = encryptedUrl(kept);
    if (encrypted === null) return kept;
    return this.#cipher.decrypt(Buffer.from(encrypted, 'base64'), place(delivery.slice(0, delivery.lastIndexOf('_'))));
  }
}

/** What a master key gives for the URLs of webhooks. */
export function urlKeyOf(masterKey: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), 'capstan webhook url', 32));
}

function place(job: string): string {
  return `job/${job}/webhook`;
}

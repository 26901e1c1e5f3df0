/**
 * Checks which webhook URLs an account may use, and encrypts and decrypts those with secrets.
 *
 * The key is derived from the master key. After a rotation the keys derived from earlier master keys stay in the master
 * key's row, encrypted with the present one: a URL is kept no longer than its job and delivery, and is not
 * re-encrypted.
 */
import { hkdfSync } from 'node:crypto';

import { encryptedUrl, keptUrl, redactUrl } from '../core/webhooks/webhook-url.ts';
import { Cipher } from '../secrets/cipher.ts';
import type { AddressGuard } from './guard.ts';

export class WebhookUrls {
  readonly #cipher: Cipher;
  readonly #guardOf: (account: string) => AddressGuard;

  /** Takes the master key, and the earlier ones still available. */
  constructor(masterKey: Uint8Array, older: readonly Uint8Array[], guardOf: (account: string) => AddressGuard) {
    this.#cipher = new Cipher(urlKeyOf(masterKey), older.map(urlKeyOf));
    this.#guardOf = guardOf;
  }

  /** Encrypts with a key derived from another master key from now on. */
  use(masterKey: Uint8Array): void {
    this.#cipher.use(urlKeyOf(masterKey));
  }

  /** Also decrypts with a key derived from an earlier master key. */
  keep(urlKey: Uint8Array): void {
    this.#cipher.keep(urlKey);
  }

  /** Returns why jobs of the account may not use this URL; null if only the connection can decide. */
  refusal(url: string, account: string): string | null {
    return this.#guardOf(account).refusal(url);
  }

  /** Returns the stored form of a job's URL. */
  kept(url: string, job: string): string {
    const shown = redactUrl(url);
    return shown === url ? url : keptUrl(shown, this.#cipher.encrypt(url, place(job)).toString('base64'));
  }

  /** Returns the URL of a delivery. @throws CapstanError DATA_DIR if no key decrypts it. */
  open(kept: string, delivery: string): string {
    const encrypted = encryptedUrl(kept);
    if (encrypted === null) return kept;
    return this.#cipher.decrypt(Buffer.from(encrypted, 'base64'), place(delivery.slice(0, delivery.lastIndexOf('_'))));
  }
}

/** Derives the key of webhook URLs from a master key. */
export function urlKeyOf(masterKey: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), 'capstan webhook url', 32));
}

function place(job: string): string {
  return `job/${job}/webhook`;
}

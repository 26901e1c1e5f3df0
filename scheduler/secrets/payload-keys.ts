/**
 * The keys that payloads at rest are encrypted with: one derived from each master key. The keys derived from earlier
 * master keys stay in the master key's row, encrypted with the present one, so that a rotation writes no payload again.
 */
import { createHash, hkdfSync } from 'node:crypto';

export interface PayloadKey {
  /** 8 hex digits, which reveal nothing of the key. */
  readonly id: string;
  /** 32 bytes. Secret. */
  readonly key: Uint8Array;
}

/** A copy that can be sent to the store thread. */
export interface PayloadKeySet {
  /** The present key, then those that earlier payloads may be encrypted with. */
  readonly keys: readonly [PayloadKey, ...PayloadKey[]];
  /** Whether new payloads are encrypted. */
  readonly encrypts: boolean;
}

export class PayloadKeys {
  readonly encrypts: boolean;
  #keys: readonly [PayloadKey, ...PayloadKey[]];
  readonly #listeners = new Set<(set: PayloadKeySet) => void>();

  constructor(masterKey: Uint8Array, older: readonly Uint8Array[], encrypts: boolean) {
    this.encrypts = encrypts;
    this.#keys = [keyOf(payloadKeyOf(masterKey)), ...older.map((key) => keyOf(payloadKeyOf(key)))];
  }

  get set(): PayloadKeySet {
    return { keys: this.#keys, encrypts: this.encrypts };
  }

  /** Encrypts with a key derived from another master key from now on. */
  use(masterKey: Uint8Array): void {
    const present = keyOf(payloadKeyOf(masterKey));
    this.#change([present, ...this.#keys.filter(({ id }) => id !== present.id)]);
  }

  /** Also decrypts with a key derived from an earlier master key. */
  keep(payloadKey: Uint8Array): void {
    const kept = keyOf(payloadKey);
    if (!this.#keys.some(({ id }) => id === kept.id)) this.#change([...this.#keys, kept]);
  }

  /** Calls the listener with each new set of keys. */
  onChange(listener: (set: PayloadKeySet) => void): void {
    this.#listeners.add(listener);
  }

  #change(keys: readonly [PayloadKey, ...PayloadKey[]]): void {
    this.#keys = keys;
    for (const listener of this.#listeners) listener(this.set);
  }
}

/** Derives the key of payloads from a master key. */
export function payloadKeyOf(masterKey: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), 'capstan payloads', 32));
}

function keyOf(key: Uint8Array): PayloadKey {
  return { id: createHash('sha256').update('capstan payload key id').update(key).digest('hex').slice(0, 8), key };
}

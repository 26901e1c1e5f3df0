/**
 * Encryption at rest of small texts: s3Config and env values (invariant 10).
 *
 *   byte 0       version, 1
 *   bytes 1–4    id of the encryption key, which reveals nothing of the key
 *   bytes 5–16   random nonce
 *   the rest     the text encrypted with AES-256-GCM, and 16 bytes of tag
 *
 * The key can be replaced while values are read and written: values encrypted with earlier keys can still be decrypted
 * for the lifetime of the process.
 *
 * The associated data holds version, key id and the text's place (for example the job or the variable), so a value
 * copied to another row does not decrypt there.
 */
import { createCipheriv, createDecipheriv, createHash, createSecretKey, hkdfSync, randomBytes, type KeyObject } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';

const VERSION = 1;
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES;
const OVERHEAD_BYTES = HEAD_BYTES + NONCE_BYTES + TAG_BYTES;
export const MASTER_KEY_BYTES = 32;

interface Key {
  readonly id: Buffer;
  /** Created once: with raw bytes each call would create a key object, at three times the cost. */
  readonly secret: KeyObject;
}

/** Encrypts with the current master key; decrypts with it or an older one. */
export class Cipher {
  #current: Key;
  #keys: readonly Key[];

  /** Master keys of 32 bytes: the current one, then older ones that may still be needed to decrypt. */
  constructor(masterKey: Uint8Array, older: readonly Uint8Array[] = []) {
    this.#current = deriveKey(masterKey);
    this.#keys = [this.#current, ...older.map(deriveKey)];
  }

  /** Id of the encryption key, 8 hex digits. */
  get keyId(): string {
    return this.#current.id.toString('hex');
  }

  /** Ids of the keys that it decrypts with, the present one first. */
  get keyIds(): readonly string[] {
    return [...new Set(this.#keys.map(({ id }) => id.toString('hex')))];
  }

  /** Encrypts with another master key from now on. */
  use(masterKey: Uint8Array): void {
    this.#current = deriveKey(masterKey);
    this.#keys = [this.#current, ...this.#keys];
  }

  /** Also decrypts with an earlier master key. */
  keep(masterKey: Uint8Array): void {
    this.#keys = [...this.#keys, deriveKey(masterKey)];
  }

  /** Re-encrypts a value with the current key; null if it is already encrypted with it. */
  renew(encrypted: Uint8Array, place: string): Buffer | null {
    return this.isCurrent(encrypted) ? null : this.encrypt(this.decrypt(encrypted, place), place);
  }

  /** Whether a value was encrypted with the current key. */
  isCurrent(encrypted: Uint8Array): boolean {
    return this.#current.id.equals(encrypted.subarray(1, HEAD_BYTES));
  }

  /**
   * Encrypts a text. `place` names where it is stored, for example `job/<id>/s3`; decryption requires the same place.
   */
  encrypt(text: string, place: string): Buffer {
    const head = Buffer.concat([Buffer.of(VERSION), this.#current.id]);
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#current.secret, nonce, { authTagLength: TAG_BYTES });
    cipher.setAAD(associated(head, place));
    return Buffer.concat([head, nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  }

  /** Decrypts a value. Fails with DATA_DIR if the key is unknown or the value was not encrypted for this place. */
  decrypt(encrypted: Uint8Array, place: string): string {
    const bytes = Buffer.from(encrypted.buffer, encrypted.byteOffset, encrypted.byteLength);
    if (bytes.length < OVERHEAD_BYTES || bytes[0] !== VERSION)
      throw new CapstanError('DATA_DIR', `cannot decrypt ${place}: it is not an encrypted value of this version`);
    const head = bytes.subarray(0, HEAD_BYTES);
    const key = this.#keys.find((candidate) => candidate.id.equals(head.subarray(1)));
    if (key === undefined) throw new CapstanError('DATA_DIR', `cannot decrypt ${place}: it was encrypted with another master key`);
    const nonce = bytes.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', key.secret, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(associated(head, place));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(HEAD_BYTES + NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8');
    } catch (cause) {
      throw new CapstanError('DATA_DIR', `cannot decrypt ${place}: the value was changed or moved from another place`, { cause });
    }
  }
}

/** Returns the id of a master key, 8 hex digits. */
export function masterKeyId(masterKey: Uint8Array): string {
  return deriveKey(masterKey).id.toString('hex');
}

/** The master key itself encrypts nothing, so that separate keys for other uses can be derived from it. */
function deriveKey(master: Uint8Array): Key {
  if (master.length !== MASTER_KEY_BYTES)
    throw new CapstanError('DATA_DIR', `the master key must have ${MASTER_KEY_BYTES} bytes, not ${master.length}`);
  const secret = Buffer.from(hkdfSync('sha256', master, '', 'capstan at rest 1', 32));
  const id = createHash('sha256').update('capstan key id 1').update(secret).digest().subarray(0, KEY_ID_BYTES);
  return { id, secret: createSecretKey(secret) };
}

function associated(head: Buffer, place: string): Buffer {
  return Buffer.concat([head, Buffer.from(place, 'utf8')]);
}

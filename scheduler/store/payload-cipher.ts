/**
 * Encryption of payloads at rest with AES-256-GCM, inline and in the blob store:
 *
 *   byte 0       0xfe, which begins no JSON text, and does not become the first byte of one by a flipped bit
 *   bytes 1–4    id of the key
 *   bytes 5–16   random nonce
 *   the rest     the document, encrypted, and 16 bytes of tag
 *
 * The first 17 bytes are authenticated with the document. A payload is not bound to its row: a delivery copies the input
 * of its job within the database.
 */
import { createCipheriv, createDecipheriv, createSecretKey, randomFillSync, type KeyObject } from 'node:crypto';

import type { PayloadKeySet } from '../secrets/payload-keys.ts';
import type { Damaged } from '../core/ports/stored-payload.ts';

/** First byte of an encrypted payload. */
export const ENCRYPTED = 0xfe;
const ID_END = 5;
/** Bytes before the encrypted document. */
export const HEAD_BYTES = 17;
const TAG_BYTES = 16;
/** Bytes that an encrypted payload has beyond its document. */
export const ENCRYPTION_OVERHEAD = HEAD_BYTES + TAG_BYTES;
const ALGORITHM = 'aes-256-gcm';

/** Encrypts a document piece by piece. */
export interface Sealing {
  /** Stored before the pieces. */
  readonly head: Buffer;
  update(piece: Uint8Array): Buffer;
  /** Stored after the pieces. */
  end(): Buffer;
}

/** Decrypts a document piece by piece. */
export interface Opening {
  update(piece: Uint8Array): Buffer;
  /** Throws if the bytes are not those that were encrypted. `tag`: the last bytes that are stored. */
  end(tag: Uint8Array): Buffer;
}

export class PayloadCipher {
  readonly #present: { readonly id: Buffer; readonly key: KeyObject };
  readonly #keys = new Map<string, KeyObject>();
  /** Whether new payloads are encrypted. */
  readonly encrypts: boolean;

  constructor({ keys, encrypts }: PayloadKeySet) {
    this.encrypts = encrypts;
    // Key objects are created once: with raw bytes each call would create one, at three times the cost.
    for (const { id, key } of keys) this.#keys.set(id, createSecretKey(key));
    const [{ id, key }] = keys;
    this.#present = { id: Buffer.from(id, 'hex'), key: this.#keys.get(id) ?? createSecretKey(key) };
  }

  seal(): Sealing {
    const head = Buffer.allocUnsafe(HEAD_BYTES);
    head[0] = ENCRYPTED;
    this.#present.id.copy(head, 1);
    randomFillSync(head, ID_END);
    const cipher = createCipheriv(ALGORITHM, this.#present.key, head.subarray(ID_END), { authTagLength: TAG_BYTES });
    cipher.setAAD(head);
    return { head, update: (piece) => cipher.update(piece), end: () => Buffer.concat([cipher.final(), cipher.getAuthTag()]) };
  }

  /** Begins to decrypt what has this head; says why where it cannot. */
  open(head: Buffer): Opening | Damaged {
    const id = head.subarray(1, ID_END).toString('hex');
    const key = this.#keys.get(id);
    if (head.length < HEAD_BYTES || head[0] !== ENCRYPTED) return { damaged: 'it is not encrypted as its name says' };
    if (key === undefined) return { damaged: `it is encrypted with the payload key ${id}, which no master key of this scheduler gives` };
    const decipher = createDecipheriv(ALGORITHM, key, head.subarray(ID_END, HEAD_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(head.subarray(0, HEAD_BYTES));
    return {
      update: (piece) => decipher.update(piece),
      end(tag) {
        decipher.setAuthTag(tag);
        return decipher.final();
      },
    };
  }

  encrypt(document: Uint8Array): Buffer {
    const sealing = this.seal();
    return Buffer.concat([sealing.head, sealing.update(document), sealing.end()]);
  }

  decrypt(stored: Buffer): Uint8Array | Damaged {
    if (stored.length < ENCRYPTION_OVERHEAD) return { damaged: 'it was cut off' };
    const opening = this.open(stored.subarray(0, HEAD_BYTES));
    if ('damaged' in opening) return opening;
    const document = opening.update(stored.subarray(HEAD_BYTES, -TAG_BYTES));
    try {
      opening.end(stored.subarray(-TAG_BYTES));
      return document;
    } catch {
      return { damaged: 'its encrypted bytes were changed' };
    }
  }
}

/** Decrypts the stored bytes of a document in pieces. Throws if they were changed. */
export async function* openedPieces(opening: Opening, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  // The last bytes are the tag: as many are always held back.
  let held = Buffer.alloc(0);
  for await (const piece of pieces) {
    const all = held.length === 0 ? piece : Buffer.concat([held, piece]);
    const end = Math.max(0, all.length - TAG_BYTES);
    held = Buffer.from(all.subarray(end));
    if (end > 0) yield opening.update(all.subarray(0, end));
  }
  const rest = opening.end(held);
  if (rest.length > 0) yield rest;
}

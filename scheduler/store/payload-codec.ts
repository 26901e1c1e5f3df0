/**
 * What the stores keep of an inline payload: its bytes with a checksum, so that a damaged one is never taken for the
 * document that was sent.
 *
 *   byte 0       0xc1, which begins no JSON text, and does not become the first byte of one by a flipped bit
 *   bytes 1–4    CRC-32 of the rest, little endian
 *   the rest     the document
 *
 * With encryption at rest it is encrypted instead, which authenticates it, too (payload-cipher.ts). Both are read, whatever
 * the present setting is. Payloads of earlier versions are JSON texts without any of it, and are returned as they are.
 */
import { crc32 } from 'node:zlib';

import { asBuffer } from '../../lib/payload.ts';
import type { PayloadKeySet } from '../secrets/payload-keys.ts';
import { ENCRYPTED, ENCRYPTION_OVERHEAD, PayloadCipher } from './payload-cipher.ts';
import type { Damaged } from '../core/ports/stored-payload.ts';

const CHECKED = 0xc1;
const CHECKED_HEAD_BYTES = 5;
/** Most bytes that a stored payload has beyond its document. */
export const MAX_PAYLOAD_OVERHEAD = Math.max(CHECKED_HEAD_BYTES, ENCRYPTION_OVERHEAD);
/** With what a JSON text begins: white space, or the first byte of a value. */
const JSON_STARTS: ReadonlySet<number> = new Set(Buffer.from('\t\n\r "-0123456789[fnt{'));
/** A checked text begins with this member, whose value is 8 hex digits. */
const TEXT_SUM = '{"crc":"';
const TEXT_HEAD_CHARACTERS = TEXT_SUM.length + 10;

export class PayloadCodec {
  #cipher: PayloadCipher | null;

  /** Without keys it encrypts nothing, and decrypts nothing. */
  constructor(keys: PayloadKeySet | null = null) {
    this.#cipher = keys === null ? null : new PayloadCipher(keys);
  }

  use(keys: PayloadKeySet): void {
    this.#cipher = new PayloadCipher(keys);
  }

  /** Returns what is kept of a document. */
  encode(document: Uint8Array): Uint8Array {
    if (this.#cipher?.encrypts === true) return this.#cipher.encrypt(document);
    const stored = Buffer.allocUnsafe(CHECKED_HEAD_BYTES + document.length);
    stored[0] = CHECKED;
    stored.writeUInt32LE(crc32(document), 1);
    stored.set(document, CHECKED_HEAD_BYTES);
    return stored;
  }

  /** Returns the document of what {@link encode} returned. */
  decode(stored: Uint8Array): Uint8Array | Damaged {
    const [first] = stored;
    if (first === CHECKED) {
      const document = stored.subarray(CHECKED_HEAD_BYTES);
      const isWhole = stored.length >= CHECKED_HEAD_BYTES && crc32(document) === asBuffer(stored).readUInt32LE(1);
      return isWhole ? document : { damaged: 'its checksum does not match its bytes' };
    }
    if (first === ENCRYPTED) return this.#cipher?.decrypt(asBuffer(stored)) ?? { damaged: 'it is encrypted, and there is no key' };
    if (first === undefined || JSON_STARTS.has(first)) return stored;
    return { damaged: 'its bytes are no document' };
  }

  /** Returns a JSON object's text with a checksum, itself an object. */
  encodeText(text: string): string {
    const rest = text.slice(1);
    return `${TEXT_SUM}${sumOf(rest)}"${rest === '}' ? '' : ','}${rest}`;
  }

  /** Returns the text that {@link encodeText} was called with, or the text of an earlier version. */
  decodeText(stored: string): string | Damaged {
    if (!stored.startsWith(TEXT_SUM)) return stored;
    const rest = stored.slice(TEXT_HEAD_CHARACTERS - (stored[TEXT_HEAD_CHARACTERS - 1] === ',' ? 0 : 1));
    const sum = stored.slice(TEXT_SUM.length, TEXT_SUM.length + 8);
    return sum === sumOf(rest) ? `{${rest}` : { damaged: 'its checksum does not match its text' };
  }
}

function sumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, '0');
}

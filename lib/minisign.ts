/**
 * Signatures in the format of minisign (https://jedisct1.github.io/minisign/), so that its tool verifies ours and ours verifies its own:
 * Ed25519 over the BLAKE2b-512 hash of the file, and a second signature over the first one with its trusted comment.
 */
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, sign, verify, type KeyObject } from 'node:crypto';

const ALGORITHM = Buffer.from('Ed');
const HASHED = Buffer.from('ED');
const KEY_ID_BYTES = 8;
const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;
/** DER of a public and of a private Ed25519 key, up to the key's own bytes (RFC 8410). */
const SPKI = Buffer.from('302a300506032b6570032100', 'hex');
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');

export interface PublicKey {
  /** In hexadecimal, as minisign prints it. */
  readonly id: string;
  readonly key: KeyObject;
}

export interface SecretKey extends PublicKey {
  readonly secret: KeyObject;
  /** The text of the file of the public key. */
  readonly publicText: string;
}

/** Makes a key pair; returns the text of its secret file, without a password, for {@link readSecretKey}. */
export function makeSecretKey(): string {
  const { privateKey } = generateKeyPairSync('ed25519');
  const seed = privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(PKCS8.length);
  return `capstan release key\n${Buffer.concat([randomBytes(KEY_ID_BYTES), seed]).toString('base64')}\n`;
}

/** Reads a secret key. @throws Error when the text is none. */
export function readSecretKey(text: string): SecretKey {
  const bytes = Buffer.from(text.split('\n')[1] ?? '', 'base64');
  if (bytes.length !== KEY_ID_BYTES + KEY_BYTES) throw new Error('the text is not a release key');
  const id = bytes.subarray(0, KEY_ID_BYTES);
  const secret = createPrivateKey({ key: Buffer.concat([PKCS8, bytes.subarray(KEY_ID_BYTES)]), format: 'der', type: 'pkcs8' });
  const key = createPublicKey(secret);
  const point = key.export({ format: 'der', type: 'spki' }).subarray(SPKI.length);
  const base64 = Buffer.concat([ALGORITHM, id, point]).toString('base64');
  return { id: shownId(id), key, secret, publicText: `untrusted comment: minisign public key ${shownId(id)}\n${base64}\n` };
}

/** Reads a public key: the text of its file, or its second line alone. @throws Error when the text is none. */
export function readPublicKey(text: string): PublicKey {
  const lines = text.trim().split('\n');
  const bytes = Buffer.from(lines.at(-1) ?? '', 'base64');
  if (bytes.length !== 2 + KEY_ID_BYTES + KEY_BYTES || !bytes.subarray(0, 2).equals(ALGORITHM))
    throw new Error('the text is not a minisign public key');
  const key = createPublicKey({ key: Buffer.concat([SPKI, bytes.subarray(2 + KEY_ID_BYTES)]), format: 'der', type: 'spki' });
  return { id: shownId(bytes.subarray(2, 2 + KEY_ID_BYTES)), key };
}

/** Signs a file's bytes; returns the text of the signature's file. `comment` is signed, too. */
export function signature(bytes: Uint8Array, { id, secret }: SecretKey, comment: string): string {
  const first = sign(null, hashOf(bytes), secret);
  const global = sign(null, Buffer.concat([first, Buffer.from(comment)]), secret);
  const body = Buffer.concat([HASHED, hiddenId(id), first]).toString('base64');
  const lines = ['untrusted comment: signature from a Capstan release key', body, `trusted comment: ${comment}`, global.toString('base64')];
  return `${lines.join('\n')}\n`;
}

/** Returns the trusted comment of a valid signature. @throws Error that says what does not fit. */
export function verifySignature(bytes: Uint8Array, text: string, { id, key }: PublicKey): string {
  const [, body = '', commentLine = '', globalText = ''] = text.split('\n');
  const parts = Buffer.from(body, 'base64');
  const global = Buffer.from(globalText, 'base64');
  if (
    parts.length !== 2 + KEY_ID_BYTES + SIGNATURE_BYTES ||
    global.length !== SIGNATURE_BYTES ||
    !commentLine.startsWith('trusted comment: ')
  )
    throw new Error('the signature is not in the format of minisign');
  const signer = shownId(parts.subarray(2, 2 + KEY_ID_BYTES));
  if (signer !== id) throw new Error(`the signature is of the key ${signer}, not of ${id}`);
  const first = parts.subarray(2 + KEY_ID_BYTES);
  const isHashed = parts.subarray(0, 2).equals(HASHED);
  if (!verify(null, isHashed ? hashOf(bytes) : bytes, key, first)) throw new Error('the signature does not fit the file');
  const comment = commentLine.slice('trusted comment: '.length);
  if (!verify(null, Buffer.concat([first, Buffer.from(comment)]), key, global)) throw new Error('the trusted comment was changed');
  return comment;
}

function hashOf(bytes: Uint8Array): Buffer {
  return createHash('blake2b512').update(bytes).digest();
}

/** minisign prints the id as a little-endian number. */
function shownId(id: Uint8Array): string {
  return Buffer.from(id).reverse().toString('hex').toUpperCase();
}

function hiddenId(id: string): Buffer {
  return Buffer.from(id, 'hex').reverse();
}

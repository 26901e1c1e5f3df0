/**
 * The name of a body: `body/<32 random hex digits>.<SHA-256 of its stored bytes in hex>`. A reference to a body therefore
 * says which bytes are right. It ends with `.aes` if they are encrypted. Names of earlier versions have no digest.
 */
const BODY = /^body\/[0-9a-f]{32}(?:\.([0-9a-f]{64})(?:\.aes)?)?$/;
/** Last characters of the name of a body that is encrypted. */
export const ENCRYPTED_END = '.aes';

/** Whether the text has the form of a body's name. */
export function isBodyId(id: string): boolean {
  return BODY.test(id);
}

/** Returns the SHA-256 of the stored bytes, hex; null for a build's name, and for a body's of earlier versions. */
export function digestOfBody(id: string): string | null {
  return BODY.exec(id)?.[1] ?? null;
}

/** Whether the stored bytes are encrypted. */
export function isEncryptedBody(id: string): boolean {
  return id.endsWith(ENCRYPTED_END);
}

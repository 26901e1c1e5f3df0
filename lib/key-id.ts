/** Characters of a key's hash, in hexadecimal digits, that form its id. */
const LENGTH = 12;

export const KEY_ID = /^[0-9a-f]{12}$/;

/** The id of an API key: the beginning of its hash, which says nothing of the key. */
export function keyId(hash: string): string {
  return hash.slice(0, LENGTH);
}

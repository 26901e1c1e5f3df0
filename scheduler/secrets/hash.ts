/**
 * Keys and tokens are stored as SHA-256 (invariant 10). A plain hash is enough because
 * they are long and random: there is nothing to guess that slow hashing would protect.
 */
import { createHash, timingSafeEqual } from 'node:crypto';

/** SHA-256 of a key's or token's text, 32 bytes. */
export function hashKey(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}

/** Compares two hashes without telling by its duration where they differ. */
export function sameHash(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}

/** True when `given` is the secret; of neither text does the duration tell anything. */
export function sameSecret(given: string, secret: string): boolean {
  return sameHash(hashKey(given), hashKey(secret));
}

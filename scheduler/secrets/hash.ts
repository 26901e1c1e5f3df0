/**
 * Keys and tokens are stored as SHA-256 (invariant 10). A plain hash is sufficient because they are long and random, so
 * slow hashing would add no protection against guesses.
 */
import { createHash, timingSafeEqual } from 'node:crypto';

/** Returns the SHA-256 of a key or token in plaintext, 32 bytes. */
export function hashKey(text: string): Buffer {
  return createHash('sha256').update(text, 'utf8').digest();
}

/** Compares two hashes in constant time. */
export function sameHash(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Whether `given` is the secret. The duration reveals nothing about either text. */
export function sameSecret(given: string, secret: string): boolean {
  return sameHash(hashKey(given), hashKey(secret));
}

/**
 * Names of blobs. A build is named by its content, `build/<SHA-256 in hex>`; a body by a random id and the digest of its
 * bytes (body-id.ts). Only names of exactly one of these forms become a path.
 */
import { randomBytes } from 'node:crypto';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { CapstanError } from '../../lib/errors.ts';
import { ENCRYPTION_OVERHEAD } from '../store/payload-cipher.ts';
import { ENCRYPTED_END, isBodyId, isEncryptedBody } from '../../lib/body-id.ts';

export type BlobKind = 'build' | 'body';

/** Limit for a build, bytes. */
export const MAX_BUILD_BYTES = ARTIFACT_LIMITS.bytes;

/** Limit for a body: 20 MiB, and room for the overhead of the encoding. */
export const MAX_BODY_BYTES = 21 * 1024 * 1024;

/** Limit for a blob of this kind, bytes. */
export function maxBytes(kind: BlobKind): number {
  return kind === 'build' ? MAX_BUILD_BYTES : MAX_BODY_BYTES;
}

/** Returns the name of the build with this digest. */
export function buildId(digest: string): string {
  return `build/${checkDigest(digest)}`;
}

/** Returns a new name for a body whose stored bytes have this SHA-256. */
export function newBodyId(digest: string, isEncrypted: boolean): string {
  return `body/${randomBytes(16).toString('hex')}.${checkDigest(digest)}${isEncrypted ? ENCRYPTED_END : ''}`;
}

/** Returns the length of a blob that has this many stored bytes. */
export function lengthOf(id: string, stored: number): number {
  return isEncryptedBody(id) ? Math.max(0, stored - ENCRYPTION_OVERHEAD) : stored;
}

/** Whether the text has the form of a blob's name. */
export function isBlobId(id: string): boolean {
  return /^build\/[0-9a-f]{64}$/.test(id) || isBodyId(id);
}

/** Returns the id if it has the form of a blob's name. */
export function checkBlobId(id: string): string {
  if (isBlobId(id)) return id;
  throw new CapstanError(
    'INVALID_ARGUMENT',
    'id must be build/<64 hex digits> or body/<32 hex digits>.<64 hex digits>, with .aes if it is encrypted',
    { field: 'id' },
  );
}

/** The error for a blob that does not exist or is not the caller's. */
export function blobNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `blob ${id} does not exist`, { field: 'id' });
}

/** The error for a body whose bytes are not those that were stored. */
export function bodyDamaged(id: string, how = 'its bytes do not match their SHA-256'): CapstanError {
  return new CapstanError('PAYLOAD_DAMAGED', `${id.split('.', 1)[0] ?? ''} is damaged in the blob store: ${how}`);
}

/**
 * Returns the path of a blob below the store's folder. The first two digits select a subfolder, which bounds the size
 * of each folder.
 */
export function blobPath(id: string): string {
  const [kind = '', name = ''] = checkBlobId(id).split('/');
  return `${kind}/${name.slice(0, 2)}/${name}`;
}

/** Returns the digest if it is a SHA-256 in lower-case hex. */
export function checkDigest(digest: string): string {
  if (!/^[0-9a-f]{64}$/.test(digest))
    throw new CapstanError('INVALID_ARGUMENT', 'digest must be a SHA-256 of 64 lower-case hex digits', { field: 'digest' });
  return digest;
}

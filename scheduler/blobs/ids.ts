/**
 * Names of blobs. A build is named by its content, `build/<SHA-256 in hex>`; a body by chance,
 * `body/<32 hex digits>`. Only what has exactly one of these forms ever becomes a path.
 */
import { randomBytes } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';

export type BlobKind = 'build' | 'body';

/** The most bytes of a build. */
export const MAX_BUILD_BYTES = 500_000_000;

/** The most bytes of a body: 20 MiB, and room for what encoding adds. */
export const MAX_BODY_BYTES = 21 * 1024 * 1024;

/** The most bytes of a kind. */
export function maxBytes(kind: BlobKind): number {
  return kind === 'build' ? MAX_BUILD_BYTES : MAX_BODY_BYTES;
}

/** Name of the build with this digest. */
export function buildId(digest: string): string {
  return `build/${checkDigest(digest)}`;
}

/** A new name for a body. */
export function newBodyId(): string {
  return `body/${randomBytes(16).toString('hex')}`;
}

/** True when the text has the form of a blob's name. */
export function isBlobId(id: string): boolean {
  return /^(?:build\/[0-9a-f]{64}|body\/[0-9a-f]{32})$/.test(id);
}

/** The id, when it has the form of one. */
export function checkBlobId(id: string): string {
  if (isBlobId(id)) return id;
  throw new CapstanError('INVALID_ARGUMENT', 'id must be build/<64 hex digits> or body/<32 hex digits>', { field: 'id' });
}

/** The refusal of a blob that is not there, or not for the caller. */
export function blobNotFound(id: string): CapstanError {
  return new CapstanError('NOT_FOUND', `blob ${id} does not exist`, { field: 'id' });
}

/** True when the text has the form of a body's name. */
export function isBodyId(id: string): boolean {
  return /^body\/[0-9a-f]{32}$/.test(id);
}

/** Where a blob lies below the store's folder: fanned out by the first two digits, so that no folder grows without bound. */
export function blobPath(id: string): string {
  const [kind = '', name = ''] = checkBlobId(id).split('/');
  return `${kind}/${name.slice(0, 2)}/${name}`;
}

/** The digest itself, when it is a SHA-256 in lower-case hex. */
export function checkDigest(digest: string): string {
  if (!/^[0-9a-f]{64}$/.test(digest))
    throw new CapstanError('INVALID_ARGUMENT', 'digest must be a SHA-256 of 64 lower-case hex digits', { field: 'digest' });
  return digest;
}

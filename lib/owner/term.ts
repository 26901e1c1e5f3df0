/** What a scheduler says about the ownership of the queue, in the metadata of its responses. */
import type { Metadata, StatusObject } from '@grpc/grpc-js';

/** Term of the owner, decimal, in the initial metadata of its responses. */
const TERM_KEY = 'capstan-term';
/** Address of the owner, `host:port`, with the status of a standby. */
const OWNER_KEY = 'capstan-owner';
const ERROR_KEY = 'capstan-error';
const MAX_TERM_DIGITS = 18;

/** Returns the term; undefined for a scheduler without one (SQLite) and for anything other than a number. */
export function termOf(metadata: Metadata | undefined): bigint | undefined {
  const text = metadata?.get(TERM_KEY)[0]?.toString() ?? '';
  return text.length <= MAX_TERM_DIGITS && /^\d+$/.test(text) ? BigInt(text) : undefined;
}

/** True for the status of a scheduler that does not own the queue: it has not read the call. */
export function isNotOwner({ metadata }: StatusObject): boolean {
  return metadata?.get(ERROR_KEY)[0]?.toString() === 'NOT_OWNER';
}

/** Returns the owner that a standby names. */
export function namedOwner({ metadata }: StatusObject): string | undefined {
  return metadata?.get(OWNER_KEY)[0]?.toString();
}

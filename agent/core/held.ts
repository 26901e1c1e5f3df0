/**
 * What attempts hold in the agent's memory, by account: chunks that the caller has not read, and outputs that the
 * scheduler has not acknowledged. An account has a part of the node's memory for them.
 *
 *  - Above the part its generators get no credit, as when an attempt's own log is full ({@link isCrowded}).
 *  - Far above it, which chunks that were granted before and large results can reach, its workers are not read until it
 *    has shrunk ({@link crowdedOut}).
 */
import type { Attempt, State } from './state.ts';

const MEBIBYTE = 1024 * 1024;
/** Bytes of one account. */
export const ACCOUNT_BYTES = 16 * MEBIBYTE;
/** Bytes of all accounts; each has the same part of it, and no more than ACCOUNT_BYTES. */
const NODE_BYTES = 128 * MEBIBYTE;
/** What an account may hold beyond its part before its workers are no longer read, bytes. */
const SLACK_BYTES = 4 * MEBIBYTE;

/** Returns the bytes that each account holds. */
export function heldBytes(state: State): Map<string, number> {
  const held = new Map<string, number>();
  for (const attempt of state.attempts.values()) {
    const bytes = bytesOf(attempt);
    if (bytes > 0) held.set(attempt.accountId, (held.get(attempt.accountId) ?? 0) + bytes);
  }
  return held;
}

/** Whether the account of an attempt holds its part. */
export function isCrowded(state: State, accountId: string): boolean {
  const held = heldBytes(state);
  return (held.get(accountId) ?? 0) > partOf(held.size);
}

/** Returns the accounts whose workers must not be read now. */
export function crowdedOut(state: State): Set<string> {
  const held = heldBytes(state);
  const most = partOf(held.size) + SLACK_BYTES;
  return new Set([...held].filter(([, bytes]) => bytes >= most).map(([account]) => account));
}

function partOf(accounts: number): number {
  return Math.min(ACCOUNT_BYTES, NODE_BYTES / Math.max(1, accounts));
}

function bytesOf({ chunks, end }: Attempt): number {
  return (chunks?.bytes ?? 0) + (end?.bytes ?? 0);
}

/**
 * Bytes of bodies by account: inputs, outputs, chunks, and the copies that webhooks keep. The store counts the blobs that
 * its rows name, each once, and the bodies that the rows hold themselves. The core adds those without a row: uncommitted
 * operations, and chunks of running attempts. Between a commit and the store's next count an operation counts in both,
 * never in neither, so jobs cannot exceed the quota. Webhooks' copies of inputs in rows can: the end of a job is not refused for
 * them, and they count from the store's next count on.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { invariant } from '../../../lib/invariant.ts';
import type { Payload } from '../../../lib/payload.ts';

import type { BodyReservation } from '../effects.ts';
import type { CoreEvent } from '../events.ts';
import type { State } from '../state.ts';
import { bodyQuotaOf } from '../endpoints/quotas.ts';

/** Most bytes by which a body in a row is longer than its document: its checksum or encryption (store/payload-codec.ts). */
export const INLINE_OVERHEAD_BYTES = 33;

/** Returns the bytes that a body counts for its account; 0 without one. */
export function countedBytes(body: Payload | null): number {
  if (body === null) return 0;
  return 'inline' in body ? body.inline.length + INLINE_OVERHEAD_BYTES : body.blob.size;
}

/** Returns the bytes of the account's bodies. */
export function bodyBytesOf(state: State, account: string): number {
  const use = state.bodyUse.get(account);
  return use === undefined ? 0 : use.stored + use.pending;
}

/** A body that an account wants to store in addition. */
export interface WantedBody {
  readonly size: number;
  /** Bytes that it adds together with other bodies of the same request. */
  readonly adds: number;
  /** The job's field: `input`, `output` or `stream`. */
  readonly field: string;
}

/** Returns why the account may not store another body; null if it may. */
export function bodyRefusal(state: State, account: string, { size, adds, field }: WantedBody): CapstanError | null {
  if (adds <= 0) return null;
  const used = bodyBytesOf(state, account) + adds - size;
  const quota = bodyQuotaOf(state, account);
  if (used + size <= quota) return null;
  const message =
    `${field}: ${size} more bytes would exceed the account's quota of bodies; its jobs and webhooks use ${used} of ${quota} bytes. ` +
    `Wait until some are deleted, or ask an operator to raise the quota: capstan account set ${account} --body-bytes <bytes>`;
  return new CapstanError('QUOTA_EXCEEDED', message, { field });
}

/** Adds bytes that are not yet, or no longer, in the store's count. */
export function addPending(state: State, account: string, bytes: number): void {
  if (bytes === 0) return;
  const use = state.bodyUse.get(account) ?? { stored: 0, pending: 0 };
  use.pending += bytes;
  invariant(use.pending >= 0, 'bytes that are settled were pending', { account, pending: use.pending, bytes });
  if (use.stored === 0 && use.pending === 0) state.bodyUse.delete(account);
  else state.bodyUse.set(account, use);
}

/** Returns the reservation of an operation that is written now; null if it has no bodies. */
export function reserve(state: State, account: string | undefined, bytes: number): BodyReservation | null {
  if (account === undefined || bytes === 0) return null;
  addPending(state, account, bytes);
  return { account, bytes };
}

/** Handles a count that the store made after the operations of these reservations were committed or refused. */
export function bodiesCounted(state: State, { stored, settled }: Extract<CoreEvent, { kind: 'bodies-counted' }>): void {
  for (const [account, use] of state.bodyUse) {
    use.stored = 0;
    if (!stored.has(account) && use.pending === 0) state.bodyUse.delete(account);
  }
  for (const [account, bytes] of stored) state.bodyUse.set(account, { stored: bytes, pending: state.bodyUse.get(account)?.pending ?? 0 });
  for (const [account, bytes] of settled) addPending(state, account, -bytes);
}

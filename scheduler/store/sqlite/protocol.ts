/**
 * The messages between the client and the store thread. Requests are answered in order, so they carry no numbers. A
 * packed batch is posted as the bare buffer, because it is on the hot path.
 */
import type { MessagePort } from 'node:worker_threads';

import { CapstanError, type ErrorCode } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import type { PayloadKeySet } from '../../secrets/payload-keys.ts';
import type { HistoryRange, HistoryRow } from '../history.ts';
import type { DeviceHistoryChange } from '../device-history.ts';
import type { QueueReasonStore } from '../queue-reasons.ts';
import type { CheckLimits } from './check/database-check.ts';
import { StaleTermError, type Fence, type Reads } from '../../core/ports/store.ts';

export interface ThreadData {
  readonly file: string;
  readonly checkpointPages: number | null;
  readonly mustExist: boolean;
  readonly payloadKeys: PayloadKeySet | null;
  readonly check: CheckLimits;
}

export type StoreRequest =
  | ArrayBuffer
  | { readonly ask: 'read'; readonly query: keyof Reads; readonly args: readonly unknown[] }
  | { readonly ask: 'acquire'; readonly cell: number; readonly owner: string; readonly forMs: number }
  | { readonly ask: 'save-history'; readonly rows: readonly HistoryRow[] }
  | { readonly ask: 'history'; readonly range: HistoryRange }
  | { readonly ask: 'queue-reasons'; readonly call: keyof QueueReasonStore; readonly args: readonly unknown[] }
  | { readonly ask: 'device-history'; readonly change: DeviceHistoryChange }
  /** Answered at once; the result is sent on the port. */
  | { readonly ask: 'snapshot'; readonly file: string; readonly port: MessagePort }
  /** Payloads of later requests are encrypted and decrypted with these. */
  | { readonly ask: 'payload-keys'; readonly keys: PayloadKeySet }
  | { readonly ask: 'close' };

/** The result of a snapshot. */
export type SnapshotEnd = { readonly ended: 'done' } | { readonly ended: 'failed'; readonly failure: Failure };

/** Null: done, and for a batch all outcomes `ok`. */
export type StoreReply = null | ArrayBuffer | { readonly value: unknown } | { readonly failure: Failure };

/** Sent without a request: the database is damaged. */
export interface Notice {
  readonly lost: Failure;
}

/** An error in a form that can be cloned between threads. */
export interface Failure {
  /** `stale` and `range` are caused by the caller and leave the store working; any other kind ends it. */
  readonly kind: 'stale' | 'range' | 'coded' | 'other';
  readonly code: ErrorCode | null;
  readonly message: string;
}

export function toFailure(error: unknown): Failure {
  const message = messageOf(error);
  if (error instanceof StaleTermError) return { kind: 'stale', code: null, message };
  if (error instanceof CapstanError) return { kind: 'coded', code: error.code, message };
  if (error instanceof RangeError) return { kind: 'range', code: null, message };
  return { kind: 'other', code: null, message };
}

/** `fence` is the batch's, for a stale term. */
export function fromFailure(failure: Failure, fence: Fence | null): Error {
  if (failure.kind === 'stale' && fence !== null) return new StaleTermError(fence);
  if (failure.kind === 'range') return new RangeError(failure.message);
  return new CapstanError(failure.code ?? 'INTERNAL', failure.message);
}

export function isFailure(answer: StoreReply): answer is { readonly failure: Failure } {
  return answer !== null && typeof answer === 'object' && 'failure' in answer;
}

export function isNotice(message: StoreReply | Notice): message is Notice {
  return message !== null && typeof message === 'object' && 'lost' in message;
}

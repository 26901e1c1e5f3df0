/** Jobs in memory: those that are leased, a head window of every queue, and who waits for them. */
import type { Payload } from '../../../lib/payload.ts';
import type { JobKind, Lease } from '../../store/store.ts';
import type { Deadline } from '../deadlines.ts';
import type { Usage } from '../jobs/rate-limits.ts';
import type { Phase } from '../jobs/transitions.ts';

/** A job that is leased or in a head window. */
export interface JobRecord {
  readonly seq: number;
  readonly id: string;
  readonly endpoint: string;
  readonly kind: JobKind;
  readonly priority: 0 | 1;
  readonly executionTimeoutMs: number;
  readonly ttlMs: number;
  readonly retentionMs: number;
  readonly webhook: string | null;
  readonly hasS3: boolean;
  /** Changed by `applyEvent` alone (job-records.ts). */
  readonly phase: Phase;
  queuePosition: number;
  token: number;
  attempts: number;
  submittedAt: number;
  deleteAt: number;
  lease: Lease | null;
  /** Wall time the present attempt was entered, null before. */
  startedAt: number | null;
  /** The start is in the store. */
  startRecorded: boolean;
  recordStart: Deadline<Due> | null;
  /** Worker of the present or last attempt. */
  worker: string | null;
  progress: Payload | null;
  stream: StreamBuffer | null;
}

/** Chunks of the present attempt that no reader is known to have, without a gap. */
export interface StreamBuffer {
  /** Index of the first kept chunk. */
  first: number;
  /** Index of the chunk after the last one that came. */
  next: number;
  chunks: Payload[];
  bytes: number;
}

/** Chunks that were answered last, and that nobody has said to have received yet. */
export interface HandedChunks {
  readonly channel: number;
  readonly token: number;
  /** Index after the last of them. */
  readonly next: number;
}

/** What a reader of a stream has: the chunks of this attempt below `next`. */
export interface Cursor {
  readonly token: number;
  readonly next: number;
  /** It has no others, even if they were answered. */
  readonly exact: boolean;
}

/** A gateway request that waits for a job's end or its next chunk. */
export interface Waiter {
  readonly channel: number;
  readonly request: number;
  readonly endpoint: string;
  readonly job: string;
  readonly mode: 'job' | 'stream';
  /** Mode stream: what the reader has. */
  readonly after: Cursor | null;
  /** It was asked before on another channel, whose answers may be lost. */
  readonly resent: boolean;
  /** It is a submission whose Idempotency-Key led to this job. */
  readonly byKey: boolean;
  /** When it is answered as things stand then; null for one that only awaits a read. */
  deadline: Deadline<Due> | null;
  /** What the request counts towards until it is answered. */
  readonly usage: Usage | null;
  /** Answer with the present state as soon as it is read. */
  immediate: boolean;
  done: boolean;
}

/** One priority of one endpoint's queue. */
export interface Lane {
  /** Queued jobs in order of position; entries whose phase is not QUEUED any more are skipped. */
  window: JobRecord[];
  /** Index of the first entry of `window` that was not consumed. */
  head: number;
  /** The window holds every queued job at or below this position; Infinity when it holds all. */
  covered: number;
  /** Queued jobs in all. */
  count: number;
  /** A refill is being read; what changed since it was asked for. */
  refill: { added: boolean; removed: Set<number> } | null;
}

export function emptyLane(complete: boolean): Lane {
  return { window: [], head: 0, covered: complete ? Number.POSITIVE_INFINITY : -1, count: 0, refill: null };
}

/** What a deadline is about. */
export type Due =
  | { readonly kind: 'waiter'; readonly waiter: Waiter }
  | { readonly kind: 'record-start'; readonly job: JobRecord; readonly token: number }
  | { readonly kind: 'silence'; readonly node: string }
  | { readonly kind: 'grace'; readonly node: string }
  | { readonly kind: 'scale' }
  /** Room was made: endpoints without a place are looked at. */
  | { readonly kind: 'room' }
  | { readonly kind: 'key-expiry'; readonly hash: string }
  /** Builds that nobody deployed may have to go. */
  | { readonly kind: 'build-sweep' }
  | { readonly kind: 'refill'; readonly endpoint: string };

/** Jobs in memory: leased jobs, a head window of every queue, and the waiters. */
import type { Payload } from '../../../lib/payload.ts';
import type { KeptFields } from '../ports/columns.ts';
import type { Lease } from '../ports/store.ts';
import type { Deadline } from './deadlines.ts';
import type { Usage } from './rate-limits.ts';
import type { Phase } from './transitions.ts';

/** A job that is leased or in a head window. */
export interface JobRecord extends KeptFields {
  /** Attempts that ended, JSON text (past-attempts.ts). */
  pastAttempts: string | null;
  /** Changed only by `applyEvent` (job-records.ts). */
  readonly phase: Phase;
  queuePosition: number;
  token: number;
  attempts: number;
  submittedAt: number;
  /** Wall time since which it waits: its submission, or its return to the queue as far as that is in memory. For traces and incidents. */
  queuedAt: number;
  deleteAt: number;
  lease: Lease | null;
  /** Wall time of the present lease; null if it is not known. */
  leasedAt: number | null;
  /** Wall time at which the present attempt was entered; null before. */
  startedAt: number | null;
  /** The start is in the store. */
  startRecorded: boolean;
  recordStart: Deadline<Due> | null;
  /** Worker of the present or last attempt. */
  worker: string | null;
  progress: Payload | null;
  stream: StreamBuffer | null;
}

/** Chunks of the present attempt that no reader is known to have, without gaps. */
export interface StreamBuffer {
  /** Index of the first kept chunk. */
  first: number;
  /** Index after the last received chunk. */
  next: number;
  chunks: Payload[];
  bytes: number;
}

/** Chunks of the last reply that no reader has acknowledged yet. */
export interface HandedChunks {
  readonly channel: number;
  readonly token: number;
  /** Index after the last of them. */
  readonly next: number;
}

/** A reader's position in a stream: it has the chunks of this attempt below `next`. */
export interface Cursor {
  readonly token: number;
  readonly next: number;
  /** It has no others, even if they were sent. */
  readonly exact: boolean;
}

/** A gateway request that waits for a job's end or its next chunk. */
export interface Waiter {
  readonly channel: number;
  readonly request: number;
  readonly endpoint: string;
  readonly job: string;
  readonly mode: 'job' | 'stream';
  /** Mode stream: the reader's position. */
  readonly after: Cursor | null;
  /** It was sent before on another channel, whose replies may be lost. */
  readonly resent: boolean;
  /** It is a submission whose Idempotency-Key led to this job. */
  readonly byKey: boolean;
  /** When it gets a reply with the state at that time; null for one that waits only for a read. */
  deadline: Deadline<Due> | null;
  /** The usage that the request counts towards until the reply. */
  readonly usage: Usage | null;
  /**
   * It waits for a job whose submission the store may still refuse, because its key belongs to another job: only a read, which
   * returns after the outcomes of all earlier writes, shows that the job exists.
   */
  isUnconfirmed: boolean;
  /** Reply with the present state as soon as it is read. */
  immediate: boolean;
  done: boolean;
}

/** One priority of one endpoint's queue. */
export interface Lane {
  /** Queued jobs in order of position. Entries whose phase is no longer QUEUED are skipped. */
  window: JobRecord[];
  /** Index of the first unconsumed entry of `window`. */
  head: number;
  /** The window holds every queued job at or below this position; Infinity if it holds all. */
  covered: number;
  /** Number of all queued jobs. */
  count: number;
  /** A refill is being read; the changes since its request. Those removed by position: a job that is retried has another one. */
  refill: { added: boolean; removed: Set<number> } | null;
}

export function emptyLane(complete: boolean): Lane {
  return { window: [], head: 0, covered: complete ? Number.POSITIVE_INFINITY : -1, count: 0, refill: null };
}

/** The subject of a deadline. */
export type Due =
  | { readonly kind: 'waiter'; readonly waiter: Waiter }
  | { readonly kind: 'record-start'; readonly job: JobRecord; readonly token: number }
  | { readonly kind: 'silence'; readonly node: string }
  | { readonly kind: 'grace'; readonly node: string }
  | { readonly kind: 'scale' }
  /** There is room: endpoints without a place are checked. */
  | { readonly kind: 'room' }
  | { readonly kind: 'key-expiry'; readonly hash: string }
  /** Undeployed builds may be due for deletion. */
  | { readonly kind: 'build-sweep' }
  | { readonly kind: 'refill'; readonly endpoint: string }
  /** Failed deliveries to a host are to be summed up in the log. */
  | { readonly kind: 'webhook-warning'; readonly host: string };

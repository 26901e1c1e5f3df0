/**
 * The core's interface to the store, with a driver per database. The core holds the authoritative state of its current
 * work; the store makes it durable and holds everything else (queue tails, bodies, ended jobs).
 *
 * Jobs are addressed by `seq`, a number that the core assigns once and never reuses. Every guarded operation names the
 * state it expects; a failed guard is that operation's outcome and does not affect the other operations of the batch.
 */

import type { Payload } from '../../../lib/payload.ts';
import type { deliveryHead, jobRow, RowOf, StoredState } from './columns.ts';
import type { StoredPayload } from './stored-payload.ts';

export type { DeliveryState, JobKind, StoredState } from './columns.ts';

/** The holder of a job's lease (invariant 2). The token is in the row. */
export interface Lease {
  readonly node: string;
  readonly incarnation: string;
  readonly worker: string;
}

/** All data of a job except its bodies. */
export interface JobRow extends Omit<RowOf<typeof jobRow>, 'node' | 'incarnation'> {
  readonly lease: Lease | null;
}

/**
 * The webhook delivery of an ended job as the core creates it, written with the end. The driver adds copies of the
 * job's input and output, so that a delivery no longer depends on its job.
 */
export interface NewDelivery extends Pick<DeliveryHead, 'account' | 'endpoint' | 'url' | 'host'> {
  /** `<job id>_<token>`: the stable webhook-id. It contains no full stop, the separator of the signed content. */
  readonly id: string;
  /** The payload without input and output, a JSON object; besides, `trace`: the trace context of the job, if it has one. */
  readonly envelope: string;
  /** First try, wall clock ms. */
  readonly dueAt: number;
}

/** A delivery without its payload. */
export type DeliveryHead = RowOf<typeof deliveryHead>;

/** A delivery with its payload. */
export interface DeliveryRow extends DeliveryHead {
  /** Empty where it is damaged; then so is the input. */
  readonly envelope: string;
  readonly input: StoredPayload;
  readonly output: StoredPayload | null;
}

/** Kinds of control rows: small JSON documents, all loaded at take-over, in this order. */
export const controlKinds = [
  'account',
  'key',
  'environment',
  'secret',
  'alert-channel',
  'endpoint',
  'release',
  'build',
  'deployment',
  'node',
  'join-token',
  'desired',
  'setting',
] as const;
export type ControlKind = (typeof controlKinds)[number];

/**
 * An entry of the audit log. It is put as a control row of the kind `audit`, with its batch, and the database moves it into a table of its
 * own, which only grows: entries are removed {@link AUDIT_KEPT_MS} after their time, with later ones.
 */
export interface AuditRow {
  /** `<account>/<time><number><random>`: in order of time, and of writing by one scheduler, within an account. */
  readonly id: string;
  /** JSON text (scheduler/core/audit.ts). */
  readonly value: string;
}

/** A place in the audit log of a cell, whose entries are in the order of their times, then of their ids. */
export interface AuditPosition {
  /** Wall clock ms. */
  readonly at: number;
  /** Empty: before all entries of that time. */
  readonly id: string;
}

export const AUDIT_KEPT_MS = 90 * 86_400_000;

export interface ControlRow {
  readonly kind: ControlKind;
  readonly key: string;
  /** 1 for the first; each put adds 1. */
  readonly version: number;
  /** JSON text. */
  readonly value: string;
}

export type Op =
  /** Inserts a job, queued or already leased. `exists` if the id is taken. */
  | {
      readonly kind: 'submit';
      readonly job: JobRow;
      readonly input: Payload;
      readonly s3: Uint8Array | null;
      readonly idempotency: { readonly key: string; readonly bodyHash: Uint8Array; readonly expiresAt: number } | null;
    }
  /** IN_QUEUE → LEASED with a token one higher than the row's. */
  | { readonly kind: 'lease'; readonly seq: number; readonly token: number; readonly lease: Lease }
  /** Records the start of the leased attempt. */
  | {
      readonly kind: 'started';
      readonly seq: number;
      readonly token: number;
      readonly startedAt: number;
      readonly attempts: number;
      readonly delayMs: number;
    }
  /** LEASED (with this token) or IN_QUEUE (token as in the row) → a terminal state. */
  | {
      readonly kind: 'finish';
      readonly seq: number;
      readonly from: 'LEASED' | 'IN_QUEUE';
      readonly token: number;
      readonly state: 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';
      readonly endedAt: number;
      readonly deleteAt: number;
      readonly attempts: number;
      readonly delayMs: number | null;
      readonly executionMs: number | null;
      readonly error: string | null;
      readonly output: Payload | null;
      /**
       * Chunks that no reader was known to have when the job ended, in order, and the index of the first one in the
       * attempt's stream.
       */
      readonly chunks: readonly Payload[];
      readonly firstChunk: number;
      readonly delivery: NewDelivery | null;
    }
  /** LEASED (with this token) → IN_QUEUE at its old position. `pastAttempts` replaces the row's. */
  | {
      readonly kind: 'requeue';
      readonly seq: number;
      readonly token: number;
      readonly attempts: number;
      readonly pastAttempts: string | null;
    }
  /**
   * FAILED or TIMED_OUT → IN_QUEUE at a new position. Drops output, chunks, error and times, sets attempts to 0, and
   * increments the token, so that the webhook of the job's next end has a new id. `pastAttempts` replaces the row's.
   */
  | {
      readonly kind: 'retry';
      readonly seq: number;
      readonly queuePosition: number;
      readonly submittedAt: number;
      readonly deleteAt: number;
      readonly pastAttempts: string | null;
    }
  /**
   * Removes a job in any state with its bodies. `gone` if it did not exist. With `dueBy`, only if the row's deleteAt is
   * at or before it (otherwise `stale`): a job may have ended, or been retried, since it was read as due.
   */
  | { readonly kind: 'delete'; readonly seq: number; readonly dueBy: number | null }
  /** Drops the chunks of an ended job with an index below this one: the reader has them. */
  | { readonly kind: 'drain'; readonly seq: number; readonly below: number }
  /** Replaces a job's credentials `from` by ones encrypted with another key; `stale` if the present ones differ. */
  | { readonly kind: 'reencrypt'; readonly seq: number; readonly from: Uint8Array; readonly to: Uint8Array }
  /**
   * Changes a delivery, or removes it (`to` null). `stale` if `after` is given and the row has another number of tries:
   * a redelivery was requested in the meantime.
   */
  | {
      readonly kind: 'delivery';
      readonly id: string;
      readonly after: number | null;
      readonly to: Pick<DeliveryHead, 'state' | 'dueAt' | 'tries' | 'error'> | null;
    }
  /** Writes (value) or removes (null) a control row whose version is `version - 1`; otherwise `conflict`. */
  | {
      readonly kind: 'put';
      readonly rowKind: ControlKind | 'audit';
      readonly key: string;
      readonly version: number;
      readonly value: string | null;
    };

export type Outcome =
  /** `dropped`: blobs that a row named until now and that another row may still name; absent if there are none. */
  | { readonly kind: 'ok'; readonly dropped?: readonly string[] }
  /** submit: a job with this id exists. */
  | { readonly kind: 'exists' }
  /** submit: the idempotency key was used with the same body, for this job id. */
  | { readonly kind: 'idempotent-same'; readonly jobId: string }
  /** submit: the idempotency key was used with another body. */
  | { readonly kind: 'idempotent-other-body' }
  /** The row's state or token is not the expected one. */
  | { readonly kind: 'stale' }
  /** The row does not exist. */
  | { readonly kind: 'gone' }
  /** put: the version is not the expected one. */
  | { readonly kind: 'conflict' };

/** A queued job for the head window, with its input if that is inline and small. */
export interface QueuedJob {
  readonly job: JobRow;
  readonly input: Payload | null;
}

/** A job with its bodies, for status and results. */
export interface WholeJob {
  readonly job: JobRow;
  readonly output: StoredPayload | null;
  readonly chunks: readonly StoredPayload[];
  /** Index of the first chunk in the attempt's stream; 0 without chunks. */
  readonly firstChunk: number;
}

/** The input of a job in which a search looks for text. */
export interface SearchedInput {
  readonly seq: number;
  readonly input: StoredPayload;
}

/** The encrypted credentials of a job. */
export interface EncryptedInput {
  readonly seq: number;
  readonly id: string;
  readonly s3: Uint8Array;
}

/** Counts per endpoint, for take-over only. */
export interface EndpointCounts {
  readonly endpoint: string;
  readonly state: StoredState;
  readonly priority: 0 | 1;
  readonly count: number;
  /** Started attempts beyond each job's first; 0 for queued jobs, which may be too numerous to read. */
  readonly retried: number;
}

/** Bytes of an account's bodies, in the blob store and in rows. */
export interface BodyUsage {
  readonly account: string;
  readonly bytes: number;
}

/** Jobs of an endpoint that pages reach and count: whoever asks for more pays with others' time. Searches go on without an end. */
export const MAX_LISTED = 1_000_000;

export interface HeadWindow {
  readonly endpoint: string;
  readonly priority: 0 | 1;
  /** Jobs with a higher queue position. */
  readonly after: number;
  readonly limit: number;
  /** Inline inputs up to this size, bytes, are read with their jobs. */
  readonly inputLimit: number;
}

export interface DeliveryWindow {
  /** Deliveries due at or before this time, ms since 1970. */
  readonly wall: number;
  /** Hosts and deliveries to exclude, both short lists: the deliveries in progress. */
  readonly skipHosts: readonly string[];
  readonly skipIds: readonly string[];
  /** Limit of deliveries per host. */
  readonly perHost: number;
  readonly limit: number;
}

/**
 * Queries of the cell that the store serves; `blobsNamed` alone covers every cell, because all of them may share one
 * blob store. Every list is bounded by its `limit` argument. A query sees at least the batches that were called before
 * it.
 */
export interface Reads {
  /** Finds a job by id and endpoint, with its output and kept chunks. */
  job(endpoint: string, id: string): WholeJob | null;
  /** The endpoint of a job: an id is unique in its cell. */
  endpointOfJob(id: string): string | null;
  /** The input and the encrypted credentials of a job. */
  payload(seq: number): { readonly input: StoredPayload; readonly s3: Uint8Array | null } | null;
  /** Inputs of these jobs, in order of number, at most as many as there are numbers; what is in the blob store is named only. */
  inputs(seqs: readonly number[]): SearchedInput[];
  /** Jobs with encrypted credentials after a number, in order of number, in any state. */
  encryptedInputs(afterSeq: number, limit: number): EncryptedInput[];
  /** Queued jobs of an endpoint and priority, in order. */
  head(window: HeadWindow): QueuedJob[];
  /** Leased jobs after a number, in order of number. */
  leased(afterSeq: number, limit: number): JobRow[];
  /** Jobs whose deleteAt is at or before `wall`, oldest first, and when the next one is due. */
  due(wall: number, limit: number): { readonly jobs: JobRow[]; readonly nextAt: number | null };
  /** Bodies of a job in the blob store, for removal with it. */
  blobsOf(seq: number): string[];
  /** Returns which of these blob ids are named by a row; for the sweep of orphans. */
  blobsNamed(ids: readonly string[]): string[];
  /**
   * Bytes of the blobs that rows name, each counted once, and of the bodies that rows hold themselves, as they are kept, by
   * account; accounts without any are left out. Read from maintained totals.
   */
  bodyUsage(): BodyUsage[];
  counts(): EndpointCounts[];
  /** Highest `seq` and `queuePosition` assigned; the core continues above them. */
  highest(): { readonly seq: number; readonly queuePosition: number };
  /** A page of an endpoint's jobs, newest first, and their number. Neither goes beyond {@link MAX_LISTED}. */
  page(endpoint: string, state: StoredState | null, offset: number, limit: number): { readonly jobs: WholeJob[]; readonly total: number };
  /** An endpoint's jobs with a position below `before`, newest first, without counting. Null for `state`: all. */
  newest(endpoint: string, state: StoredState | null, before: number, limit: number): JobRow[];
  control(kind: ControlKind, afterKey: string, limit: number): ControlRow[];
  /** Entries of an account's audit log before an id, or from the last one on when it is empty, newest first. */
  audit(account: string, beforeId: string, limit: number): AuditRow[];
  /** Entries of every account that were written in this cell after a position and before `until`, wall clock ms, oldest first. */
  auditAfter(position: AuditPosition, until: number, limit: number): AuditRow[];
  /**
   * Pending deliveries that are due, hosts ordered by their oldest delivery. A host with a long queue costs no more
   * than one with a single delivery. `nextAt`: when the first delivery that is not due yet becomes due.
   */
  deliveries(window: DeliveryWindow): { readonly deliveries: DeliveryHead[]; readonly nextAt: number | null };
  /** One delivery with its payload. */
  delivery(id: string): DeliveryRow | null;
  /**
   * An account's deliveries after an id, pending and failed, in order of id. Deliveries of other accounts add no cost.
   */
  deliveryPage(account: string, afterId: string, limit: number): DeliveryHead[];
  /** The same in the opposite order: deliveries before an id, or from the last one on when it is empty. */
  newestDeliveries(account: string, beforeId: string, limit: number): DeliveryHead[];
  /**
   * The job and body of an idempotency key. Removes nothing: the driver itself removes expired idempotency rows and
   * expired failed deliveries (in small batches).
   */
  idempotency(key: string): { readonly jobId: string; readonly bodyHash: Uint8Array } | null;
}

/** A batch is written under the cell's term; a stale term refuses the whole batch with a {@link StaleTermError}. */
export interface Fence {
  readonly cell: number;
  readonly term: bigint;
}

/** `heldBy` says who has the cell; `address` is where it is reached, `host:port`, if known. */
export type Acquired = { readonly term: bigint } | { readonly heldBy: string; readonly address?: string };

export interface Store {
  /**
   * How long after a confirmed batch was sent no other process takes the cell over for its owner's silence, ms: for so
   * long its owner may run effects. Null if no other process can take it over.
   */
  readonly fenceMs: number | null;
  /**
   * Durable before it resolves; batches take effect in call order. Rejects if no operation of the batch was written.
   * After a rejection with DISK_FULL all batches are refused until the cell is acquired again.
   */
  commit(fence: Fence, ops: readonly Op[]): Promise<Outcome[]>;
  read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>>;
  /**
   * Reads for what people look at (searches, lists, plots), apart from everything else: on connections of its own, within a
   * time limit. Nothing that the service does for programs waits for it. It sees at least the batches that were called before.
   * Rejects with UNAVAILABLE beyond the time limit.
   */
  search<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>>;
  /** Acquires or renews the cell for `forMs`; a new owner gets a higher term. */
  acquire(cell: number, owner: string, forMs: number): Promise<Acquired>;
  /** Resolves when another {@link acquire} may succeed: the cell's owner is gone, or `ms` have passed. */
  waitForTurn(cell: number, ms: number): Promise<void>;
  /**
   * Gives the cell up after the batches that were called before. Batches under its term are refused from then on, reads
   * go on, and another owner gets the cell at once. Who waited for its turn and does not take the cell gives
   * its turn to the next. A cell of another owner is left as it is.
   */
  release(cell: number): Promise<void>;
  /**
   * The wall clock that all owners of a cell share, ms since 1970: of the database, and not before what the former
   * owner wrote. The clock of this host where the store is a file of it.
   */
  now(): number;
  /**
   * Calls `wake` when the cell, owned under this term, may be lost to another process, or the connection is. An idle
   * owner notices it by this only.
   */
  onHint(wake: (cell: number, term: bigint) => void): () => void;
  close(): Promise<void>;
}

/** The synchronous engine of a driver: the thread runs it in production, the simulator in its loop. */
export interface StoreEngine {
  commit(fence: Fence, ops: readonly Op[]): Outcome[];
  read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): ReturnType<Reads[K]>;
  acquire(cell: number, owner: string, forMs: number): { readonly term: bigint } | { readonly heldBy: string };
  close(): void;
}

/** Another owner took the cell: drop the state and take over again before writing. */
export class StaleTermError extends Error {
  constructor(fence: Fence) {
    super(`cell ${fence.cell} is no longer owned in term ${fence.term}`);
    this.name = 'StaleTermError';
  }
}

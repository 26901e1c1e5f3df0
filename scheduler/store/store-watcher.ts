/** An observer of a store on a database server, for metrics and alerts. Calls are made as things happen, and must not throw. */

/** `batch`: a call of the commit function. `read`: a query. `term`: about who owns a cell, the schema, or the clock. */
export type RoundTrip = 'batch' | 'read' | 'term';

/**
 * Why a cell was taken: `first`, it had no owner before; `itself`, this process owned it last and was in doubt; `lock`,
 * its owner released it or its connection ended; `unchanged`, its owner confirmed nothing for too long.
 */
export type TakeOverCause = 'first' | 'itself' | 'lock' | 'unchanged';

/**
 * Why a cell is owned no longer: `released` on request; `stale`, another process has it; `doubt`, a batch had no answer,
 * an uncertain one, or failed, or the connection ended.
 */
export type LossCause = 'released' | 'stale' | 'doubt';

export interface StoreWatcher {
  /** Something was sent to the database, and was answered or failed. */
  roundTrip(kind: RoundTrip): void;
  /** A batch is durable, `ms` after it was sent. One without operations renewed the term. */
  committed(operations: number, ms: number): void;
  /** This process owns the cell from now on. */
  taken(cell: number, cause: TakeOverCause, term: bigint): void;
  /** This process, which owned the cell for `ms`, owns it no longer. */
  lost(cell: number, cause: LossCause, ms: number): void;
  /** The database lacks what it had acknowledged to this process: it was restored, or failed over to a replica that was behind. */
  behind(cell: number): void;
}

/** Observes nothing. */
export const unwatched: StoreWatcher = {
  roundTrip: () => undefined,
  committed: () => undefined,
  taken: () => undefined,
  lost: () => undefined,
  behind: () => undefined,
};

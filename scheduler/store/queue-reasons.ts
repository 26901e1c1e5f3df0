/**
 * Why the queues of endpoints waited, for timelines of jobs (docs/decisions/0063-timelines.md). As with the history, rows are written
 * beside the batches of the queue, under no term, and one that is lost is missing in a timeline.
 */

/** From `at` on, the queue of the endpoint waited for this reason. */
export interface QueueReasonRow {
  readonly endpoint: string;
  /** Wall clock, ms. */
  readonly at: number;
  /** A code of scheduler/core/jobs/reasons.ts; empty when it stopped waiting. */
  readonly reason: string;
  /** For people; of the moment at which the reason began. */
  readonly detail: string;
}

export interface QueueReasonStore {
  /**
   * Writes rows, each in the place of the one with the same endpoint and time, and removes what its endpoint has beyond
   * {@link MAX_REASONS} and {@link REASONS_KEPT_MS}. Rows of endpoints that do not exist are left out.
   */
  save(rows: readonly QueueReasonRow[]): Promise<void>;
  /** Rows of an endpoint from the one that stands at `from` to before `until`, in order. */
  read(range: { readonly endpoint: string; readonly from: number; readonly until: number }): Promise<Omit<QueueReasonRow, 'endpoint'>[]>;
  /** The last row of each endpoint of this store's cell, unless its reason is empty. */
  standing(): Promise<Pick<QueueReasonRow, 'endpoint' | 'reason'>[]>;
}

/** Rows that are kept of an endpoint: the last ones. */
export const MAX_REASONS = 500;
/** For how long a row is kept, ms. */
export const REASONS_KEPT_MS = 7 * 24 * 3_600_000;

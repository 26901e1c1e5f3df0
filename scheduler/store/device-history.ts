/**
 * Gauges of devices over time, for plots (docs/decisions/0061-history.md). As with the history of endpoints, rows are written beside
 * the batches of the queue, under no term, and one that is lost is missing in a plot.
 */

/** The minutes of one device within an hour. */
export interface DeviceHistoryRow {
  readonly node: string;
  readonly device: string;
  /** Begin, wall clock ms. A scheduler that starts within an hour begins a row of its own. */
  readonly at: number;
  /** JSON text, see scheduler/history/device-minutes.ts. */
  readonly value: string;
}

/** Rows of a device that begin from `from` to before `until`, ms. */
export interface DeviceHistoryRange {
  readonly node: string;
  readonly device: string;
  readonly from: number;
  readonly until: number;
}

export interface DeviceHistoryStore {
  /** Writes rows, each in the place of the one with the same node, device and begin. */
  save(rows: readonly DeviceHistoryRow[]): Promise<void>;
  /** In order of their begin. */
  read(range: DeviceHistoryRange): Promise<Pick<DeviceHistoryRow, 'at' | 'value'>[]>;
  /** Removes the rows of this store's cell that begin before this time, ms, also those of nodes that no longer exist. */
  expire(before: number): Promise<void>;
}

/** A change that a store in a thread of its own makes. */
export type DeviceHistoryChange = { readonly save: readonly DeviceHistoryRow[] } | { readonly expire: number };

/** For how long minutes are kept, ms. */
export const DEVICE_MINUTES_KEPT_MS = 3 * 24 * 3_600_000;

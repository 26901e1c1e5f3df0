/**
 * What happened at endpoints, step by step, for plots (docs/decisions/0061-history.md). Rows are of interest to people alone: they
 * are written beside the batches of the queue, under no term, and one that is lost is missing in a plot.
 */

/** What happened at one endpoint in one step. */
export interface HistoryRow {
  readonly endpoint: string;
  /** Length of the step, s: one of {@link HISTORY_STEPS}. */
  readonly step: number;
  /** Begin, wall clock ms. A scheduler that starts within a step begins a row of its own. */
  readonly at: number;
  /** JSON text, see scheduler/history/bucket.ts. */
  readonly value: string;
}

/** Rows of an endpoint and step that begin from `from` to before `until`, ms. */
export interface HistoryRange {
  readonly endpoint: string;
  readonly step: number;
  readonly from: number;
  readonly until: number;
}

export interface HistoryStore {
  /**
   * Writes rows, each in the place of the one with the same endpoint, step and begin, and removes what its endpoint has beyond the
   * time for which a step is kept. Rows of endpoints that do not exist are left out.
   */
  save(rows: readonly HistoryRow[]): Promise<void>;
  /** In order of their begin. */
  read(range: HistoryRange): Promise<Pick<HistoryRow, 'at' | 'value'>[]>;
}

const HOUR_MS = 3_600_000;

/** The lengths of steps, s, and for how long each is kept, ms. */
export const HISTORY_STEPS: readonly { readonly step: number; readonly keptMs: number }[] = [
  { step: 10, keptMs: 3 * HOUR_MS },
  { step: 60, keptMs: 3 * 24 * HOUR_MS },
  { step: 3_600, keptMs: 90 * 24 * HOUR_MS },
];

/** For how long rows of a step are kept, ms. */
export function keptMs(step: number): number {
  return HISTORY_STEPS.find((each) => each.step === step)?.keptMs ?? 0;
}

/** For how many of the shorter steps the levels of a row stand when no row follows it. */
const HELD_STEPS = 60;

/**
 * For how long the levels of a row stand when no row follows, ms: 10 minutes and an hour. Rows of hours are written for every hour in
 * which a level is not 0.
 */
export function heldMs(step: number): number {
  return step === 3_600 ? step * 1000 : HELD_STEPS * step * 1000;
}

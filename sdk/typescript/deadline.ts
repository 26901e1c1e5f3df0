/** The deadline of a call. */

/** Minimum wait of the service, ms. */
const SHORTEST_WAIT_MS = 1_000;
/** How long beyond the deadline a requested response is awaited, ms, because it has the job's id. */
const SLACK_MS = 5_000;

export class Deadline {
  /** The time limit, ms; Infinity for none. */
  readonly limitMs: number;
  readonly #end: number;

  constructor(limitMs: number | undefined) {
    this.limitMs = limitMs ?? Number.POSITIVE_INFINITY;
    this.#end = performance.now() + this.limitMs;
  }

  /** Remaining time, ms; 0 when it is over. */
  get leftMs(): number {
    return Math.max(0, this.#end - performance.now());
  }

  /** Time until calls with this deadline are aborted, ms. */
  get leftToAnswerMs(): number {
    return Math.max(0, this.#end + SLACK_MS - performance.now());
  }

  /** The wait to request from the service, ms. */
  wait(longestMs: number): number {
    return Math.round(Math.min(longestMs, Math.max(SHORTEST_WAIT_MS, this.leftMs)));
  }
}

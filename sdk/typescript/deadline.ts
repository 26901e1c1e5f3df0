/** The end of the time that a caller gives to a call. */

/** The service waits at least this long, ms. */
const SHORTEST_WAIT_MS = 1_000;
/** How long beyond the deadline an answer that was asked for is waited for, ms: it tells the job's id. */
const SLACK_MS = 5_000;

export class Deadline {
  /** Given time, ms; Infinity for none. */
  readonly limitMs: number;
  readonly #end: number;

  constructor(limitMs: number | undefined) {
    this.limitMs = limitMs ?? Number.POSITIVE_INFINITY;
    this.#end = performance.now() + this.limitMs;
  }

  /** ms, 0 when it is over. */
  get leftMs(): number {
    return Math.max(0, this.#end - performance.now());
  }

  /** ms until calls under it are given up. */
  get leftToAnswerMs(): number {
    return Math.max(0, this.#end + SLACK_MS - performance.now());
  }

  /** The wait to ask the service for, ms. */
  wait(longestMs: number): number {
    return Math.round(Math.min(longestMs, Math.max(SHORTEST_WAIT_MS, this.leftMs)));
  }
}

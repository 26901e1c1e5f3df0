/**
 * The attempts of a job that ended before the present one, for its timeline: a list of bounded size, JSON text in the job's row
 * (docs/decisions/0063-timelines.md). It is written when a job returns to its queue, never on the way of a job that succeeds.
 */

/** Why an attempt ended. */
export type AttemptEnd =
  /** The job ended with it, and was retried since. */
  | 'FAILED'
  | 'TIMED_OUT'
  /** Its worker died, or ended while the attempt was assigned to it. */
  | 'WORKER_LOST'
  /** Its node was lost, removed or restarted. */
  | 'NODE_LOST'
  /** The agent did not take it. */
  | 'REFUSED'
  /** The agent stopped it although no caller requested it. */
  | 'STOPPED'
  /** It did not reach the agent. */
  | 'UNDELIVERED';

/** Times: wall clock, ms. */
export interface PastAttempt {
  /** The submission or retry that it belongs to. */
  readonly submittedAt: number;
  /** Its number since then, from 1. One that did not start does not count: the next one has the same number. */
  readonly attempt: number;
  readonly worker: string | null;
  readonly node: string | null;
  /** Null if a scheduler that ended knew it. */
  readonly leasedAt: number | null;
  /** Null if it did not start. */
  readonly startedAt: number | null;
  readonly endedAt: number;
  readonly reason: AttemptEnd;
  /** For people; empty if there is nothing to say. */
  readonly error: string;
  /** Attempts in a row that did not start and ended for this reason: all but the last show in this number and in `leasedAt` only. */
  readonly count: number;
}

/** The entries that are kept: the last ones. */
export const MOST_ATTEMPTS = 20;
export const ERROR_CHARACTERS = 200;
/** Of the whole text. */
export const MOST_BYTES = 8_192;

export function pastAttempts(text: string | null): readonly PastAttempt[] {
  return text === null ? [] : (JSON.parse(text) as PastAttempt[]);
}

/** Returns the text with an attempt more. What repeats takes no more room: refused attempts can follow one another every 200 ms. */
export function withAttempt(text: string | null, ended: Omit<PastAttempt, 'count'>): string {
  const list = [...pastAttempts(text)];
  const entry = { ...ended, error: ended.error.slice(0, ERROR_CHARACTERS), count: 1 };
  const last = list.at(-1);
  if (last !== undefined && repeats(last, entry)) list[list.length - 1] = { ...entry, leasedAt: last.leasedAt, count: last.count + 1 };
  else list.push(entry);
  let kept = list.slice(-MOST_ATTEMPTS);
  let bounded = JSON.stringify(kept);
  while (Buffer.byteLength(bounded) > MOST_BYTES && kept.length > 1) {
    kept = kept.slice(1);
    bounded = JSON.stringify(kept);
  }
  return bounded;
}

function repeats(last: PastAttempt, next: PastAttempt): boolean {
  return last.startedAt === null && next.startedAt === null && last.reason === next.reason && last.submittedAt === next.submittedAt;
}

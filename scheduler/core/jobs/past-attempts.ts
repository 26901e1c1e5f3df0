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
  /** Its worker ended under several running jobs, and which of them ended it is not known. */
  | 'SUSPECTED'
  /** Another job ended its worker, or was stopped there by force. */
  | 'NEIGHBOUR_STOPPED'
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
  /** Attempts up to this one that started and do not count towards maxAttempts, since the submission or retry; absent: 0. */
  readonly uncharged?: number;
  /** Attempts up to this one, over the job's whole life, that ended for the reason SUSPECTED; absent: 0. */
  readonly suspected?: number;
}

/** Suspicions after which a job runs alone on its worker. */
const MAX_SUSPICIONS = 2;

/** The entries that are kept: the last ones. */
export const MOST_ATTEMPTS = 20;
export const ERROR_CHARACTERS = 200;
/** Of the whole text. */
export const MOST_BYTES = 8_192;

export function pastAttempts(text: string | null): readonly PastAttempt[] {
  return text === null ? [] : (JSON.parse(text) as PastAttempt[]);
}

type EndedAttempt = Omit<PastAttempt, 'count' | 'uncharged' | 'suspected'>;

/** Returns the text with an attempt more. What repeats takes no more room: refused attempts can follow one another every 200 ms. */
export function withAttempt(text: string | null, ended: EndedAttempt, isCharged = true): string {
  const list = [...pastAttempts(text)];
  const uncharged = unchargedIn(list, ended.submittedAt) + (isCharged || ended.startedAt === null ? 0 : 1);
  const suspected = (list.at(-1)?.suspected ?? 0) + (ended.reason === 'SUSPECTED' ? 1 : 0);
  const entry = {
    ...ended,
    error: ended.error.slice(0, ERROR_CHARACTERS),
    count: 1,
    ...(uncharged === 0 ? {} : { uncharged }),
    ...(suspected === 0 ? {} : { suspected }),
  };
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

/** Returns the attempts since a submission or retry that started and do not count towards maxAttempts. */
export function unchargedAttempts(text: string | null, submittedAt: number): number {
  return unchargedIn(pastAttempts(text), submittedAt);
}

/** Whether a job runs alone on its worker: workers ended under it and others again and again (invariant 6). */
export function mustRunApart(text: string | null): boolean {
  // Most lists have no such field, and inside an error its quotation marks are escaped.
  if (text?.includes('"suspected":') !== true) return false;
  return (pastAttempts(text).at(-1)?.suspected ?? 0) >= MAX_SUSPICIONS;
}

/** The last entry, which is never dropped, has the sum. */
function unchargedIn(list: readonly PastAttempt[], submittedAt: number): number {
  const last = list.at(-1);
  return last?.submittedAt === submittedAt ? (last.uncharged ?? 0) : 0;
}

function repeats(last: PastAttempt, next: PastAttempt): boolean {
  return last.startedAt === null && next.startedAt === null && last.reason === next.reason && last.submittedAt === next.submittedAt;
}

/**
 * The attempts of a job that ended before the present one, for its timeline: a list of bounded size, JSON text in the job's row
 * (docs/decisions/0063-timelines.md). It is written when a job returns to its queue, never on the way of a job that succeeds.
 */
import { mustRunAlone, sumsAfter, type AttemptSums } from './attempt-sums.ts';

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

/** Times: wall clock, ms. The sums count the attempts up to this one. */
export interface PastAttempt extends AttemptSums {
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
export const MAX_ATTEMPTS = 20;
export const ERROR_CHARACTERS = 200;
/** Of the whole text. */
export const MAX_BYTES = 8_192;

export function pastAttempts(text: string | null): readonly PastAttempt[] {
  return text === null ? [] : (JSON.parse(text) as PastAttempt[]);
}

type EndedAttempt = Omit<PastAttempt, 'count' | keyof AttemptSums>;

/** Returns the text with an attempt more. What repeats takes no more room: refused attempts can follow one another every 200 ms. */
export function withAttempt(text: string | null, ended: EndedAttempt, isCharged = true): string {
  const list = [...pastAttempts(text)];
  const entry = { ...ended, error: ended.error.slice(0, ERROR_CHARACTERS), count: 1, ...sumsWith(list.at(-1), ended, isCharged) };
  const last = list.at(-1);
  if (last !== undefined && repeats(last, entry)) list[list.length - 1] = { ...entry, leasedAt: last.leasedAt, count: last.count + 1 };
  else list.push(entry);
  let kept = list.slice(-MAX_ATTEMPTS);
  let bounded = JSON.stringify(kept);
  while (Buffer.byteLength(bounded) > MAX_BYTES && kept.length > 1) {
    kept = kept.slice(1);
    bounded = JSON.stringify(kept);
  }
  return bounded;
}

/** Returns the attempts since a submission or retry that started and do not count towards maxAttempts. */
export function unchargedAttempts(text: string | null, submittedAt: number): number {
  return sumsSince(pastAttempts(text).at(-1), submittedAt).uncharged ?? 0;
}

/** Returns the attempts since a submission or retry that ended SUSPECTED and are charged once the job ends a worker alone. */
export function openSuspicions(text: string | null, submittedAt: number): number {
  return sumsSince(pastAttempts(text).at(-1), submittedAt).openSuspicions ?? 0;
}

/** What decides whether the next attempt of a job runs alone on its worker. */
export interface NextAttempt {
  readonly submittedAt: number;
  /** Attempts before it that started, since the submission or retry. */
  readonly started: number;
  readonly maxAttempts: number;
}

/** Whether the next attempt runs alone on its worker (invariant 6). */
export function mustRunApart(text: string | null, { submittedAt, started, maxAttempts }: NextAttempt): boolean {
  // Most lists have no such field, and inside an error its quotation marks are escaped.
  if (text === null || !(text.includes('"suspected":') || text.includes('"workerEnds":'))) return false;
  return mustRunAlone(sumsSince(pastAttempts(text).at(-1), submittedAt), started, maxAttempts);
}

/** The last entry, which is never dropped, has the sums. Suspicions count over the job's whole life. */
function sumsSince(last: PastAttempt | undefined, submittedAt: number): AttemptSums {
  if (last === undefined || last.submittedAt === submittedAt) return last ?? {};
  return last.suspected === undefined ? {} : { suspected: last.suspected };
}

function sumsWith(last: PastAttempt | undefined, { submittedAt, startedAt, reason }: EndedAttempt, isCharged: boolean): AttemptSums {
  const before = sumsSince(last, submittedAt);
  const cost = reason === 'SUSPECTED' ? 'suspected' : !isCharged ? 'spared' : reason === 'WORKER_LOST' ? 'culprit' : 'charged';
  const { uncharged, suspected, openSuspicions, workerEnds } = startedAt === null ? before : sumsAfter(before, cost);
  const sums = { uncharged, suspected, openSuspicions, workerEnds };
  return Object.fromEntries(Object.entries(sums).filter(([, count]) => count !== undefined && count !== 0));
}

function repeats(last: PastAttempt, next: PastAttempt): boolean {
  return last.startedAt === null && next.startedAt === null && last.reason === next.reason && last.submittedAt === next.submittedAt;
}

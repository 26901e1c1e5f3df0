/** The past of one job: the attempts that ended, and why its queue waited while it waited. */
import type { PastAttempt as PastAttemptMessage, QueueReasonSpan } from '../../proto/gen/capstan/v1/control.ts';
import { pastAttempts, type PastAttempt } from '../core/jobs/past-attempts.ts';
import { SAMPLE_MS } from '../history/queue-reasons.ts';
import type { QueueReasonStore } from '../store/queue-reasons.ts';
import type { JobRow } from '../core/ports/store.ts';

/** A time in which the job waited; without an end it waits now. */
interface Wait {
  readonly from: number;
  readonly until: number | null;
}

type Row = Awaited<ReturnType<QueueReasonStore['read']>>[number];

/** Spans of one reply: the last ones. */
const MAX_SPANS = 100;

export interface Timeline {
  readonly pastAttempts: PastAttemptMessage[];
  readonly queueReasons: QueueReasonSpan[];
}

/** @param startedAt of the present attempt, wall clock ms; null without one. */
export async function timelineOf(store: QueueReasonStore, job: JobRow, startedAt: number | null, now: number): Promise<Timeline> {
  const past = pastAttempts(job.pastAttempts);
  const waits = waitsOf(past, job, startedAt).filter(({ from, until }) => (until ?? now) - from >= SAMPLE_MS);
  const [first, last] = [waits[0], waits.at(-1)];
  const rows =
    first === undefined || last === undefined
      ? []
      : await store.read({ endpoint: job.endpoint, from: first.from, until: last.until ?? now + 1 });
  return { pastAttempts: past.map(attemptMessage), queueReasons: spansOf(rows, waits).slice(-MAX_SPANS).map(spanMessage) };
}

/** The times in which a job waited: from its submission, retry or the end of an attempt to the start of the next one. */
export function waitsOf(past: readonly PastAttempt[], { submittedAt, endedAt }: JobRow, startedAt: number | null): Wait[] {
  const waits: Wait[] = [];
  let from = past[0]?.submittedAt ?? submittedAt;
  for (const [i, attempt] of past.entries()) {
    const isLast = attempt.reason === 'FAILED' || attempt.reason === 'TIMED_OUT';
    // A wait goes on through attempts that did not start.
    if (attempt.startedAt === null && !isLast) continue;
    waits.push({ from, until: attempt.startedAt ?? attempt.endedAt });
    from = isLast ? (past[i + 1]?.submittedAt ?? submittedAt) : attempt.endedAt;
  }
  waits.push({ from, until: startedAt ?? endedAt });
  return waits;
}

/** The part of each reason that lies within a wait. */
export function spansOf(rows: readonly Row[], waits: readonly Wait[]): (Row & { readonly until: number | null })[] {
  return waits.flatMap((wait) =>
    rows.flatMap((row, i) => {
      const end = rows[i + 1]?.at ?? null;
      const at = Math.max(row.at, wait.from);
      const until = end === null ? wait.until : Math.min(end, wait.until ?? end);
      return row.reason === '' || (until !== null && until <= at) ? [] : [{ ...row, at, until }];
    }),
  );
}

function attemptMessage({
  submittedAt,
  attempt,
  worker,
  node,
  leasedAt,
  startedAt,
  endedAt,
  reason,
  error,
  count,
}: PastAttempt): PastAttemptMessage {
  return {
    submittedAtMs: milliseconds(submittedAt),
    attempt,
    workerId: worker ?? '',
    nodeId: node ?? '',
    leasedAtMs: milliseconds(leasedAt),
    startedAtMs: milliseconds(startedAt),
    endedAtMs: milliseconds(endedAt),
    reason,
    error,
    count,
  };
}

function spanMessage({ at, until, reason, detail }: Row & { readonly until: number | null }): QueueReasonSpan {
  return { atMs: milliseconds(at), untilMs: milliseconds(until), reason, detail };
}

function milliseconds(value: number | null): bigint {
  return BigInt(Math.trunc(value ?? 0));
}

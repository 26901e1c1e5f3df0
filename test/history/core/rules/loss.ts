/** Nothing acknowledged is lost: an acknowledged job is found until its retention is over, and reaches an end. */
import { submittedAt, type Facts, type JobFacts } from '../facts.ts';
import { isTerminal } from '../record.ts';
import type { Violation } from '../violation.ts';

/** Clocks of clients and service are read at different moments, ms. */
const TOLERANCE_MS = 1_000;

export function nothingLost(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => [...missing(facts, job), ...neverEnded(facts, job)]);
}

function missing(facts: Facts, job: JobFacts): Violation[] {
  const acknowledged = Math.min(Infinity, ...job.acknowledgements.map((call) => call.returnedAt));
  return job.calls
    .filter(({ record, answer }) => answer?.status === 404 && record.at > acknowledged && !mayHaveExpired(facts, job, answer.at))
    .map(({ record }) => ({
      rule: 'nothing acknowledged is lost',
      detail: `${record.operation} of ${job.id} answers 404 before its retention is over`,
      jobs: [job.id],
    }));
}

function neverEnded(facts: Facts, job: JobFacts): Violation[] {
  if (facts.endedAt === undefined || job.acknowledgements.length === 0) return [];
  const last = job.observations
    .filter(({ status }) => status !== 'NOT_RETRYABLE')
    .toSorted((a, b) => a.from - b.from)
    .at(-1);
  if (last !== undefined && isTerminal(last.status)) return [];
  const gone = job.calls.some(({ answer }) => answer?.status === 404 && mayHaveExpired(facts, job, answer.at));
  if (gone) return [];
  return [{ rule: 'nothing acknowledged is lost', detail: `${job.id} has no end; last seen ${last?.status ?? 'never'}`, jobs: [job.id] }];
}

/** Whether a job that ended as early as it could is over its retention. */
function mayHaveExpired(facts: Facts, job: JobFacts, at: number): boolean {
  const { runRetentionMs, runsyncRetentionMs, clockStepMs } = facts.settings;
  const retention = job.id.startsWith('sync-') ? runsyncRetentionMs : runRetentionMs;
  return at - submittedAt(facts, job) >= retention - clockStepMs - TOLERANCE_MS;
}

/**
 * FIFO where it is promised: an endpoint with one worker, one job at a time and one priority starts its jobs in the order of their acceptance.
 * A job that was acknowledged before another was submitted starts before it, if no fault lies between the first one's submission and its start.
 */
import { isDisturbed, type Facts, type JobFacts } from '../facts.ts';
import type { Violation } from '../violation.ts';

interface Start {
  readonly job: JobFacts;
  readonly submitted: number;
  readonly acknowledged: number;
  readonly entered: number;
}

export function firstInFirstOut(facts: Facts): Violation[] {
  return Object.entries(facts.settings.endpoints)
    .filter(([, promise]) => promise.inOrder)
    .flatMap(([endpoint]) => overtaken(facts, startsOf(facts, endpoint)));
}

function startsOf(facts: Facts, endpoint: string): Start[] {
  const starts: Start[] = [];
  for (const job of facts.jobs.values()) {
    if (job.endpoint !== endpoint || job.executions.length === 0) continue;
    const calls = [...job.inputs].flatMap((input) => facts.submissions.get(input) ?? []);
    starts.push({
      job,
      submitted: Math.min(Infinity, ...calls.map(({ record }) => record.at)),
      acknowledged: Math.min(Infinity, ...job.acknowledgements.map(({ returnedAt }) => returnedAt)),
      entered: Math.min(...job.executions.map(({ enter }) => enter.at)),
    });
  }
  return starts.toSorted((a, b) => a.entered - b.entered);
}

function overtaken(facts: Facts, starts: readonly Start[]): Violation[] {
  let latest: Start | undefined;
  const found: Violation[] = [];
  for (const start of starts) {
    if (latest !== undefined && latest.submitted > start.acknowledged && !isDisturbed(facts, start.submitted, start.entered))
      found.push({
        rule: 'first in, first out',
        detail: `${latest.job.id} started before ${start.job.id}, which was acknowledged before the other was submitted`,
        jobs: [start.job.id, latest.job.id],
      });
    if (latest === undefined || start.submitted > latest.submitted) latest = start;
  }
  return found;
}

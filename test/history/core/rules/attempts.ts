/** Attempts are bounded by max_attempts, and a handler runs again only after a fault or a retry. */
import { isDisturbed, possible, promiseOf, submittedAt, type Facts, type JobFacts } from '../facts.ts';
import type { Violation } from '../violation.ts';

const RULE = 'attempts are bounded';

export function attemptsBounded(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => {
    const problem = tooMany(facts, job) ?? again(facts, job);
    return problem === undefined ? [] : [{ rule: RULE, detail: `${job.id}: ${problem}`, jobs: [job.id] }];
  });
}

function tooMany(facts: Facts, job: JobFacts): string | undefined {
  const maxAttempts = promiseOf(facts, job)?.maxAttempts ?? Infinity;
  const told = Math.max(0, ...job.observations.map(({ view }) => view?.retries ?? 0));
  if (told >= maxAttempts) return `tells of ${told} retries, ${maxAttempts} attempts are allowed`;
  const attempt = Math.max(0, ...job.executions.map(({ enter }) => enter.attempt));
  if (attempt > maxAttempts) return `its handler was told of attempt ${attempt} of ${maxAttempts}`;
  const entered = job.executions.map(({ enter }) => enter.at);
  const [from, to] = [submittedAt(facts, job), Math.max(0, ...entered)];
  const uncharged = facts.disruptions.filter((each) => each.from <= to && each.to >= from).length;
  const most = maxAttempts * (1 + possible(job, 'retry').length) + uncharged;
  return entered.length > most ? `its handler was entered ${entered.length} times, ${most} at most are allowed` : undefined;
}

function again(facts: Facts, job: JobFacts): string | undefined {
  const executions = job.executions.toSorted((a, b) => a.enter.at - b.enter.at);
  for (const [i, { enter }] of executions.entries()) {
    const next = executions[i + 1];
    if (next === undefined || isDisturbed(facts, enter.at, next.enter.at)) continue;
    const retried = possible(job, 'retry').some((call) => call.effectiveUntil >= enter.at && call.record.at <= next.enter.at);
    if (!retried) return `its handler was entered again (${next.enter.execution}) without a fault or a retry`;
  }
  return undefined;
}

/** Every end has a cause: a failure its handler or lost workers, a time-out its time, a cancellation somebody who asked for it. */
import { isDisturbed, submittedAt, type Call, type Facts, type JobFacts, type Observation } from '../facts.ts';
import type { Violation } from '../violation.ts';

/** What the handlers of the test raise begins so, and ends with their execution. */
export const FAILURE = 'fails on purpose in ';

export function endsHaveCauses(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => {
    for (const seen of job.observations) {
      const problem = judge(facts, job, seen);
      if (problem !== undefined)
        return [{ rule: 'every end has a cause', detail: `${job.id} is ${seen.status}: ${problem}`, jobs: [job.id] }];
    }
    return [];
  });
}

function judge(facts: Facts, job: JobFacts, seen: Observation): string | undefined {
  switch (seen.status) {
    case 'FAILED':
      return seen.view === undefined ? undefined : failure(facts, job, seen, seen.view.error ?? '');
    case 'TIMED_OUT':
      return timeOut(facts, job, seen);
    case 'CANCELLED': {
      const cancels = job.calls.filter(({ record }) => record.operation === 'cancel');
      const asked = [...cancels, ...(facts.purges.get(job.endpoint) ?? [])];
      return asked.some((call) => mayHaveActed(call) && call.record.at <= seen.to) ? undefined : 'nobody cancelled it';
    }
    default:
      return undefined;
  }
}

function mayHaveActed({ answer }: Call): boolean {
  return answer === undefined || answer.status === 200;
}

function failure(facts: Facts, job: JobFacts, seen: Observation, error: string): string | undefined {
  if (error.startsWith(FAILURE)) {
    const execution = job.executions.find(({ enter }) => error === FAILURE + enter.execution);
    return execution?.exit?.how === 'failed' ? undefined : `no execution of it failed so: ${error}`;
  }
  return isDisturbed(facts, submittedAt(facts, job), seen.to) ? undefined : `no fault explains: ${error}`;
}

function timeOut(facts: Facts, job: JobFacts, seen: Observation): string | undefined {
  const calls = [...job.inputs].flatMap((input) => facts.submissions.get(input) ?? []);
  const limit = Math.min(Infinity, ...calls.map(({ record }) => record.timeoutMs ?? Infinity));
  // The agent's clock starts when it hands the job on, which is before the handler is entered.
  const slackMs = 500;
  const ranLong = job.executions.some(({ enter }) => seen.to - enter.at >= limit - slackMs);
  return ranLong || isDisturbed(facts, submittedAt(facts, job), seen.to) ? undefined : `no execution took ${limit} ms`;
}

/** Which jobs run alone on their worker, so that what ends it is known (invariant 6). */
import type { State } from '../state.ts';
import type { JobRecord } from '../state/jobs.ts';
import { mustRunApart } from './past-attempts.ts';

/** Whether the next attempt of a job, or its present one, has its worker for itself. */
export function runsAlone(state: State, job: JobRecord): boolean {
  if (job.pastAttempts === null) return false;
  const started = job.attempts - (job.phase === 'STARTED' ? 1 : 0);
  return mustRunApart(job.pastAttempts, { submittedAt: job.submittedAt, started, maxAttempts: maxAttemptsOf(state, job) });
}

/** Charged attempts after which the loss of its worker ends a job. */
export function maxAttemptsOf(state: State, job: JobRecord): number {
  return state.endpoints.get(job.endpoint)?.config.maxAttempts || state.settings.maxAttempts;
}

/** Finds a job that a request names: in the state, or by a read of the store. */
import type { Job } from '../../../proto/gen/capstan/v1/jobs.ts';

import type { StepContext } from '../context.ts';
import type { ReadAim } from '../events.ts';
import type { Now } from '../now.ts';
import { readOpened, type State } from '../state.ts';
import type { JobRecord } from '../state/jobs.ts';
import { queueReason } from './reasons.ts';
import { viewOfRecord } from './views.ts';

/** Returns the job of this endpoint if the state holds it and its ttl has not ended. */
export function liveJob(state: State, now: Now, endpoint: string, id: string): JobRecord | null {
  const job = state.jobs.get(id);
  if (job === undefined || job.endpoint !== endpoint) return null;
  return job.deleteAt > now.wall ? job : null;
}

/** Reads the row of a job that is not in the state. */
export function readFor(ctx: StepContext, aim: ReadAim, endpoint: string, job: string): void {
  ctx.emit({ kind: 'read-job', purpose: { ...aim, read: readOpened(ctx.state) }, endpoint, job });
}

/** Returns the caller's view of a job. */
export function view(state: State, now: Now, job: JobRecord): Job {
  const endpoint = state.endpoints.get(job.endpoint);
  return viewOfRecord(job, endpoint === undefined ? '' : queueReason(state, endpoint, now).reason);
}

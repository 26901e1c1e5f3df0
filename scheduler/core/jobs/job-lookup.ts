/** A job that a request names: as the state has it, or read from the store. */
import type { Job } from '../../../proto/gen/capstan/v1/jobs.ts';

import type { StepContext } from '../context.ts';
import type { ReadAim } from '../events.ts';
import type { Now } from '../now.ts';
import { readOpened, type State } from '../state.ts';
import type { JobRecord } from '../state/jobs.ts';
import { queueReason } from './reasons.ts';
import { viewOfRecord } from './views.ts';

/** The job of this endpoint if the state holds it and its ttl is not over. */
export function liveJob(state: State, now: Now, endpoint: string, id: string): JobRecord | null {
  const job = state.jobs.get(id);
  if (job === undefined || job.endpoint !== endpoint) return null;
  return job.deleteAt > now.wall ? job : null;
}

/** Reads the row of a job that the state does not have. */
export function readFor(ctx: StepContext, aim: ReadAim, endpoint: string, job: string): void {
  ctx.emit({ kind: 'read-job', purpose: { ...aim, read: readOpened(ctx.state) }, endpoint, job });
}

/** The job as it stands, for callers. */
export function view(state: State, now: Now, job: JobRecord): Job {
  const endpoint = state.endpoints.get(job.endpoint);
  return viewOfRecord(job, endpoint === undefined ? '' : queueReason(state, endpoint, now).reason);
}

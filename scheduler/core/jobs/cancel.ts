/** Requests to cancel: which jobs can be cancelled, and which nodes must stop them. */
import { CapstanError } from '../../../lib/errors.ts';
import { StopReason } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { WholeJob } from '../../store/store.ts';

import type { StepContext } from '../context.ts';
import type { JobRecord } from '../state/jobs.ts';
import { liveJob, readFor } from './job-lookup.ts';
import { fromRow } from './job-records.ts';
import { finish } from './jobs.ts';
import { stopAttempt } from './stop-attempt.ts';
import { span } from './views.ts';

/** Ends a queued or running job as CANCELLED and stops its handler. */
export function cancel(ctx: StepContext, call: number, endpoint: string, id: string): void {
  const job = liveJob(ctx.state, ctx.now, endpoint, id);
  if (job === null) readFor(ctx, { kind: 'cancel', call, endpoint, job: id }, endpoint, id);
  else cancelJob(ctx, call, job);
}

/** Handles the row of a job to cancel. */
export function cancelStored(ctx: StepContext, call: number, live: JobRecord | null, found: WholeJob | null): void {
  if (live !== null) cancelJob(ctx, call, live);
  else if (found?.job.state === 'IN_QUEUE') cancelJob(ctx, call, fromRow(found.job));
  else ctx.reply(call, notCancellable(found?.job.id ?? '', found?.job.state ?? 'gone'));
}

function cancelJob(ctx: StepContext, call: number, job: JobRecord): void {
  const { lease, startedAt, submittedAt } = job;
  const ended = finish(ctx, job, { event: 'cancel', output: null, error: null, executionMs: null, agoMs: 0 }, { kind: 'command', call });
  if (ended === null) {
    ctx.reply(call, notCancellable(job.id, job.phase));
    return;
  }
  if (lease !== null) stopAttempt(ctx, lease.node, job, StopReason.CANCELLED);
  const delayMs = startedAt === null ? null : span(submittedAt, startedAt);
  const executionMs = startedAt === null ? null : span(startedAt, ctx.now.wall);
  ctx.reply(call, { kind: 'job', id: job.id, state: 'CANCELLED', delayMs, executionMs }, ended.write);
}

function notCancellable(id: string, state: string): CapstanError {
  return new CapstanError('CONFLICT', `job ${id} is ${state}; only a queued or running job can be cancelled`);
}

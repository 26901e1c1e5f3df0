/** Requests to cancel: what becomes of the job, and which nodes must stop it. */
import { CapstanError } from '../../../lib/errors.ts';
import { StopReason } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { JobRow, WholeJob } from '../ports/store.ts';

import type { StepContext } from '../context.ts';
import type { JobRecord } from '../state/jobs.ts';
import { liveJob, readFor } from './job-lookup.ts';
import { fromRow } from './job-records.ts';
import { finish } from './jobs.ts';
import { stopAttempt } from './stop-attempt.ts';
import { span } from './views.ts';

type EndedState = Exclude<JobRow['state'], 'IN_QUEUE' | 'LEASED'>;

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
  else if (found !== null && found.job.state !== 'LEASED') replyEnded(ctx, call, found.job, found.job.state);
  else ctx.reply(call, changedMeanwhile(found?.job.id ?? ''));
}

function cancelJob(ctx: StepContext, call: number, job: JobRecord): void {
  const { lease, startedAt, submittedAt } = job;
  const ended = finish(ctx, job, { event: 'cancel', output: null, error: null, executionMs: null, agoMs: 0 }, { kind: 'command', call });
  if (ended === null) {
    ctx.reply(call, changedMeanwhile(job.id));
    return;
  }
  if (lease !== null) stopAttempt(ctx, lease.node, job, StopReason.CANCELLED);
  const delayMs = startedAt === null ? null : span(submittedAt, startedAt);
  const executionMs = startedAt === null ? null : span(startedAt, ctx.now.wall);
  ctx.reply(call, { kind: 'job', id: job.id, state: 'CANCELLED', delayMs, executionMs }, ended.write);
}

/** The cancellation of an ended job changes nothing, and succeeds: callers cancel what they may have waited for. */
function replyEnded(ctx: StepContext, call: number, { id, delayMs, executionMs }: JobRow, state: EndedState): void {
  ctx.reply(call, { kind: 'job', id, state, delayMs, executionMs });
}

function changedMeanwhile(id: string): CapstanError {
  return new CapstanError('CONFLICT', `job ${id} changed meanwhile; cancel it again`);
}

/** Requests to retry: which ended jobs return to the tail of their queue. */
import { notRetryable } from './errors.ts';
import type { WholeJob } from '../ports/store.ts';

import type { StepContext } from '../context.ts';
import type { Cause } from '../events.ts';
import type { JobRecord } from '../state/jobs.ts';
import { fill } from './dispatch.ts';
import { liveJob, readFor } from './job-lookup.ts';
import { fromRow } from './job-records.ts';
import { retryEnded, undo } from './jobs.ts';

/** Puts a failed or timed-out job back at the tail. */
export function retry(ctx: StepContext, call: number, endpoint: string, id: string): void {
  if (liveJob(ctx.state, ctx.now, endpoint, id) === null) readFor(ctx, { kind: 'retry', call, endpoint, job: id }, endpoint, id);
  else ctx.reply(call, notRetryable(id, null));
}

/** Handles the row of a job to retry. */
export function retryStored(ctx: StepContext, call: number, live: JobRecord | null, found: WholeJob | null): void {
  const row = found?.job;
  const endpoint = row === undefined ? undefined : ctx.state.endpoints.get(row.endpoint);
  const job = row === undefined ? null : fromRow(row);
  const may = live === null && endpoint !== undefined && endpoint.config.removing === undefined;
  const write = may && job !== null && row !== undefined ? retryEnded(ctx, job, row, call) : null;
  if (endpoint === undefined || job === null || write === null) {
    ctx.reply(call, notRetryable(live?.id ?? row?.id ?? '', live === null ? (row?.state ?? 'deleted') : null));
    return;
  }
  ctx.state.dirtyEndpoints.add(job.endpoint);
  ctx.reply(call, { kind: 'job', id: job.id, state: 'IN_QUEUE', delayMs: null, executionMs: null }, write);
  fill(ctx, endpoint);
}

/** Handles a retry that the store refused. */
export function retryRefused(ctx: StepContext, { call, job }: Extract<Cause, { kind: 'retry' }>): void {
  undo(ctx.state, job);
  const endpoint = ctx.state.endpoints.get(job.endpoint);
  if (endpoint !== undefined) endpoint.counts.retried--;
  ctx.reply(call, notRetryable(job.id, 'changed meanwhile'));
}

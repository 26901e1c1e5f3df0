/** Requests for a job's chunks: which chunks a reader gets, and which are dropped because the reader has them. */
import { JobState } from '../../../proto/gen/capstan/v1/common.ts';

import type { StepContext } from '../context.ts';
import type { CoreEvent } from '../events.ts';
import type { JobRecord, Waiter } from '../state/jobs.ts';
import { admit } from './admission.ts';
import { liveJob, readFor, view } from './job-lookup.ts';
import { acknowledgedBy, chunksFor, dropBelow } from './streams.ts';
import { addWaiter, answerStream } from './waiters.ts';

/** Returns the unread chunks of a job. Waits up to waitMs for the first one. */
export function readStream(ctx: StepContext, event: Extract<CoreEvent, { kind: 'read-stream' }>): void {
  const usage = admit(ctx, ctx.state.endpoints.get(event.endpoint), event);
  if (usage === undefined) return;
  const job = liveJob(ctx.state, ctx.now, event.endpoint, event.job);
  const { ref, endpoint, job: id, after, waitMs, counting } = event;
  const waiter = addWaiter(ctx, { ref, endpoint, job: id, mode: 'stream', waitMs, usage, after, resent: counting.resent });
  if (job === null) {
    readFor(ctx, { kind: 'waiter', ref: event.ref, job: event.job }, event.endpoint, event.job);
    return;
  }
  received(ctx, job, waiter);
  if (!deliverChunks(ctx, job, waiter) && event.waitMs <= 0)
    answerStream(ctx, waiter, { state: view(ctx.state, ctx.now, job).state, chunks: [], error: null });
}

/** Sends a waiter the chunks it does not have. Returns false if there are none. */
export function deliverChunks(ctx: StepContext, job: JobRecord, waiter: Waiter): boolean {
  const { chunks, firstIndex } = chunksFor(ctx.state, job, job.stream, waiter);
  if (chunks.length === 0) return false;
  answerStream(ctx, waiter, { state: JobState.IN_PROGRESS, chunks, error: null, token: job.token, firstIndex });
  return true;
}

/** Drops the chunks that a reader acknowledges, here and at the agent. */
function received(ctx: StepContext, job: JobRecord, waiter: Waiter): void {
  const nextIndex = acknowledgedBy(job, waiter);
  if (!dropBelow(ctx.state, job, nextIndex, true) || job.lease === null) return;
  const session = ctx.state.nodes.get(job.lease.node)?.session ?? null;
  if (session === null) return;
  const value = { jobId: job.id, token: job.token, nextIndex };
  ctx.emit({ kind: 'send', node: job.lease.node, session, event: { event: { $case: 'drained', value } } });
}

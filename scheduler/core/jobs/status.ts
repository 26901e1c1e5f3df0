/** Requests for a job's state or result: which get a reply at once, and which wait for the end or for a read. */
import { areWhole } from '../ports/stored-payload.ts';
import type { WholeJob } from '../ports/store.ts';

import type { StepContext } from '../context.ts';
import type { CoreEvent, Ref } from '../events.ts';
import type { Waiter } from '../state/jobs.ts';
import { admit } from './admission.ts';
import { damageOfOutput, damageOfStream } from './damage.ts';
import { liveJob, readFor, view } from './job-lookup.ts';
import type { Usage } from '../state/rate-limits.ts';
import { queueReason } from './reasons.ts';
import { acknowledgedBy, chunksFor } from './streams.ts';
import { jobReply, publicState, viewOfRow } from './views.ts';
import { addWaiter, answerFailure, answerJob, answerStream, gone } from './waiters.ts';

/** Replies with a job's state. Waits up to waitMs for its end. */
export function get(ctx: StepContext, event: Extract<CoreEvent, { kind: 'get' }>): void {
  const usage = admit(ctx, ctx.state.endpoints.get(event.endpoint), event);
  if (usage !== undefined) replyOrWait(ctx, questionOf(event, usage));
}

/** The requested job and the caller. */
interface JobQuery {
  readonly ref: Ref;
  readonly endpoint: string;
  readonly id: string;
  readonly waitMs: number;
  readonly usage: Usage | null;
  /** The job was found by an Idempotency-Key. */
  readonly byKey: boolean;
}

export function questionOf(
  event: { readonly ref: Ref; readonly endpoint: string; readonly job: string; readonly waitMs: number },
  usage: Usage | null,
): JobQuery {
  const { ref, endpoint, job, waitMs } = event;
  return { ref, endpoint, id: job, waitMs, usage, byKey: false };
}

export function replyOrWait(ctx: StepContext, { ref, endpoint, id, waitMs, usage, byKey }: JobQuery): void {
  const job = liveJob(ctx.state, ctx.now, endpoint, id);
  if (job !== null && waitMs <= 0) {
    ctx.emit({ kind: 'reply', channel: ref.channel, reply: jobReply(ref.request, view(ctx.state, ctx.now, job)), usage });
    return;
  }
  addWaiter(ctx, { ref, endpoint, job: id, mode: 'job', waitMs, usage, byKey });
  if (job === null) readFor(ctx, { kind: 'waiter', ref, job: id }, endpoint, id);
}

/** Ends a wait: replies with the present state. */
export function waitOver(ctx: StepContext, waiter: Waiter): void {
  if (waiter.done) return;
  const job = liveJob(ctx.state, ctx.now, waiter.endpoint, waiter.job);
  if (job === null || waiter.isUnconfirmed) {
    waiter.immediate = true;
    waiter.isUnconfirmed = false;
    const ref = { channel: waiter.channel, request: waiter.request };
    readFor(ctx, { kind: 'waiter', ref, job: waiter.job }, waiter.endpoint, waiter.job);
  } else if (waiter.mode === 'job') answerJob(ctx, waiter, view(ctx.state, ctx.now, job));
  else answerStream(ctx, waiter, { state: view(ctx.state, ctx.now, job).state, chunks: [], error: null });
}

/** Handles the row of a waiter's job. */
export function resolveWaiter(ctx: StepContext, waiter: Waiter, found: WholeJob | null): void {
  const live = liveJob(ctx.state, ctx.now, waiter.endpoint, waiter.job);
  if (live !== null) {
    if (waiter.immediate) waitOver(ctx, waiter);
    return;
  }
  if (found === null || found.job.deleteAt <= ctx.now.wall) {
    answerFailure(ctx, waiter, gone(waiter));
    return;
  }
  const ended = found.job.state !== 'IN_QUEUE' && found.job.state !== 'LEASED';
  if (!ended && !waiter.immediate) return;
  const damage = waiter.mode === 'stream' ? damageOfStream(found) : damageOfOutput(found);
  if (damage !== null) {
    answerFailure(ctx, waiter, damage);
    return;
  }
  if (waiter.mode === 'stream') {
    const { seq, token, error } = found.job;
    if (!ended || found.chunks.length === 0 || !areWhole(found.chunks)) {
      answerStream(ctx, waiter, { state: publicState(found.job), chunks: [], error, token });
      return;
    }
    // The reader also gets its reply if the store refuses: then the job was retried or deleted.
    const below = acknowledgedBy(found.job, waiter);
    if (below > found.firstChunk) ctx.write({ kind: 'drain', seq, below });
    const kept = { first: found.firstChunk, next: found.firstChunk + found.chunks.length, chunks: found.chunks };
    const { chunks, firstIndex } = chunksFor(ctx.state, found.job, kept, waiter);
    answerStream(ctx, waiter, { state: publicState(found.job), chunks, error, token, firstIndex });
    return;
  }
  const endpoint = ctx.state.endpoints.get(found.job.endpoint);
  answerJob(ctx, waiter, viewOfRow(found, endpoint === undefined ? '' : queueReason(ctx.state, endpoint, ctx.now).reason));
}

/** What callers ask of jobs: submit, get, stream, cancel, retry, purge. */
import { CapstanError } from '../../../lib/errors.ts';
import { blobBytes } from '../../../lib/payload.ts';
import type { Job } from '../../../proto/gen/capstan/v1/jobs.ts';
import { JobState } from '../../../proto/gen/capstan/v1/common.ts';
import { StopReason } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { Outcome, WholeJob } from '../../store/store.ts';

import type { StepContext } from '../context.ts';
import { bodyRefusal, reserve } from './body-use.ts';
import { fill, findFreeSlot, sendJob } from './dispatch.ts';
import type { Cause, CoreEvent, ReadAim, ReadPurpose, Ref } from '../events.ts';
import { dropBody, type State, readClosed, readOpened } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { JobRecord, Waiter } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import { applyEvent, fromRow, newJob, toRow } from './job-records.ts';
import { DELETION_GATHER_MS, expire, expireEnded, finish, noteDeletion, retryEnded, takeLease, undo } from './jobs.ts';
import { startPurge } from './purge.ts';
import type { Usage } from './rate-limits.ts';
import { queueReason } from './reasons.ts';
import { acknowledgedBy, chunksFor, dropBelow } from './streams.ts';
import { admit, refuse } from './admission.ts';
import { failureReply, jobReply, publicState, span, viewOfRecord, viewOfRow } from './views.ts';
import { addWaiter, answerFailure, answerJob, answerStream, dropWaiter, gone, findWaiter } from './waiters.ts';
import { endpointNotFound, jobNotFound, webhookNotFound } from './errors.ts';

/** A new job: straight to a free slot when nothing waits before it, else to its queue's tail. */
export function submit(ctx: StepContext, event: Extract<CoreEvent, { kind: 'submit' }>): void {
  const endpoint = ctx.state.endpoints.get(event.endpoint);
  // One that is there already, or may be, brings no new body.
  const isNew = !event.counting.resent && !ctx.state.jobs.has(event.job);
  const refusal =
    endpoint === undefined
      ? endpointNotFound(event.endpoint)
      : (refusalOf(endpoint) ?? (isNew ? inputRefusal(ctx.state, endpoint, event) : null));
  if (endpoint === undefined || refusal !== null) {
    refuse(ctx, event.ref, refusal as CapstanError);
    dropBody(ctx.state, event.input);
    return;
  }
  const usage = admit(ctx, endpoint, event);
  if (usage === undefined) {
    dropBody(ctx.state, event.input);
    return;
  }
  // One that was sent before may be stored, run and ended already, and one that the state holds may be refused by the store yet, because its key
  // belongs to another job: the store tells, which is read after it has answered what was written before.
  if (event.counting.resent || ctx.state.jobs.has(event.job)) readFor(ctx, { kind: 'submit', event, usage }, event.endpoint, event.job);
  else insert(ctx, endpoint, event, usage);
}

function insert(ctx: StepContext, endpoint: EndpointRecord, event: Extract<CoreEvent, { kind: 'submit' }>, usage: Usage | null): void {
  const { diskRefusal } = ctx.state;
  if (diskRefusal !== null) {
    ctx.emit({ kind: 'reply', channel: event.ref.channel, reply: failureReply(event.ref.request, diskRefusal), usage });
    dropBody(ctx.state, event.input);
    return;
  }
  const job = newJob(ctx.state, ctx.now, endpoint, event);
  noteDeletion(ctx.state, job.deleteAt);
  endpoint.tallies.submitted++;
  const [normal, low] = endpoint.lanes;
  const nothingBefore = normal.count === 0 && (job.priority === 0 || low.count === 0);
  const slot = nothingBefore ? findFreeSlot(ctx.state, endpoint, ctx.now, job.queuePosition) : null;
  const next = slot === null ? applyEvent(ctx.state, job, 'submit') : takeLease(ctx.state, job, 'submit-leased', slot);
  if (slot === null && (endpoint.workers.size === 0 || endpoint.config.scalerType === 'REQUEST_COUNT'))
    ctx.state.dirtyEndpoints.add(event.endpoint);
  const write = ctx.write(
    {
      kind: next.op,
      job: toRow(job),
      input: event.input,
      s3: event.s3,
      idempotency:
        event.idempotency === null ? null : { ...event.idempotency, expiresAt: ctx.now.wall + ctx.state.settings.idempotencyRetentionMs },
    },
    { kind: 'submit', ref: event.ref, usage, job, waitMs: event.waitMs },
    null,
    reserve(ctx.state, endpoint.config.account, blobBytes(event.input)),
  );
  if (event.waitMs > 0) addWaiter(ctx.state, ctx.now, event.ref, event.endpoint, event.job, 'job', event.waitMs, usage);
  else ctx.emit({ kind: 'reply', channel: event.ref.channel, reply: jobReply(event.ref.request, viewOfRecord(job, '')), usage }, write);
  if (slot !== null) sendJob(ctx, job, slot, write);
}

/** Why the account may not have the input of a new job; null when it may. */
function inputRefusal(
  state: State,
  { config: { account } }: EndpointRecord,
  { input }: Extract<CoreEvent, { kind: 'submit' }>,
): CapstanError | null {
  const size = blobBytes(input);
  return bodyRefusal(state, account, { size, adds: size, field: 'input' });
}

/** Answers with a job's state, waiting for its end up to waitMs. */
export function get(ctx: StepContext, event: Extract<CoreEvent, { kind: 'get' }>): void {
  const usage = admit(ctx, ctx.state.endpoints.get(event.endpoint), event);
  if (usage !== undefined) replyOrWait(ctx, questionOf(event, usage));
}

/** Which job is asked for, and by whom. */
interface Question {
  readonly ref: Ref;
  readonly endpoint: string;
  readonly id: string;
  readonly waitMs: number;
  readonly usage: Usage | null;
  /** The job was found by an Idempotency-Key. */
  readonly byKey: boolean;
}

function questionOf(
  event: { readonly ref: Ref; readonly endpoint: string; readonly job: string; readonly waitMs: number },
  usage: Usage | null,
): Question {
  const { ref, endpoint, job, waitMs } = event;
  return { ref, endpoint, id: job, waitMs, usage, byKey: false };
}

function replyOrWait(ctx: StepContext, { ref, endpoint, id, waitMs, usage, byKey }: Question): void {
  const job = liveJob(ctx.state, ctx.now, endpoint, id);
  if (job !== null && waitMs <= 0) {
    ctx.emit({ kind: 'reply', channel: ref.channel, reply: jobReply(ref.request, view(ctx.state, ctx.now, job)), usage });
    return;
  }
  addWaiter(ctx.state, ctx.now, ref, endpoint, id, 'job', waitMs, usage, { after: null, resent: false, byKey });
  if (job === null) readFor(ctx, { kind: 'waiter', ref }, endpoint, id);
}

/** Takes the unread chunks of a job, waiting for the first up to waitMs. */
export function readStream(ctx: StepContext, event: Extract<CoreEvent, { kind: 'read-stream' }>): void {
  const usage = admit(ctx, ctx.state.endpoints.get(event.endpoint), event);
  if (usage === undefined) return;
  const job = liveJob(ctx.state, ctx.now, event.endpoint, event.job);
  const reader = { after: event.after, resent: event.counting.resent, byKey: false };
  const waiter = addWaiter(ctx.state, ctx.now, event.ref, event.endpoint, event.job, 'stream', event.waitMs, usage, reader);
  if (job === null) {
    readFor(ctx, { kind: 'waiter', ref: event.ref }, event.endpoint, event.job);
    return;
  }
  received(ctx, job, waiter);
  if (!deliverChunks(ctx, job, waiter) && event.waitMs <= 0) answerStream(ctx, waiter, view(ctx.state, ctx.now, job).state, [], null);
}

/** Gives a waiter the chunks it has not got; false when there are none. */
export function deliverChunks(ctx: StepContext, job: JobRecord, waiter: Waiter): boolean {
  const { chunks, firstIndex } = chunksFor(ctx.state, job, job.stream, waiter);
  if (chunks.length === 0) return false;
  answerStream(ctx, waiter, JobState.IN_PROGRESS, chunks, null, null, { token: job.token, firstIndex });
  return true;
}

/** Drops what a reader says to have, here and at the agent. */
function received(ctx: StepContext, job: JobRecord, waiter: Waiter): void {
  const nextIndex = acknowledgedBy(ctx.state, job, waiter);
  if (!dropBelow(ctx.state, job, nextIndex, true) || job.lease === null) return;
  const session = ctx.state.nodes.get(job.lease.node)?.session ?? null;
  if (session === null) return;
  const value = { jobId: job.id, token: job.token, nextIndex };
  ctx.emit({ kind: 'send', node: job.lease.node, session, event: { event: { $case: 'drained', value } } });
}

/** A wait is over: answer with what is known now. */
export function waitOver(ctx: StepContext, waiter: Waiter): void {
  if (waiter.done) return;
  const job = liveJob(ctx.state, ctx.now, waiter.endpoint, waiter.job);
  if (job === null) {
    waiter.immediate = true;
    readFor(ctx, { kind: 'waiter', ref: { channel: waiter.channel, request: waiter.request } }, waiter.endpoint, waiter.job);
  } else if (waiter.mode === 'job') answerJob(ctx, waiter, view(ctx.state, ctx.now, job));
  else answerStream(ctx, waiter, view(ctx.state, ctx.now, job).state, [], null);
}

/** Ends a queued or running job as CANCELLED and stops its handler. */
export function cancel(ctx: StepContext, call: number, endpoint: string, id: string): void {
  const job = liveJob(ctx.state, ctx.now, endpoint, id);
  if (job === null) readFor(ctx, { kind: 'cancel', call, endpoint, job: id }, endpoint, id);
  else cancelJob(ctx, call, job);
}

/** Puts a failed or timed-out job back at the tail. */
export function retry(ctx: StepContext, call: number, endpoint: string, id: string): void {
  if (liveJob(ctx.state, ctx.now, endpoint, id) === null) readFor(ctx, { kind: 'retry', call, endpoint, job: id }, endpoint, id);
  else answerError(ctx, call, notRetryable(id, 'has not ended'));
}

export function purge(ctx: StepContext, call: number, endpointId: string): void {
  const endpoint = ctx.state.endpoints.get(endpointId);
  if (endpoint === undefined) {
    answerError(ctx, call, endpointNotFound(endpointId));
    return;
  }
  startPurge(ctx.state, endpoint, call);
  fill(ctx, endpoint);
}

/** A job that was not in the state has been read from the store. */
export function jobRead(ctx: StepContext, purpose: ReadPurpose, found: WholeJob | null): void {
  // A job that ended since its row was read must not be acted upon: read it again, after the commit.
  if (found?.job.state === 'IN_QUEUE' && ctx.state.reads.ended.has(found.job.seq)) {
    ctx.emit({ kind: 'read-job', purpose, endpoint: found.job.endpoint, job: found.job.id });
    return;
  }
  readClosed(ctx.state, purpose.read);
  switch (purpose.kind) {
    case 'waiter': {
      const waiter = findWaiter(ctx.state, purpose.ref);
      if (waiter !== null) resolveWaiter(ctx, waiter, found);
      return;
    }
    case 'submit': {
      const { event, usage } = purpose;
      const held = ctx.state.jobs.get(event.job);
      if (found === null && held?.endpoint === event.endpoint) {
        // Written since the read, by another copy of the submission: not answered before the store has taken or refused it.
        readFor(ctx, purpose, event.endpoint, event.job);
        return;
      }
      if (found !== null || held !== undefined) {
        replyOrWait(ctx, questionOf(event, usage));
        return;
      }
      // It may have been deleted while the store was read.
      const endpoint = ctx.state.endpoints.get(event.endpoint);
      const error =
        endpoint === undefined ? endpointNotFound(event.endpoint) : (refusalOf(endpoint) ?? inputRefusal(ctx.state, endpoint, event));
      if (endpoint !== undefined && error === null) insert(ctx, endpoint, event, usage);
      else if (error !== null) {
        ctx.emit({ kind: 'reply', channel: event.ref.channel, reply: failureReply(event.ref.request, error), usage });
        dropBody(ctx.state, event.input);
      }
      return;
    }
    case 'cancel':
    case 'retry': {
      const live = liveJob(ctx.state, ctx.now, purpose.endpoint, purpose.job);
      if (live === null && (found === null || found.job.deleteAt <= ctx.now.wall)) answerError(ctx, purpose.call, jobNotFound(purpose.job));
      else if (purpose.kind === 'cancel') cancelStored(ctx, purpose.call, live, found);
      else retryStored(ctx, purpose.call, live, found);
    }
  }
}

/** The store refused an operation that a caller asked for: undo what the state assumed, and answer. */
export function refused(ctx: StepContext, outcome: Outcome, cause: Cause): void {
  switch (cause.kind) {
    case 'submit': {
      undo(ctx.state, cause.job);
      const waiter = findWaiter(ctx.state, cause.ref);
      // The caller that would have waited went away meanwhile.
      if (cause.waitMs > 0 && waiter === null) return;
      if (outcome.kind === 'idempotent-other-body') {
        const error = new CapstanError('IDEMPOTENCY_MISMATCH', 'Idempotency-Key: was used with a different request body', {
          field: 'Idempotency-Key',
        });
        if (waiter === null)
          ctx.emit({ kind: 'reply', channel: cause.ref.channel, reply: failureReply(cause.ref.request, error), usage: cause.usage });
        else answerFailure(ctx, waiter, error);
        return;
      }
      // The job is there already: the same submission again, or its idempotency key.
      const id = outcome.kind === 'idempotent-same' ? outcome.jobId : cause.job.id;
      if (waiter !== null) dropWaiter(ctx.state, waiter);
      const { job, waitMs, ref, usage } = cause;
      replyOrWait(ctx, { ref, endpoint: job.endpoint, id, waitMs, usage, byKey: id !== job.id });
      return;
    }
    case 'retry':
      undo(ctx.state, cause.job);
      answerError(ctx, cause.call, notRetryable(cause.job.id, 'changed concurrently'));
      return;
    case 'redeliver':
      answerError(ctx, cause.call, webhookNotFound(cause.id));
      return;
    case 'command':
      answerError(ctx, cause.call, new CapstanError('CONFLICT', 'the state changed concurrently; read it again'));
  }
}

/** The job as it stands, for callers. */
export function view(state: State, now: Now, job: JobRecord): Job {
  const endpoint = state.endpoints.get(job.endpoint);
  return viewOfRecord(job, endpoint === undefined ? '' : queueReason(state, endpoint, now).reason);
}

function resolveWaiter(ctx: StepContext, waiter: Waiter, found: WholeJob | null): void {
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
  if (waiter.mode === 'stream') {
    const { seq, token, error } = found.job;
    if (!ended || found.chunks.length === 0) {
      answerStream(ctx, waiter, publicState(found.job), [], error, null, { token });
      return;
    }
    // The reader is answered also when the store refuses: then the job was retried or is gone.
    const below = acknowledgedBy(ctx.state, found.job, waiter);
    if (below > found.firstChunk) ctx.write({ kind: 'drain', seq, below });
    const kept = { first: found.firstChunk, next: found.firstChunk + found.chunks.length, chunks: found.chunks };
    const { chunks, firstIndex } = chunksFor(ctx.state, found.job, kept, waiter);
    answerStream(ctx, waiter, publicState(found.job), chunks, error, null, { token, firstIndex });
    return;
  }
  const endpoint = ctx.state.endpoints.get(found.job.endpoint);
  answerJob(ctx, waiter, viewOfRow(found, endpoint === undefined ? '' : queueReason(ctx.state, endpoint, ctx.now).reason));
}

function cancelStored(ctx: StepContext, call: number, live: JobRecord | null, found: WholeJob | null): void {
  if (live !== null) cancelJob(ctx, call, live);
  else if (found?.job.state === 'IN_QUEUE') cancelJob(ctx, call, fromRow(found.job));
  else answerError(ctx, call, notCancellable(found?.job.id ?? '', found?.job.state ?? 'gone'));
}

function cancelJob(ctx: StepContext, call: number, job: JobRecord): void {
  const { lease, token, startedAt, submittedAt } = job;
  const ended = finish(ctx, job, { event: 'cancel', output: null, error: null, executionMs: null, agoMs: 0 }, { kind: 'command', call });
  if (ended === null) {
    answerError(ctx, call, notCancellable(job.id, job.phase));
    return;
  }
  if (lease !== null) stopAttempt(ctx, lease.node, job.id, token, StopReason.CANCELLED);
  const delayMs = startedAt === null ? null : span(submittedAt, startedAt);
  const executionMs = startedAt === null ? null : span(startedAt, ctx.now.wall);
  ctx.reply(call, { kind: 'job', id: job.id, state: 'CANCELLED', delayMs, executionMs }, ended.write);
}

function retryStored(ctx: StepContext, call: number, live: JobRecord | null, found: WholeJob | null): void {
  const row = found?.job;
  const endpoint = row === undefined ? undefined : ctx.state.endpoints.get(row.endpoint);
  const job = row === undefined ? null : fromRow(row);
  const may = live === null && endpoint !== undefined && endpoint.config.removing === undefined;
  const write = may && job !== null ? retryEnded(ctx, job, call) : null;
  if (endpoint === undefined || job === null || write === null) {
    answerError(ctx, call, notRetryable(live?.id ?? row?.id ?? '', live === null ? `is ${row?.state ?? 'gone'}` : 'has not ended'));
    return;
  }
  ctx.state.dirtyEndpoints.add(job.endpoint);
  ctx.reply(call, { kind: 'job', id: job.id, state: 'IN_QUEUE', delayMs: null, executionMs: null }, write);
  fill(ctx, endpoint);
}

/** Tells the node that runs an attempt to stop it. */
export function stopAttempt(ctx: StepContext, node: string, job: string, token: number, reason: StopReason): void {
  const session = ctx.state.nodes.get(node)?.session ?? null;
  if (session !== null)
    ctx.emit({ kind: 'send', node, session, event: { event: { $case: 'stop', value: { jobId: job, token, reason } } } });
}

/** The job of this endpoint if the state holds it and its ttl is not over. */
function liveJob(state: State, now: Now, endpoint: string, id: string): JobRecord | null {
  const job = state.jobs.get(id);
  if (job === undefined || job.endpoint !== endpoint) return null;
  return job.deleteAt > now.wall ? job : null;
}

/** Removes what the store reported as due (ttl or retention over). */
export function dueRead(ctx: StepContext, event: Extract<CoreEvent, { kind: 'due-read' }>): void {
  ctx.state.readingDue = false;
  // Whatever was submitted or ended during the read has lowered nextDeletion itself.
  if (event.nextAt !== null) noteDeletion(ctx.state, event.nextAt <= event.wall ? ctx.now.wall - DELETION_GATHER_MS : event.nextAt);
  for (const row of event.jobs) {
    const job = ctx.state.jobs.get(row.id);
    if (job !== undefined && job.seq === row.seq) {
      if (job.deleteAt > ctx.now.wall) continue;
      const { lease, token } = job;
      expire(ctx, job);
      if (lease !== null) stopAttempt(ctx, lease.node, job.id, token, StopReason.EXPIRED);
      continue;
    }
    if (ctx.state.reads.ended.has(row.seq)) continue;
    if (row.state === 'IN_QUEUE') expire(ctx, fromRow(row));
    else expireEnded(ctx, row, event.wall);
  }
  readClosed(ctx.state, ctx.state.reads.due);
}

function readFor(ctx: StepContext, aim: ReadAim, endpoint: string, job: string): void {
  ctx.emit({ kind: 'read-job', purpose: { ...aim, read: readOpened(ctx.state) }, endpoint, job });
}

function answerError(ctx: StepContext, call: number, error: CapstanError): void {
  ctx.reply(call, error);
}

function notCancellable(id: string, state: string): CapstanError {
  return new CapstanError('CONFLICT', `job ${id} is ${state}; only a queued or running job can be cancelled`);
}

function notRetryable(id: string, why: string): CapstanError {
  return new CapstanError('CONFLICT', `job ${id} ${why}; only a FAILED or TIMED_OUT job can be retried`);
}

function refusalOf(endpoint: EndpointRecord): CapstanError | null {
  if (endpoint.config.removing !== undefined) return endpointNotFound(endpoint.config.id);
  return endpoint.config.kind === 'QUEUE'
    ? null
    : new CapstanError('INVALID_ARGUMENT', `endpoint ${endpoint.config.id} is load-balanced: it serves routes and has no queue`);
}

/**
 * Changes of a job. Each applies one transition of the table, writes the operation that makes it durable, and replies
 * to the waiters.
 */
import { invariant, present } from '../../../lib/invariant.ts';
import type { Payload } from '../../../lib/payload.ts';
import { lastAttemptError } from './errors.ts';
import { jobMessage } from '../../../lib/job-message.ts';
import { shownWebhook } from '../webhooks/webhook-url.ts';
import { JobState } from '../../../proto/gen/capstan/v1/common.ts';
import type { Job } from '../../../proto/gen/capstan/v1/jobs.ts';
import type { JobRow } from '../ports/store.ts';

import type { StepContext } from '../context.ts';
import { countedBytes, reserve } from './body-use.ts';
import type { Write } from '../effects.ts';
import type { Cause } from '../events.ts';
import { type State, noteEnded } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { attemptKey, type HeldAttempt, type Slot } from '../state/fleet.ts';
import type { JobRecord } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import { deliveryOf, noteDelivery } from '../webhooks/webhooks.ts';
import { applyEvent, phaseOf } from './job-records.ts';
import { openSuspicions, unchargedAttempts, withAttempt, type AttemptEnd } from './past-attempts.ts';
import { maxAttemptsOf, runsAlone } from './running-apart.ts';
import { chunksFor, dropStream, takeStream } from './streams.ts';
import { transition, type Cell, type Phase } from '../state/transitions.ts';
import { span } from './views.ts';
import { replyNotFound, answerJob, answerStream } from './waiters.ts';

/** Deletions are batched: jobs due within this time of each other are deleted together, ms. */
export const DELETION_GATHER_MS = 250;

/** The end of an attempt or of a wait. */
export interface Ending {
  readonly event: 'complete' | 'fail' | 'time-out' | 'cancel';
  readonly output: Payload | null;
  readonly error: string | null;
  readonly executionMs: number | null;
  /** Age of the end, ms. */
  readonly agoMs: number;
}

/** Undefined only where a database that was restored in part lacks the endpoint's row. */
function endpointOf(state: State, job: JobRecord): EndpointRecord | undefined {
  return state.endpoints.get(job.endpoint);
}

/** Leases the slot to a job, whose phase allows the event. The caller writes the operation of the transition. */
export function takeLease<P extends Phase, E extends 'submit-leased' | 'lease'>(
  { state, now }: StepContext,
  job: JobRecord & { readonly phase: P },
  event: E,
  { worker, node }: Slot,
): Cell<P, E> {
  const next = applyEvent(state, job, event);
  invariant(next !== null, 'only a new or queued job is leased', { job: job.id, from: job.phase });
  invariant(job.lease === null, 'a job has one lease at a time (invariant 2)', { job: job.id });
  invariant(node.session !== null && !worker.drain, 'a lease goes to a worker that takes jobs', { job: job.id, worker: worker.id });
  job.token++;
  job.lease = { node: worker.node, incarnation: node.incarnation, worker: worker.id };
  job.leasedAt = now.wall;
  job.worker = worker.id;
  job.startedAt = null;
  job.startRecorded = false;
  job.progress = null;
  dropStream(state, job);
  // An agent that claims to hold this very attempt already does no harm.
  worker.attempts.set(attemptKey(job.id, job.token), heldAttempt(state, job, now));
  worker.lastUsed = state.nextUse++;
  state.jobs.set(job.id, job);
  return next;
}

/** Returns the slot's entry for the present attempt of a job. */
export function heldAttempt(state: State, job: JobRecord, now: Now): HeldAttempt {
  return { job: job.id, token: job.token, isApart: runsAlone(state, job), since: now.mono, isRecalled: false };
}

/** Leases a queued job. */
export function leaseQueued(ctx: StepContext, job: JobRecord, slot: Slot): Write {
  const next = takeLease(ctx, job, 'lease', slot);
  invariant(next !== null, 'only a queued job is in a lane', { job: job.id });
  const lease = present(job.lease, 'a leased job has a lease', { job: job.id });
  return ctx.write({ kind: next.op, seq: job.seq, token: job.token, lease });
}

/** Records that the handler was entered `agoMs` ago. From then on the attempt counts. */
export function start(state: State, now: Now, job: JobRecord, agoMs: number): void {
  // The agent says it when the handler is entered, again after a lost connection, and with the end.
  if (applyEvent(state, job, 'start') === null) return;
  invariant(job.lease !== null && job.startedAt === null, 'a leased job starts once', { job: job.id, token: job.token });
  job.startedAt = Math.max(job.submittedAt, now.wall - agoMs);
  const endpoint = endpointOf(state, job);
  if (endpoint !== undefined) endpoint.tallies.started++;
  job.recordStart = state.deadlines.add(now.mono + state.settings.recordStartAfterMs, { kind: 'record-start', job, token: job.token });
}

/** Makes the start of an attempt that has run for a while durable, so that it counts even if both sides crash. */
export function recordStart(ctx: StepContext, job: JobRecord, token: number): void {
  const ids = { job: job.id, token, present: job.token, inPhase: job.phase };
  invariant(job.phase === 'STARTED' && job.token === token, 'the deadline of a start ends with its attempt', ids);
  invariant(!job.startRecorded, 'a start is recorded once', ids);
  const startedAt = present(job.startedAt, 'a started job has the time of its start', ids);
  job.startRecorded = true;
  ctx.write({
    kind: 'started',
    seq: job.seq,
    token,
    startedAt,
    attempts: job.attempts,
    delayMs: span(job.submittedAt, startedAt),
  });
}

/** The end of a job: the operation that records it, and the caller's view of the job. */
export interface Finished {
  readonly write: Write;
  readonly view: Job;
}

/** Ends a job that waits or is leased, and replies to its waiters. */
export function finishLive(ctx: StepContext, job: JobRecord, ending: Ending): Finished {
  return present(finish(ctx, job, ending), 'a job that waits or is leased can end', {
    job: job.id,
    inPhase: job.phase,
    event: ending.event,
  });
}

/** Ends a job and replies to its waiters. Returns null if its phase forbids it: it has ended, or only a running job ends so. */
export function finish(ctx: StepContext, job: JobRecord, ending: Ending, cause: Cause | null = null): Finished | null {
  const from = job.phase === 'QUEUED' ? 'IN_QUEUE' : 'LEASED';
  const next = applyEvent(ctx.state, job, ending.event);
  if (next === null) return null;
  invariant((from === 'LEASED') === (job.lease !== null), 'a job has a lease while it is leased', { job: job.id, from });
  const state = next.to;
  const endedAt = Math.max(job.submittedAt, ctx.now.wall - ending.agoMs);
  const { startedAt } = job;
  const delayMs = startedAt === null ? null : span(job.submittedAt, startedAt);
  const executionMs = startedAt === null ? null : (ending.executionMs ?? span(startedAt, endedAt));
  const deleteAt = endedAt + job.retentionMs;
  const endpoint = endpointOf(ctx.state, job);
  // Without its endpoint's row a job is of no account, and its webhook is not signed.
  const delivery = deliveryOf(job, endpoint?.config.account ?? '', ctx.now, { status: state, error: ending.error, delayMs, executionMs });
  const stream = takeStream(ctx.state, job);
  const chunks = stream?.chunks ?? [];
  // The webhook keeps a copy of an output in the row.
  const copied = delivery !== null && ending.output !== null && 'inline' in ending.output ? [ending.output] : [];
  const bytes = [ending.output, ...copied, ...chunks].reduce((sum, body) => sum + countedBytes(body), 0);
  const write = ctx.write(
    {
      kind: next.op,
      seq: job.seq,
      from,
      token: job.token,
      state,
      endedAt,
      deleteAt,
      attempts: job.attempts,
      delayMs,
      executionMs,
      error: ending.error,
      output: ending.output,
      chunks,
      // Of no chunks.
      firstChunk: stream?.first ?? 0,
      delivery,
    },
    cause,
    job,
    reserve(ctx.state, endpoint?.config.account, bytes),
  );
  if (from === 'IN_QUEUE') emitWait(ctx, job, { outcome: 'cancelled', reason: ending.error ?? 'cancelled' }, write);
  if (delivery !== null) noteDelivery(ctx, delivery.dueAt);
  noteDeletion(ctx.state, deleteAt);
  job.lease = null;
  forget(ctx.state, job);
  const { id, endpoint: endpointId, attempts, worker, submittedAt } = job;
  const view = jobMessage({
    ...{ id, endpointId, attempts, worker, submittedAt, delayMs, executionMs },
    state: JobState[state],
    output: ending.output,
    error: ending.error,
    webhook: shownWebhook(job.webhook),
  });
  const waiters = ctx.state.waiters.get(job.id);
  if (waiters !== undefined) {
    for (const waiter of [...waiters]) {
      if (waiter.mode === 'job') answerJob(ctx, waiter, view, write);
      else {
        const { chunks, firstIndex } = chunksFor(ctx.state, job, stream, waiter);
        answerStream(ctx, waiter, { state: view.state, chunks, error: ending.error, token: job.token, firstIndex }, write);
      }
    }
  }
  return { write, view };
}

/** Why an attempt ended and its job did not. */
export interface Lost {
  readonly reason: Exclude<AttemptEnd, 'FAILED' | 'TIMED_OUT'>;
  /** For users. */
  readonly how: string;
  /** Age of the end, ms. */
  readonly agoMs?: number;
  /** Whether a started attempt counts towards maxAttempts. */
  readonly charged: boolean;
}

/** Releases a lease and puts the job back at its queue position. */
export function requeue(ctx: StepContext, job: JobRecord, { reason, how, agoMs = 0, charged }: Lost): void {
  const started = job.phase === 'STARTED';
  const next = applyEvent(ctx.state, job, 'requeue');
  invariant(next !== null, 'only a leased job is requeued', { job: job.id, from: job.phase, reason });
  const lease = present(job.lease, 'a leased job has a lease', { job: job.id, reason });
  const { submittedAt, startedAt } = job;
  const ended = {
    submittedAt,
    attempt: started ? job.attempts : job.attempts + 1,
    worker: job.worker,
    node: lease.node,
    leasedAt: job.leasedAt,
    startedAt,
    endedAt: Math.max(startedAt ?? submittedAt, ctx.now.wall - agoMs),
    reason,
    error: how,
  };
  // A run that a neighbour ended happened, and is not charged; one that the service ended is not counted at all.
  const isOfNeighbour = reason === 'SUSPECTED' || reason === 'NEIGHBOUR_STOPPED';
  job.pastAttempts = withAttempt(job.pastAttempts, ended, charged || !isOfNeighbour);
  if (started && !charged && !isOfNeighbour) job.attempts--;
  job.lease = null;
  job.leasedAt = null;
  job.startedAt = null;
  job.queuedAt = ctx.now.wall;
  job.progress = null;
  dropStream(ctx.state, job);
  if (job.recordStart !== null) ctx.state.deadlines.drop(job.recordStart);
  job.recordStart = null;
  ctx.write({ kind: next.op, seq: job.seq, token: job.token, attempts: job.attempts, pastAttempts: job.pastAttempts });
  ctx.state.dirtyEndpoints.add(job.endpoint);
}

/**
 * Handles the loss of a leased job's worker: requeues the job while attempts are left, otherwise ends it FAILED with
 * this reason. A job that is merely suspected is not charged, until it ends a worker that it has for itself.
 */
export function lose(ctx: StepContext, job: JobRecord, lost: Omit<Lost, 'charged'>, isSuspected = false): void {
  const { how, agoMs = 0 } = lost;
  const lease = present(job.lease, 'only a leased job loses its worker', { job: job.id, reason: lost.reason });
  if (job.deleteAt <= ctx.now.wall) {
    expire(ctx, job);
    return;
  }
  const endpoint = endpointOf(ctx.state, job);
  const max = maxAttemptsOf(ctx.state, job);
  // A job that runs apart has nobody else to suspect, whatever the agent says.
  const isFree = isSuspected && !runsAlone(ctx.state, job);
  const isCulprit = lost.reason === 'WORKER_LOST' && !isFree;
  const suspicions = isCulprit ? openSuspicions(job.pastAttempts, job.submittedAt) : 0;
  const charged = job.attempts - unchargedAttempts(job.pastAttempts, job.submittedAt) + suspicions;
  const last = !isFree && job.phase === 'STARTED' && charged >= max;
  if (endpoint !== undefined) endpoint.tallies.lost++;
  const facts = { job: job.id, endpoint: job.endpoint, attempt: job.token, worker: job.worker, node: lease.node, how };
  ctx.emit({ kind: 'log', level: 'warn', message: last ? 'the last attempt was lost' : 'attempt lost', facts });
  if (last) {
    // More than one only where the limit is 1: the first attempt ran beside others.
    const error = lastAttemptError(how, charged, max);
    finishLive(ctx, job, { event: 'fail', output: null, error, executionMs: null, agoMs });
  } else {
    requeue(ctx, job, isFree ? { ...lost, reason: 'SUSPECTED', charged: false } : { ...lost, charged: true });
  }
}

/** Removes a job whose ttl has ended, in any phase before its end. */
export function expire(ctx: StepContext, job: JobRecord): void {
  const waited = job.phase === 'QUEUED';
  const next = applyEvent(ctx.state, job, 'expire');
  invariant(next !== null, 'a job expires once', { job: job.id, from: job.phase });
  const endpoint = endpointOf(ctx.state, job);
  if (endpoint !== undefined) endpoint.tallies.expired++;
  job.lease = null;
  forget(ctx.state, job);
  const write = ctx.write({ kind: next.op, seq: job.seq, dueBy: null });
  if (waited) emitWait(ctx, job, { outcome: 'expired', reason: 'ttl exceeded' }, write);
  replyNotFound(ctx, job.id, write);
}

/** Adds the effect that records the wait of a job that ends in the queue, once its end is durable. */
function emitWait(
  ctx: StepContext,
  job: JobRecord,
  end: { readonly outcome: 'cancelled' | 'expired'; readonly reason: string },
  write: Write,
): void {
  const { id, endpoint, trace, queuedAt, attempts } = job;
  if (trace !== null) ctx.emit({ kind: 'wait-ended', job: id, endpoint, trace, queuedAt, attempt: attempts + 1, ...end }, write);
}

/** Removes the stored row of an ended job whose retention is over, unless the job was retried since the read. */
export function expireEnded(ctx: StepContext, row: JobRow, dueBy: number): void {
  const next = transition(phaseOf(row), 'expire');
  invariant(next !== null, 'a stored job can expire', { job: row.id, state: row.state });
  ctx.write({ kind: next.op, seq: row.seq, dueBy });
}

/** Puts an ended job, of this row, at the tail of its queue, as if submitted now. Returns null if its phase forbids it. */
export function retryEnded(ctx: StepContext, job: JobRecord, row: JobRow, call: number): Write | null {
  if (transition(job.phase, 'retry') === null) return null;
  job.pastAttempts = withEnd(ctx.state, row);
  // The position is set first, because the queue is ordered by it.
  job.queuePosition = ctx.state.nextQueuePosition++;
  const next = present(applyEvent(ctx.state, job, 'retry'), 'the table allowed the retry', { job: job.id });
  job.token++;
  job.attempts = 0;
  job.submittedAt = ctx.now.wall;
  job.queuedAt = ctx.now.wall;
  job.deleteAt = ctx.now.wall + job.ttlMs;
  job.lease = null;
  job.startedAt = null;
  job.startRecorded = false;
  job.worker = null;
  noteDeletion(ctx.state, job.deleteAt);
  const { seq, queuePosition, submittedAt, deleteAt, pastAttempts } = job;
  return ctx.write({ kind: next.op, seq, queuePosition, submittedAt, deleteAt, pastAttempts }, { kind: 'retry', call, job });
}

/** The attempts of an ended job with the last one, which the job ended with. */
function withEnd(state: State, row: JobRow): string | null {
  const { submittedAt, attempts, worker, delayMs, endedAt } = row;
  if ((row.state !== 'FAILED' && row.state !== 'TIMED_OUT') || endedAt === null) return row.pastAttempts;
  // The start of a short attempt is in its delay only.
  const startedAt = row.startedAt ?? (delayMs === null ? null : submittedAt + delayMs);
  return withAttempt(row.pastAttempts, {
    submittedAt,
    attempt: startedAt === null ? attempts + 1 : attempts,
    worker,
    // The worker may be gone, with its node.
    node: worker === null ? null : (state.workers.get(worker)?.node ?? null),
    leasedAt: null,
    startedAt,
    endedAt,
    reason: row.state,
    // A job that timed out may have no error.
    error: row.error ?? '',
  });
}

/** Undoes the state's changes for a submission or retry that the store refused. */
export function undo(state: State, job: JobRecord): void {
  // Its ttl ended before the store's outcome arrived.
  if (applyEvent(state, job, 'refuse') === null) return;
  // The worker may be gone by now.
  if (job.lease !== null) state.workers.get(job.lease.worker)?.attempts.delete(attemptKey(job.id, job.token));
  job.lease = null;
  forget(state, job);
}

/** Lowers the time of the next check for due jobs. */
export function noteDeletion(state: State, at: number): void {
  if (at + DELETION_GATHER_MS < state.nextDeletion) state.nextDeletion = at + DELETION_GATHER_MS;
}

function forget(state: State, job: JobRecord): void {
  dropStream(state, job);
  noteEnded(state, job.seq);
  if (state.jobs.get(job.id) === job) state.jobs.delete(job.id);
  if (job.recordStart !== null) state.deadlines.drop(job.recordStart);
  job.recordStart = null;
}

/**
 * Changes of a job: each applies one transition of the table to the state, counts it, and writes
 * the operation that makes it durable. Nothing else changes a job's phase or an endpoint's counters.
 */
import { JobState } from '../../../proto/gen/capstan/v1/common.ts';
import type { Job } from '../../../proto/gen/capstan/v1/jobs.ts';
import type { Body, JobRow } from '../../store/store.ts';

import type { StepContext } from '../context.ts';
import { blobBytes, reserve } from './body-use.ts';
import type { Write } from '../effects.ts';
import type { Cause } from '../events.ts';
import { type State, noteEnded } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { attemptKey, type WorkerRecord } from '../state/fleet.ts';
import type { JobRecord } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import { hookOf, noteHook } from '../webhooks/webhooks.ts';
import { enqueue, leave, putBack, takeFirst } from './lanes.ts';
import { chunksFor, dropStream, takeStream } from './streams.ts';
import { transition } from './transitions.ts';
import { span, toPayload } from './views.ts';
import { answerGone, answerJob, answerStream } from './waiters.ts';

/** Deletions are gathered: jobs due within this time of each other go together, ms. */
export const DELETION_GATHER_MS = 250;

/** How an attempt or a wait ended. */
export interface Ending {
  readonly event: 'complete' | 'fail' | 'time-out' | 'cancel';
  readonly output: Body | null;
  readonly error: string | null;
  readonly executionMs: number | null;
  /** Age of the end, ms. */
  readonly agoMs: number;
}

function endpointOf(state: State, job: JobRecord): EndpointRecord | undefined {
  return state.endpoints.get(job.endpoint);
}

/** The stored row of a job in the state. */
export function toRow(job: JobRecord): JobRow {
  return {
    seq: job.seq,
    id: job.id,
    endpoint: job.endpoint,
    kind: job.kind,
    state: job.lease === null ? 'IN_QUEUE' : 'LEASED',
    priority: job.priority,
    queuePosition: job.queuePosition,
    token: job.token,
    attempts: job.attempts,
    lease: job.lease,
    submittedAt: job.submittedAt,
    startedAt: null,
    endedAt: null,
    deleteAt: job.deleteAt,
    executionTimeoutMs: job.executionTimeoutMs,
    ttlMs: job.ttlMs,
    retentionMs: job.retentionMs,
    webhook: job.webhook,
    worker: job.worker,
    delayMs: null,
    executionMs: null,
    error: null,
    hasS3: job.hasS3,
  };
}

/** The state of a stored row that is queued or leased. */
export function fromRow(row: JobRow): JobRecord {
  return {
    seq: row.seq,
    id: row.id,
    endpoint: row.endpoint,
    kind: row.kind,
    priority: row.priority,
    executionTimeoutMs: row.executionTimeoutMs,
    ttlMs: row.ttlMs,
    retentionMs: row.retentionMs,
    webhook: row.webhook,
    hasS3: row.hasS3,
    phase: row.state === 'LEASED' ? (row.startedAt === null ? 'LEASED' : 'STARTED') : 'QUEUED',
    queuePosition: row.queuePosition,
    token: row.token,
    attempts: row.attempts,
    submittedAt: row.submittedAt,
    deleteAt: row.deleteAt,
    lease: row.lease,
    startedAt: row.startedAt,
    startRecorded: row.startedAt !== null,
    recordStart: null,
    worker: row.worker,
    progress: null,
    stream: null,
  };
}

/** Takes a lease for a job in the state; the caller writes it, alone or with the submission. */
export function takeLease(state: State, job: JobRecord, worker: WorkerRecord, incarnation: string): void {
  job.token++;
  job.phase = 'LEASED';
  job.lease = { node: worker.node, incarnation, worker: worker.id };
  job.worker = worker.id;
  job.startedAt = null;
  job.startRecorded = false;
  job.progress = null;
  dropStream(state, job);
  worker.attempts.set(attemptKey(job.id, job.token), { job: job.id, token: job.token });
  worker.lastUsed = state.nextUse++;
  state.jobs.set(job.id, job);
  const endpoint = endpointOf(state, job);
  if (endpoint !== undefined) countLeased(endpoint, job, 1);
}

/** Leases the first job of a lane. */
export function leaseQueued(ctx: StepContext, endpoint: EndpointRecord, job: JobRecord, worker: WorkerRecord, incarnation: string): Write {
  takeFirst(endpoint.lanes[job.priority]);
  takeLease(ctx.state, job, worker, incarnation);
  return ctx.write({ kind: 'lease', seq: job.seq, token: job.token, lease: job.lease as NonNullable<JobRecord['lease']> });
}

/** The handler was entered `agoMs` ago: from here on the attempt counts. */
export function start(state: State, now: Now, job: JobRecord, agoMs: number): void {
  if (transition(job.phase, 'start') === null) return;
  job.phase = 'STARTED';
  job.attempts++;
  job.startedAt = Math.max(job.submittedAt, now.wall - agoMs);
  const endpoint = endpointOf(state, job);
  if (endpoint !== undefined) {
    endpoint.tallies.started++;
    if (job.attempts > 1) endpoint.counts.retried++;
  }
  job.recordStart = state.deadlines.add(now.mono + state.settings.recordStartAfterMs, { kind: 'record-start', job, token: job.token });
}

/** The attempt has run for a while: make its start durable, so that it counts even if both sides die. */
export function recordStart(ctx: StepContext, job: JobRecord, token: number): void {
  if (job.phase !== 'STARTED' || job.token !== token || job.startRecorded || job.startedAt === null) return;
  job.startRecorded = true;
  ctx.write({
    kind: 'started',
    seq: job.seq,
    token,
    startedAt: job.startedAt,
    attempts: job.attempts,
    delayMs: span(job.submittedAt, job.startedAt),
  });
}

/** Ends a job; answers its waiters. Null when its phase forbids it. */
export function finish(
  ctx: StepContext,
  job: JobRecord,
  ending: Ending,
  cause: Cause | null = null,
): { readonly write: Write; readonly view: Job } | null {
  const next = transition(job.phase, ending.event);
  if (next === null) return null;
  const state = next.to as 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';
  const from = job.phase === 'QUEUED' ? 'IN_QUEUE' : 'LEASED';
  const endedAt = Math.max(job.submittedAt, ctx.now.wall - ending.agoMs);
  const delayMs = job.startedAt === null ? null : span(job.submittedAt, job.startedAt);
  const executionMs = delayMs === null ? null : (ending.executionMs ?? span(job.startedAt as number, endedAt));
  const deleteAt = endedAt + job.retentionMs;
  const endpoint = endpointOf(ctx.state, job);
  if (endpoint !== undefined) {
    if (from === 'IN_QUEUE') leave(endpoint.lanes[job.priority], job.seq);
    else countLeased(endpoint, job, -1);
    if (state === 'COMPLETED') endpoint.counts.completed++;
    else if (state !== 'CANCELLED') endpoint.counts.failed++;
  }
  const hook = hookOf(job, endpoint?.config.account ?? '', ctx.now, { status: state, error: ending.error, delayMs, executionMs });
  const stream = takeStream(ctx.state, job);
  const chunks = stream?.chunks ?? [];
  const bytes = [ending.output, ...chunks].reduce((sum, body) => sum + blobBytes(body), 0);
  const write = ctx.write(
    {
      kind: 'finish',
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
      firstChunk: stream?.first ?? 0,
      hook,
    },
    cause,
    job.endpoint,
    reserve(ctx.state, endpoint?.config.account, bytes),
  );
  if (hook !== null) noteHook(ctx, hook.dueAt);
  noteDeletion(ctx.state, deleteAt);
  job.phase = state;
  job.lease = null;
  forget(ctx.state, job);
  const view: Job = {
    id: job.id,
    endpointId: job.endpoint,
    state: JobState[state],
    ...(ending.output === null ? {} : { output: toPayload(ending.output) }),
    ...(ending.error === null ? {} : { error: ending.error }),
    ...(delayMs === null ? {} : { delayMs }),
    ...(executionMs === null ? {} : { executionMs }),
    retries: Math.max(0, job.attempts - 1),
    workerId: job.worker ?? '',
    queueReason: '',
    webhook: job.webhook ?? '',
    submittedAtMs: BigInt(Math.trunc(job.submittedAt)),
  };
  const waiters = ctx.state.waiters.get(job.id);
  if (waiters !== undefined) {
    for (const waiter of [...waiters]) {
      if (waiter.mode === 'job') answerJob(ctx, waiter, view, write);
      else {
        const { chunks, firstIndex } = chunksFor(ctx.state, job, stream, waiter);
        answerStream(ctx, waiter, view.state, chunks, ending.error, write, { token: job.token, firstIndex });
      }
    }
  }
  return { write, view };
}

/** Gives a lease up and puts the job back at its place. `charged` false takes a reported start back. */
export function requeue(ctx: StepContext, job: JobRecord, charged: boolean): void {
  if (transition(job.phase, 'requeue') === null) return;
  if (!charged && job.phase === 'STARTED') job.attempts--;
  const endpoint = endpointOf(ctx.state, job);
  if (endpoint !== undefined) countLeased(endpoint, job, -1);
  job.phase = 'QUEUED';
  job.lease = null;
  job.startedAt = null;
  job.progress = null;
  dropStream(ctx.state, job);
  if (job.recordStart !== null) ctx.state.deadlines.drop(job.recordStart);
  job.recordStart = null;
  ctx.write({ kind: 'requeue', seq: job.seq, token: job.token, attempts: job.attempts });
  if (endpoint === undefined || !putBack(endpoint.lanes[job.priority], job)) ctx.state.jobs.delete(job.id);
  ctx.state.dirtyEndpoints.add(job.endpoint);
}

/** The worker under a leased job is gone: again while attempts are left, else FAILED with that reason. */
export function lose(ctx: StepContext, job: JobRecord, how: string): void {
  if (job.deleteAt <= ctx.now.wall) {
    expire(ctx, job);
    return;
  }
  const endpoint = endpointOf(ctx.state, job);
  const max = endpoint?.config.maxAttempts || ctx.state.settings.maxAttempts;
  const last = job.phase === 'STARTED' && job.attempts >= max;
  if (endpoint !== undefined) endpoint.tallies.lost++;
  const facts = { job: job.id, endpoint: job.endpoint, attempt: job.token, worker: job.worker, node: job.lease?.node, how };
  ctx.emit({ kind: 'log', level: 'warn', message: last ? 'the last attempt was lost' : 'attempt lost', facts });
  if (last) {
    const error = `${how} (attempt ${job.attempts} of ${max})`;
    finish(ctx, job, { event: 'fail', output: null, error, executionMs: null, agoMs: 0 });
  } else {
    requeue(ctx, job, true);
  }
}

/** Removes a job whose ttl ran out, in any phase the state knows. */
export function expire(ctx: StepContext, job: JobRecord): Write | null {
  if (transition(job.phase, 'expire') === null) return null;
  const endpoint = endpointOf(ctx.state, job);
  if (endpoint !== undefined) {
    endpoint.tallies.expired++;
    if (job.phase === 'QUEUED') leave(endpoint.lanes[job.priority], job.seq);
    else countLeased(endpoint, job, -1);
  }
  job.phase = 'DELETED';
  job.lease = null;
  forget(ctx.state, job);
  const write = ctx.write({ kind: 'delete', seq: job.seq, dueBy: null });
  answerGone(ctx, job.id, write);
  return write;
}

/** A submitted job goes into its lane; it is known to the state only inside the window. */
export function queue(state: State, endpoint: EndpointRecord, job: JobRecord): void {
  if (enqueue(endpoint.lanes[job.priority], job, state.settings.windowSize)) state.jobs.set(job.id, job);
}

/** Undoes what the state assumed of a submission or retry that the store refused. */
export function undo(state: State, job: JobRecord): void {
  const endpoint = endpointOf(state, job);
  if (endpoint !== undefined) {
    if (job.phase === 'QUEUED') leave(endpoint.lanes[job.priority], job.seq);
    else if (job.lease !== null) {
      countLeased(endpoint, job, -1);
      const worker = state.workers.get(job.lease.worker);
      worker?.attempts.delete(attemptKey(job.id, job.token));
    }
  }
  job.phase = 'DELETED';
  job.lease = null;
  forget(state, job);
}

/** Lowers the time of the next look at due jobs. */
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

function countLeased(endpoint: EndpointRecord, job: JobRecord, by: 1 | -1): void {
  endpoint.counts.inProgress += by;
  if (job.priority === 1) endpoint.counts.inProgressLow += by;
}

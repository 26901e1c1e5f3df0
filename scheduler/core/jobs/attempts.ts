/**
 * Agents' reports of attempts. A start, chunk or result counts only with the job's present token (invariant 2).
 * Everything the scheduler has decided is acknowledged, including stale and unknown results, so that agents can drop
 * them. A slot is free when the agent says so.
 */
import {
  AttemptOutcome,
  RefusalReason,
  StopReason,
  type AttemptChunk,
  type AttemptEnded,
  type AttemptProgress,
  type AttemptRefused,
  type AttemptStarted,
} from '../../../proto/gen/capstan/v1/nodes.ts';

import type { CapstanError } from '../../../lib/errors.ts';
import { invariant, present } from '../../../lib/invariant.ts';
import { fromPayloadMessage, ownPayload, type Payload } from '../../../lib/payload.ts';
import { EXECUTION_TIMEOUT_ERROR } from '../../../lib/job-errors.ts';

import type { Damaged } from '../ports/stored-payload.ts';

import type { StepContext } from '../context.ts';
import type { CoreEvent } from '../events.ts';
import { bodyRefusal, countedBytes } from './body-use.ts';
import { damagedInput } from './damage.ts';
import { fill } from './dispatch.ts';
import { dropBody, type State } from '../state.ts';
import { listedWorker } from '../references.ts';
import { attemptKey, type NodeRecord, type WorkerRecord } from '../state/fleet.ts';
import type { JobRecord } from '../state/jobs.ts';
import { expire, finishLive, lose, requeue, start } from './jobs.ts';
import { missingInput } from './missing-inputs.ts';
import { reportedBody, reportedError } from './reported.ts';
import { deliverChunks } from './read-stream.ts';
import { stopAttempt } from './stop-attempt.ts';
import { addChunk, dropStream } from './streams.ts';

/** Time for which a worker that refused a job gets no other one, which prevents a busy loop, ms. */
const REFUSAL_PAUSE_MS = 200;

/** Returns the leased job that an attempt belongs to, or null if another attempt holds its lease. */
export function leasedBy(state: State, node: NodeRecord, id: string, token: number): JobRecord | null {
  // Agents report attempts that ended here, and could report any.
  const job = state.jobs.get(id);
  if (job === undefined || job.token !== token || job.lease === null) return null;
  return job.lease.node === node.config.id && job.lease.incarnation === node.incarnation ? job : null;
}

export function attemptStarted(ctx: StepContext, node: NodeRecord, event: AttemptStarted): void {
  const job = leasedBy(ctx.state, node, event.jobId, event.token);
  if (job === null) stopAttempt(ctx, node.config.id, { id: event.jobId, token: event.token }, StopReason.STALE);
  else start(ctx.state, ctx.now, job, event.agoMs);
}

export function attemptRefused(ctx: StepContext, node: NodeRecord, event: AttemptRefused): void {
  const worker = freeSlot(ctx, node, event.jobId, event.token);
  const job = leasedBy(ctx.state, node, event.jobId, event.token);
  const isOfNeighbour = event.reason === RefusalReason.NEIGHBOUR_STOPPED;
  const faulty = event.reason !== RefusalReason.STOPPED && !isOfNeighbour;
  if (worker !== null && faulty) {
    worker.notBefore = ctx.now.mono + REFUSAL_PAUSE_MS;
    ctx.state.deadlines.add(worker.notBefore, { kind: 'refill', endpoint: worker.endpoint });
  }
  if (job !== null) {
    const endpoint = ctx.state.endpoints.get(job.endpoint);
    if (endpoint !== undefined) endpoint.tallies.refused++;
    const lost = event.reason === RefusalReason.INPUT_MISSING ? missingInput(ctx.state, job, ctx.now.mono) : null;
    if (isOfNeighbour) requeue(ctx, job, { reason: 'NEIGHBOUR_STOPPED', how: reportedError(event.detail), charged: false });
    else if (lost === null) requeue(ctx, job, { reason: 'REFUSED', how: refusalOf(event), charged: false });
    else failForQuota(ctx, job, lost);
  }
  refill(ctx, worker);
}

/** Ends a job whose input is damaged. Another attempt would read the same bytes. */
export function failForInput(ctx: StepContext, job: JobRecord, damage: Damaged): void {
  dropStream(ctx.state, job);
  finishLive(ctx, job, { event: 'fail', output: null, error: damagedInput(job.id, damage), executionMs: null, agoMs: 0 });
}

/** Handles a damaged input in the blob store. The agent refuses the attempt, which frees its slot. */
export function inputDamaged(ctx: StepContext, { node, job: id, token, damage }: Extract<CoreEvent, { kind: 'input-damaged' }>): void {
  const found = ctx.state.nodes.get(node);
  const job = found === undefined ? null : leasedBy(ctx.state, found, id, token);
  // The agent may have given up the attempt while its input was read.
  if (job === null) return;
  failForInput(ctx, job, damage);
  stopAttempt(ctx, node, { id, token }, StopReason.CANCELLED);
}

/** What the agent said of its refusal. */
function refusalOf({ reason, detail }: AttemptRefused): string {
  const name = reason.replace(/^REFUSAL_REASON_/, '');
  return detail === '' ? name : `${name}: ${reportedError(detail)}`;
}

export function attemptEnded(ctx: StepContext, node: NodeRecord, event: AttemptEnded): void {
  // A handler that timed out may continue: its slot is free when the agent says so.
  const worker = event.slotHeld ? null : freeSlot(ctx, node, event.jobId, event.token);
  const job = leasedBy(ctx.state, node, event.jobId, event.token);
  if (job !== null) finishAttempt(ctx, job, event);
  // The body that this end names counts only if the job's row names it now.
  dropBody(ctx.state, fromPayloadMessage(event.output) ?? null);
  // Also if the store refuses the end: its row is newer, so the result is stale.
  acknowledge(ctx, node, event.jobId, event.token);
  refill(ctx, worker);
}

export function attemptChunk(ctx: StepContext, node: NodeRecord, event: AttemptChunk): void {
  const job = leasedBy(ctx.state, node, event.jobId, event.token);
  const data = reportedBody(event.data);
  if (data === null || data === 'invalid') return;
  if (job === null) {
    dropBody(ctx.state, data);
    return;
  }
  const refusal = refusalOfBody(ctx.state, job, data, 'stream');
  if (refusal !== null) {
    dropBody(ctx.state, data);
    failForQuota(ctx, job, refusal);
    stopAttempt(ctx, node.config.id, { id: event.jobId, token: event.token }, StopReason.CANCELLED);
    return;
  }
  if (!addChunk(ctx.state, job, event.index, data)) return;
  const readers = ctx.state.waiters.get(job.id)?.filter((waiter) => waiter.mode === 'stream') ?? [];
  for (const reader of readers) deliverChunks(ctx, job, reader);
}

export function attemptProgress(state: State, node: NodeRecord, event: AttemptProgress): void {
  const job = leasedBy(state, node, event.jobId, event.token);
  const data = reportedBody(event.data);
  if (job !== null && data !== 'invalid') job.progress = data === null ? null : ownPayload(data);
}

/** Frees the slot of an attempt. Returns its worker, or null if the slot was not held. */
export function freeSlot({ state, now }: StepContext, node: NodeRecord, job: string, token: number): WorkerRecord | null {
  for (const id of node.workers) {
    const worker = listedWorker(state, id);
    if (!worker.attempts.delete(attemptKey(job, token))) continue;
    if (worker.attempts.size === 0) {
      worker.idleSince = now.mono;
      if (worker.yieldsTo !== null) state.dirtyEndpoints.add(worker.yieldsTo);
    }
    return worker;
  }
  return null;
}

function finishAttempt(ctx: StepContext, job: JobRecord, event: AttemptEnded): void {
  invariant(job.lease !== null, 'only a leased job has an attempt that ends', { job: job.id, token: event.token });
  // Its ttl has ended and callers were told so, although the row is not deleted yet.
  if (job.deleteAt <= ctx.now.wall) {
    expire(ctx, job);
    return;
  }
  if (event.started) start(ctx.state, ctx.now, job, event.agoMs + event.executionMs);
  const output = reportedBody(event.output);
  if (output === 'invalid') {
    const { executionMs, agoMs } = event;
    finishLive(ctx, job, {
      event: 'fail',
      output: null,
      executionMs,
      agoMs,
      error: 'the agent reported an invalid output',
    });
    return;
  }
  const refusal = refusalOfBody(ctx.state, job, output, 'output');
  if (refusal !== null && event.outcome !== AttemptOutcome.WORKER_LOST) {
    failForQuota(ctx, job, refusal);
    return;
  }
  const ending = { output, executionMs: event.executionMs, agoMs: event.agoMs };
  const error = reportedError(event.error);
  switch (event.outcome) {
    case AttemptOutcome.COMPLETED:
      finishLive(ctx, job, { ...ending, event: 'complete', error: null });
      return;
    case AttemptOutcome.FAILED:
      finishLive(ctx, job, { ...ending, event: 'fail', error });
      return;
    case AttemptOutcome.TIMED_OUT:
      finishLive(ctx, job, { ...ending, event: 'time-out', error: error || EXECUTION_TIMEOUT_ERROR });
      return;
    case AttemptOutcome.WORKER_LOST:
      lose(ctx, job, { reason: 'WORKER_LOST', how: error || 'worker lost', agoMs: event.agoMs }, event.suspected);
      return;
    default:
      // Stopped although the lease is still valid: no caller requested it, so the job is not charged.
      requeue(ctx, job, { reason: 'STOPPED', how: error, agoMs: event.agoMs, charged: false });
  }
}

/** Returns why the account of the job may not store another body; null if it may. */
function refusalOfBody(state: State, job: JobRecord, body: Payload | null, field: string): CapstanError | null {
  const account = state.endpoints.get(job.endpoint)?.config.account;
  const size = countedBytes(body);
  return account === undefined ? null : bodyRefusal(state, account, { size, adds: size, field });
}

/** Ends a job whose output or stream exceeds a quota. Its stream is dropped. */
function failForQuota(ctx: StepContext, job: JobRecord, { message }: CapstanError): void {
  dropStream(ctx.state, job);
  finishLive(ctx, job, { event: 'fail', output: null, error: message, executionMs: null, agoMs: 0 });
}

function acknowledge(ctx: StepContext, node: NodeRecord, jobId: string, token: number): void {
  const session = present(node.session, 'a node reports within a session', { node: node.config.id });
  ctx.emit({ kind: 'send', node: node.config.id, session, event: { event: { $case: 'ack', value: { jobId, token } } } });
}

function refill(ctx: StepContext, worker: WorkerRecord | null): void {
  const endpoint = worker === null ? undefined : ctx.state.endpoints.get(worker.endpoint);
  if (endpoint !== undefined) fill(ctx, endpoint);
}

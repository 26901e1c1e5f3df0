/** Submissions: which are refused, and whether a new job waits or gets a slot at once. */
import { CapstanError } from '../../../lib/errors.ts';
import { invariant } from '../../../lib/invariant.ts';
import { endpointNotFound } from '../../../lib/job-errors.ts';
import { otherBody } from './errors.ts';
import type { Outcome, WholeJob } from '../ports/store.ts';

import type { StepContext } from '../context.ts';
import type { Cause, CoreEvent, ReadPurpose } from '../events.ts';
import { dropBody, type State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { admit, refuse } from './admission.ts';
import { bodyRefusal, countedBytes, reserve } from './body-use.ts';
import { fill, findFreeSlot, mayOvertake, sendJob } from './dispatch.ts';
import { readFor } from './job-lookup.ts';
import { applyEvent, newJob, toRow } from './job-records.ts';
import { noteDeletion, takeLease, undo } from './jobs.ts';
import type { Usage } from '../state/rate-limits.ts';
import { questionOf, replyOrWait } from './status.ts';
import { failureReply, jobReply, viewOfRecord } from './views.ts';
import { addWaiter, answerFailure, dropWaiter, findWaiter } from './waiters.ts';

type SubmitPurpose = Extract<ReadPurpose, { kind: 'submit' }>;

/** Submits a new job: to a free slot if no job waits before it, otherwise to the tail of its queue. */
export function submit(ctx: StepContext, event: Extract<CoreEvent, { kind: 'submit' }>): void {
  const endpoint = ctx.state.endpoints.get(event.endpoint);
  // A job that exists, or may exist, adds no new body.
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
  // A submission that was sent before may already be stored, run and ended, and the store may still refuse one that the
  // state holds, because its key belongs to another job. Only the store knows, and a read returns after the outcomes of
  // all earlier writes.
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
  invariant(!ctx.state.jobs.has(event.job), 'a job that the state holds is not submitted again', { job: event.job });
  const job = newJob(ctx.state, ctx.now, endpoint, event);
  noteDeletion(ctx.state, job.deleteAt);
  endpoint.tallies.submitted++;
  const [normal, low] = endpoint.lanes;
  const nothingBefore = normal.count === 0 && (job.priority === 0 || low.count === 0);
  const slot = nothingBefore ? findFreeSlot(ctx.state, endpoint, ctx.now, { queuePosition: job.queuePosition, isApart: false }) : null;
  const next = slot === null ? applyEvent(ctx.state, job, 'submit') : takeLease(ctx, job, 'submit-leased', slot);
  // Without a worker, the first job of a queue requests one; the others behind it change nothing that the scaler sees.
  const isFirst = endpoint.lanes[job.priority].count === 1;
  if (slot === null && ((endpoint.workers.size === 0 && isFirst) || endpoint.config.scalerType === 'REQUEST_COUNT'))
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
    reserve(ctx.state, endpoint.config.account, countedBytes(event.input)),
  );
  const { ref, waitMs } = event;
  if (waitMs > 0) addWaiter(ctx, { ref, endpoint: event.endpoint, job: event.job, mode: 'job', waitMs, usage, isUnconfirmed: true });
  else ctx.emit({ kind: 'reply', channel: event.ref.channel, reply: jobReply(event.ref.request, viewOfRecord(job, '')), usage }, write);
  if (slot !== null) sendJob(ctx, job, slot, write);
  else if (mayOvertake(ctx.state, endpoint)) fill(ctx, endpoint);
}

/** Returns why the account may not store the input of a new job; null if it may. */
function inputRefusal(
  state: State,
  { config: { account } }: EndpointRecord,
  { input }: Extract<CoreEvent, { kind: 'submit' }>,
): CapstanError | null {
  const size = countedBytes(input);
  return bodyRefusal(state, account, { size, adds: size, field: 'input' });
}

function refusalOf(endpoint: EndpointRecord): CapstanError | null {
  if (endpoint.config.removing !== undefined) return endpointNotFound(endpoint.config.id);
  return endpoint.config.kind === 'QUEUE'
    ? null
    : new CapstanError('INVALID_ARGUMENT', `endpoint ${endpoint.config.id} is load-balanced: it serves routes and has no queue`);
}

/** Handles the read for a submission that was sent before: its job exists, or is submitted now. */
export function submissionRead(ctx: StepContext, purpose: SubmitPurpose, found: WholeJob | null): void {
  const { event, usage } = purpose;
  const held = ctx.state.jobs.get(event.job);
  if (found === null && held?.endpoint === event.endpoint) {
    // Written since the read by another copy of the submission: no reply before the store has accepted or refused it.
    readFor(ctx, purpose, event.endpoint, event.job);
    return;
  }
  if (found !== null || held !== undefined) {
    replyOrWait(ctx, questionOf(event, usage));
    return;
  }
  // The endpoint may have been deleted during the read.
  const endpoint = ctx.state.endpoints.get(event.endpoint);
  const error =
    endpoint === undefined ? endpointNotFound(event.endpoint) : (refusalOf(endpoint) ?? inputRefusal(ctx.state, endpoint, event));
  if (endpoint !== undefined && error === null) insert(ctx, endpoint, event, usage);
  else if (error !== null) {
    ctx.emit({ kind: 'reply', channel: event.ref.channel, reply: failureReply(event.ref.request, error), usage });
    dropBody(ctx.state, event.input);
  }
}

/**
 * Handles a submission that the store refused: undoes the state's changes, and replies with the existing job or the
 * mismatch.
 */
export function submissionRefused(ctx: StepContext, outcome: Outcome, cause: Extract<Cause, { kind: 'submit' }>): void {
  undo(ctx.state, cause.job);
  const waiter = cause.waitMs > 0 ? findWaiter(ctx.state, cause.ref) : null;
  // The waiting caller disconnected in the meantime.
  if (cause.waitMs > 0 && waiter === null) return;
  if (outcome.kind === 'idempotent-other-body') {
    const error = otherBody();
    if (waiter === null)
      ctx.emit({ kind: 'reply', channel: cause.ref.channel, reply: failureReply(cause.ref.request, error), usage: cause.usage });
    else answerFailure(ctx, waiter, error);
    return;
  }
  // The job exists already: the same submission again, or the same idempotency key.
  const id = outcome.kind === 'idempotent-same' ? outcome.jobId : cause.job.id;
  if (waiter !== null) dropWaiter(ctx.state, waiter);
  const { job, waitMs, ref } = cause;
  // That of the waiter that is dropped: a gateway that gives two open requests one number finds the other's here.
  const usage = waiter === null ? cause.usage : waiter.usage;
  replyOrWait(ctx, { ref, endpoint: job.endpoint, id, waitMs, usage, byKey: id !== job.id });
}

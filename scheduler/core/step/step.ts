/**
 * The scheduler's core: takes one event, changes the state and returns a step result. Synchronous and deterministic:
 * equal states, events and times give equal results. The shell commits the operations and runs the effects afterwards.
 */
import { assertNever } from '../../../lib/errors.ts';
import { invariant } from '../../../lib/invariant.ts';

import { StepContext } from '../context.ts';
import { failForInput, freeSlot, inputDamaged } from '../jobs/attempts.ts';
import { bodiesCounted } from '../jobs/body-use.ts';
import { BUILD_SWEEP_MS, forgetBuilds, putBuild } from '../control/builds.ts';
import { putWebhookSecret, rotateWebhookSecret } from '../control/control.ts';
import { deleteAccount, deletedAccount } from '../control/delete-account.ts';
import { deploy, rollback, updateEndpoint } from '../control/deploy.ts';
import { createEnvironment } from '../control/deployments.ts';
import { fill } from '../jobs/dispatch.ts';
import type { StepResult } from '../effects.ts';
import type { Command, CoreEvent } from '../events.ts';
import { deliveryTried, deliveriesRead, checkDeliveries, nextDeliveryCheck, noteDelivery, redeliver } from '../webhooks/webhooks.ts';
import { dropBody, type State, readOpened } from '../state.ts';
import type { Due } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import type { Op } from '../ports/store.ts';
import { warningDue } from '../webhooks/warnings.ts';
import { fromRow } from '../jobs/job-records.ts';
import { recordStart, requeue } from '../jobs/jobs.ts';
import { endSession, putSession } from '../control/console-sessions.ts';
import { noteKeys } from '../control/key-use.ts';
import { deleteAlertChannel, noteAlerts, putAlertChannel } from '../control/alert-channels.ts';
import { deleteSecret, putSecret } from '../control/secrets.ts';
import { keyExpiry, putAccount, putKey, revokeKey } from '../control/keys.ts';
import { finishRefill } from '../jobs/lanes.ts';
import { cancel } from '../jobs/cancel.ts';
import { dueRead } from '../jobs/expiry.ts';
import { purge } from '../jobs/purge-queue.ts';
import { readStream } from '../jobs/read-stream.ts';
import { retry } from '../jobs/retry.ts';
import { get, waitOver } from '../jobs/status.ts';
import { jobRead, refused } from '../jobs/store-replies.ts';
import { submit } from '../jobs/submit.ts';
import { admitCall, endCall } from '../jobs/admission.ts';
import { gatewayClosed, levelsReported } from '../scaling/scaling-requests.ts';
import { startWorker } from '../scaling/trial-starts.ts';
import { drainNode, join, putJoinToken, removeNode, revokeJoinToken } from '../fleet/nodes.ts';
import { PreemptionRound } from '../scaling/preemption-round.ts';
import { needsScaling, scaleEndpoint, SCALE_INTERVAL_MS } from '../scaling/scaling.ts';
import { noteAuditExport } from '../control/audit-export.ts';
import { putMasterKey, reencrypt, reencryptInputs } from '../control/encryption.ts';
import { agentReported, graceOver, sessionClosed, sessionOpened, silenceDue } from '../fleet/sessions.ts';
import { deleteEnvironment, removalStep, undeploy } from '../control/undeploy.ts';
import { abandonWaiter, dropChannel, findWaiter } from '../jobs/waiters.ts';
import { flushDesired } from '../fleet/workers.ts';

/** Jobs removed per read of due ones: few, so that other work is not delayed. */
const DUE_BATCH = 50;
/** Delay after which the room that workers leave is offered to other endpoints, ms. */
const ROOM_LOOK_MS = 100;

/** Applies one event. */
export function step(state: State, event: CoreEvent, now: Now, result: StepResult): void {
  const ctx = new StepContext(state, now, result, event.kind === 'command' ? event.audit : null);
  const { capacityVersion } = state;
  apply(ctx, event);
  if (state.capacityVersion !== capacityVersion) scheduleUnplacedRetry(state, now);
  if (state.dirtyEndpoints.size > 0) scale(ctx);
  if (state.dirtyNodes.size > 0) flushDesired(ctx);
  // After the commit of this step's operations: one of them may have added the row that names a body.
  if (state.droppedBlobs.length > 0) ctx.emit({ kind: 'drop-bodies', blobs: state.droppedBlobs.splice(0) });
}

/**
 * Offers freed devices to other endpoints before the next check of all endpoints. Delayed, because a shrinking fleet
 * frees thousands.
 */
function scheduleUnplacedRetry(state: State, now: Now): void {
  if (state.unplacedRetryDue) return;
  state.unplacedRetryDue = true;
  state.deadlines.add(now.mono + ROOM_LOOK_MS, { kind: 'room' });
}

/** Returns the monotonic time of the next tick; null if there is none. */
export function nextDeadline(state: State, now: Now): number | null {
  const wall = Math.min(state.readingDue ? Number.POSITIVE_INFINITY : state.nextDeletion, nextDeliveryCheck(state));
  const next = Math.min(state.deadlines.next() ?? Number.POSITIVE_INFINITY, now.mono + Math.max(0, wall - now.wall));
  return next === Number.POSITIVE_INFINITY ? null : next;
}

function apply(ctx: StepContext, event: CoreEvent): void {
  switch (event.kind) {
    case 'submit':
      return submit(ctx, event);
    case 'get':
      return get(ctx, event);
    case 'read-stream':
      return readStream(ctx, event);
    case 'abandon': {
      const waiter = findWaiter(ctx.state, event.ref);
      if (waiter !== null) abandonWaiter(ctx.state, waiter);
      return;
    }
    case 'channel-closed':
      return dropChannel(ctx.state, event.channel);
    case 'replied':
      for (const usage of event.usages) usage.release();
      return;
    case 'call-ended':
      return endCall(ctx.state, event.ticket);
    case 'command':
      return command(ctx, event.call, event.command);
    case 'session-opened':
      return sessionOpened(ctx, event);
    case 'session-closed':
      return sessionClosed(ctx, event);
    case 'agent':
      return agentReported(ctx, event);
    case 'refused':
      dropBodiesOf(ctx.state, event.op);
      if (event.cause !== null) refused(ctx, event.outcome, event.cause);
      else if (event.op.kind === 'delivery') noteDelivery(ctx, ctx.now.wall); // The delivery was requested again during the try.
      return;
    case 'job-read':
      return jobRead(ctx, event.purpose, event.found);
    case 'head-read':
      return headRead(ctx, event);
    case 'due-read':
      return dueRead(ctx, event);
    case 'deliveries-read':
      return deliveriesRead(ctx, event);
    case 'delivery-tried':
      return deliveryTried(ctx, event);
    case 'undelivered':
      return undelivered(ctx, event);
    case 'input-damaged':
      return inputDamaged(ctx, event);
    case 'levels':
      return levelsReported(ctx.state, ctx.now, event.gateway, event.levels);
    case 'gateway-closed':
      return gatewayClosed(ctx.state, event.gateway);
    case 'disk':
      ctx.state.diskRefusal = event.refusal;
      return;
    case 'bodies-counted':
      return bodiesCounted(ctx.state, event);
    case 'tick':
      return tick(ctx);
    default:
      return assertNever(event);
  }
}

function command(ctx: StepContext, call: number, request: Command): void {
  const refusal = deletedAccount(ctx.state, request);
  if (refusal !== null) return ctx.reply(call, refusal);
  switch (request.kind) {
    case 'cancel':
      if (admitCall(ctx, call, request)) cancel(ctx, call, request.endpoint, request.job);
      return;
    case 'retry':
      if (admitCall(ctx, call, request)) retry(ctx, call, request.endpoint, request.job);
      return;
    case 'purge':
      if (admitCall(ctx, call, request)) purge(ctx, call, request.endpoint);
      return;
    case 'count-listing':
      if (admitCall(ctx, call, request)) ctx.reply(call, { kind: 'done' });
      return;
    case 'deploy':
      return deploy(ctx, call, request);
    case 'put-build':
      return putBuild(ctx, call, request);
    case 'update-endpoint':
      return updateEndpoint(ctx, call, request.endpoint, request.input);
    case 'start-worker':
      return startWorker(ctx, call, request.endpoint);
    case 'rollback':
      return rollback(ctx, call, request);
    case 'undeploy':
      return undeploy(ctx, call, request);
    case 'create-environment':
      return createEnvironment(ctx, call, request.account, request.environment);
    case 'delete-environment':
      return deleteEnvironment(ctx, call, request);
    case 'put-key':
      return putKey(ctx, call, request.key);
    case 'put-session':
      return putSession(ctx, call, request.session);
    case 'end-session':
      return endSession(ctx, call, request.hash);
    case 'revoke-key':
      return revokeKey(ctx, call, request.hash);
    case 'note-keys':
      return noteKeys(ctx, call, request.hashes);
    case 'put-account':
      return putAccount(ctx, call, request);
    case 'delete-account':
      return deleteAccount(ctx, call, request);
    case 'put-webhook-secret':
      return putWebhookSecret(ctx, call, request);
    case 'rotate-webhook-secret':
      return rotateWebhookSecret(ctx, call, request);
    case 'audit':
      return ctx.reply(call, { kind: 'done' });
    case 'put-secret':
      return putSecret(ctx, call, request);
    case 'delete-secret':
      return deleteSecret(ctx, call, request);
    case 'put-alert-channel':
      return putAlertChannel(ctx, call, request);
    case 'delete-alert-channel':
      return deleteAlertChannel(ctx, call, request);
    case 'note-alerts':
      return noteAlerts(ctx, call, request);
    case 'put-master-key':
      return putMasterKey(ctx, call, request.row);
    case 'note-audit-export':
      return noteAuditExport(ctx, call, request.position);
    case 'reencrypt':
      return reencrypt(ctx, call, request);
    case 'reencrypt-inputs':
      return reencryptInputs(ctx, call, request);
    case 'redeliver':
      return redeliver(ctx, call, request.webhook);
    case 'put-join-token':
      return putJoinToken(ctx, call, request);
    case 'revoke-join-token':
      return revokeJoinToken(ctx, call, request);
    case 'join':
      return join(ctx, call, request);
    case 'drain-node':
    case 'resume-node':
      return drainNode(ctx, call, request);
    case 'remove-node':
      return removeNode(ctx, call, request);
    default:
      return assertNever(request);
  }
}

/** A refused operation's bodies are in no row, unless the same operation was carried out before. */
function dropBodiesOf(state: State, op: Op): void {
  if (op.kind === 'submit') dropBody(state, op.input);
  if (op.kind === 'finish') for (const body of [op.output, ...op.chunks]) dropBody(state, body);
}

function headRead(ctx: StepContext, event: Extract<CoreEvent, { kind: 'head-read' }>): void {
  const endpoint = ctx.state.endpoints.get(event.endpoint);
  // It was deleted during the read.
  if (endpoint === undefined) return;
  const lane = endpoint.lanes[event.priority];
  const { added, dropped } = finishRefill(
    lane,
    event.rows.map((row) => fromRow(row.job)),
    event.limit,
    (id) => ctx.state.jobs.has(id),
  );
  for (const job of dropped) ctx.state.jobs.delete(job.id);
  for (const job of added) if (job.queuePosition <= lane.covered) ctx.state.jobs.set(job.id, job);
  fill(ctx, endpoint);
}

function undelivered(ctx: StepContext, event: Extract<CoreEvent, { kind: 'undelivered' }>): void {
  const node = ctx.state.nodes.get(event.node);
  // It was removed while the input was read.
  if (node === undefined) return;
  const worker = freeSlot(ctx, node, event.job, event.token);
  const job = ctx.state.jobs.get(event.job);
  if (job !== undefined && job.token === event.token && job.lease !== null) {
    if (event.damage === null) requeue(ctx, job, { reason: 'UNDELIVERED', how: '', charged: false });
    else failForInput(ctx, job, event.damage);
  }
  if (worker !== null) ctx.state.dirtyEndpoints.add(worker.endpoint);
}

function tick(ctx: StepContext): void {
  for (let due = ctx.state.deadlines.take(ctx.now.mono); due !== null; due = ctx.state.deadlines.take(ctx.now.mono)) handleDue(ctx, due);
  if (ctx.now.wall >= ctx.state.nextDeletion && !ctx.state.readingDue) {
    ctx.state.readingDue = true;
    ctx.state.nextDeletion = Number.POSITIVE_INFINITY;
    ctx.state.reads.due = readOpened(ctx.state);
    ctx.emit({ kind: 'read-due', limit: DUE_BATCH });
  }
  checkDeliveries(ctx);
}

function handleDue(ctx: StepContext, due: Due): void {
  switch (due.kind) {
    case 'waiter':
      return waitOver(ctx, due.waiter);
    case 'record-start':
      return recordStart(ctx, due.job, due.token);
    case 'silence':
      return silenceDue(ctx, due.node);
    case 'grace':
      return graceOver(ctx, due.node);
    case 'refill': {
      // It may have been deleted since.
      const endpoint = ctx.state.endpoints.get(due.endpoint);
      if (endpoint !== undefined) fill(ctx, endpoint);
      return;
    }
    case 'scale':
      ctx.state.deadlines.add(ctx.now.mono + SCALE_INTERVAL_MS, { kind: 'scale' });
      for (const endpoint of ctx.state.endpoints.values()) {
        if (needsScaling(endpoint) || endpoint.config.removing !== undefined) ctx.state.dirtyEndpoints.add(endpoint.config.id);
      }
      return;
    case 'room':
      invariant(ctx.state.unplacedRetryDue, 'room is offered when that is due');
      ctx.state.unplacedRetryDue = false;
      for (const endpoint of ctx.state.endpoints.values())
        if (endpoint.unplaced.count > 0) ctx.state.dirtyEndpoints.add(endpoint.config.id);
      return;
    case 'key-expiry':
      return keyExpiry(ctx, due.hash);
    case 'webhook-warning':
      return warningDue(ctx, due.host);
    case 'build-sweep':
      ctx.state.deadlines.add(ctx.now.mono + BUILD_SWEEP_MS, { kind: 'build-sweep' });
      return forgetBuilds(ctx);
    default:
      assertNever(due);
  }
}

function scale(ctx: StepContext): void {
  if (ctx.state.recovering) return;
  const round = new PreemptionRound(ctx.state, ctx.now);
  const { dirtyEndpoints } = ctx.state;
  const ordered = dirtyEndpoints.size > 1 ? new Set(longestWithoutPlace(ctx.state)) : dirtyEndpoints;
  for (const id of ordered) scaleOne(ctx, id, round);
  // Those that became dirty meanwhile.
  if (ordered !== dirtyEndpoints) for (const id of dirtyEndpoints) if (!ordered.has(id)) scaleOne(ctx, id, round);
  dirtyEndpoints.clear();
}

function scaleOne(ctx: StepContext, id: string, round: PreemptionRound): void {
  const endpoint = ctx.state.endpoints.get(id);
  // It was deleted earlier in this step.
  if (endpoint === undefined) return;
  if (endpoint.config.removing !== undefined) {
    removalStep(ctx, endpoint);
    return;
  }
  scaleEndpoint(ctx, endpoint, round);
  fill(ctx, endpoint);
}

/** Returns the endpoints to scale: first those that wait for a place, the longest wait first. */
function longestWithoutPlace({ dirtyEndpoints, endpoints }: State): string[] {
  const waiting: { readonly id: string; readonly since: number }[] = [];
  const others: string[] = [];
  for (const id of dirtyEndpoints) {
    const unplaced = endpoints.get(id)?.unplaced;
    if (unplaced !== undefined && unplaced.count > 0) waiting.push({ id, since: unplaced.since });
    else others.push(id);
  }
  return [...waiting.sort((a, b) => a.since - b.since).map(({ id }) => id), ...others];
}

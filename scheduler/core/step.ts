/**
 * The scheduler's core: one event in, a decision out, the image changed accordingly. Synchronous
 * and deterministic; equal images, events and times give equal decisions. The shell commits the
 * operations and carries out the effects afterwards.
 */
import { assertNever } from '../../proto/errors.ts';

import { freeSlot } from './attempts.ts';
import { bodiesCounted } from './body-use.ts';
import { buildSweepMs, forgetBuilds, putBuild } from './builds.ts';
import { putWebhookSecret, rotateWebhookSecret } from './control.ts';
import { deploy, rollback, updateEndpoint } from './deploy.ts';
import { createEnvironment } from './deployments.ts';
import { fill } from './dispatch.ts';
import type { StepResult } from './effects.ts';
import type { Command, CoreEvent } from './events.ts';
import { hookTried, hooksRead, lookForHooks, nextHookLook, noteHook, redeliver } from './hooks.ts';
import { dropBody, type State, readOpened } from './image.ts';
import type { Due } from './image/jobs.ts';
import type { Now } from './now.ts';
import type { Op } from '../store/store.ts';
import { fromRow, recordStart, requeue } from './jobs.ts';
import { keyExpiry, noteKeys, putAccount, putKey, revokeKey } from './keys.ts';
import { finishRefill } from './lanes.ts';
import { cancel, dueRead, get, jobRead, purge, readStream, refused, retry, submit, waitOver } from './requests.ts';
import { gatewayClosed, levelsReported } from './scaling-requests.ts';
import { drainNode, join, putJoinToken, removeNode, revokeJoinToken } from './nodes.ts';
import { needsLook, scaleEndpoint, scaleIntervalMs } from './scaling.ts';
import { putMasterKey, reencrypt, reencryptInputs } from './sealed.ts';
import { agentReported, graceOver, sessionClosed, sessionOpened, silenceDue } from './sessions.ts';
import { deleteEnvironment, removalStep, undeploy } from './undeploy.ts';
import { abandonWaiter, dropChannel, findWaiter } from './waiters.ts';
import { flushDesired } from './workers.ts';

/** Jobs removed per read of due ones: small, so that live work is not held up. */
const dueBatch = 50;
/** Room that workers leave is offered to others after this time, ms. */
const roomLookMs = 100;

/** Applies one event. */
export function step(image: State, event: CoreEvent, now: Now, out: StepResult): void {
  const { capacity } = image;
  apply(image, event, now, out);
  if (image.capacity !== capacity) lookForRoom(image, now);
  if (image.dirtyEndpoints.size > 0) scale(image, out, now);
  if (image.dirtyNodes.size > 0) flushDesired(image, out);
  // After the commit of this step's operations: a body may have found its row in one of them.
  if (image.droppedBlobs.length > 0) out.do({ kind: 'drop-bodies', blobs: image.droppedBlobs.splice(0) });
}

/** A device that is free again is another endpoint's before the next look at all of them. Not at once: a fleet that shrinks frees thousands. */
function lookForRoom(image: State, now: Now): void {
  if (image.roomDue) return;
  image.roomDue = true;
  image.deadlines.add(now.mono + roomLookMs, { kind: 'room' });
}

/** Monotonic time at which the next tick is due; null when nothing is awaited. */
export function nextDeadline(image: State, now: Now): number | null {
  const wall = Math.min(image.readingDue ? Number.POSITIVE_INFINITY : image.nextDeletion, nextHookLook(image));
  const next = Math.min(image.deadlines.next() ?? Number.POSITIVE_INFINITY, now.mono + Math.max(0, wall - now.wall));
  return next === Number.POSITIVE_INFINITY ? null : next;
}

function apply(image: State, event: CoreEvent, now: Now, out: StepResult): void {
  switch (event.kind) {
    case 'submit':
      return submit(image, out, now, event);
    case 'get':
      return get(image, out, now, event);
    case 'read-stream':
      return readStream(image, out, now, event);
    case 'abandon': {
      const waiter = findWaiter(image, event.ref);
      if (waiter !== null) abandonWaiter(image, waiter);
      return;
    }
    case 'channel-closed':
      return dropChannel(image, event.channel);
    case 'command':
      return command(image, out, now, event.call, event.command);
    case 'session-opened':
      return sessionOpened(image, out, now, event);
    case 'session-closed':
      return sessionClosed(image, out, now, event);
    case 'agent':
      return agentReported(image, out, now, event);
    case 'refused':
      dropBodiesOf(image, event.op);
      if (event.cause !== null) refused(image, out, now, event.outcome, event.cause);
      else if (event.op.kind === 'hook') noteHook(image, out, now, now.wall); // it was sent anew while it was tried
      return;
    case 'job-read':
      return jobRead(image, out, now, event.purpose, event.found);
    case 'head-read':
      return headRead(image, out, now, event);
    case 'due-read':
      return dueRead(image, out, now, event);
    case 'hooks-read':
      return hooksRead(image, out, now, event);
    case 'hook-tried':
      return hookTried(image, out, now, event);
    case 'undelivered':
      return undelivered(image, out, now, event);
    case 'levels':
      return levelsReported(image, now, event.gateway, event.levels);
    case 'gateway-closed':
      return gatewayClosed(image, event.gateway);
    case 'disk':
      image.diskRefusal = event.refusal;
      return;
    case 'bodies-counted':
      return bodiesCounted(image, event);
    case 'tick':
      return tick(image, out, now);
    default:
      return assertNever(event);
  }
}

function command(image: State, out: StepResult, now: Now, call: number, asked: Command): void {
  switch (asked.kind) {
    case 'cancel':
      return cancel(image, out, now, call, asked.endpoint, asked.job);
    case 'retry':
      return retry(image, out, now, call, asked.endpoint, asked.job);
    case 'purge':
      return purge(image, out, now, call, asked.endpoint);
    case 'deploy':
      return deploy(image, out, now, call, asked);
    case 'put-build':
      return putBuild(image, out, now, call, asked);
    case 'update-endpoint':
      return updateEndpoint(image, out, now, call, asked.endpoint, asked.input);
    case 'rollback':
      return rollback(image, out, now, call, asked);
    case 'undeploy':
      return undeploy(image, out, call, asked);
    case 'create-environment':
      return createEnvironment(image, out, now, call, asked.account, asked.environment);
    case 'delete-environment':
      return deleteEnvironment(image, out, call, asked);
    case 'put-key':
      return putKey(image, out, now, call, asked.key);
    case 'revoke-key':
      return revokeKey(image, out, call, asked.hash);
    case 'note-keys':
      return noteKeys(image, out, now, call, asked.hashes);
    case 'put-account':
      return putAccount(image, out, now, call, asked);
    case 'put-webhook-secret':
      return putWebhookSecret(image, out, call, asked);
    case 'rotate-webhook-secret':
      return rotateWebhookSecret(image, out, now, call, asked);
    case 'put-master-key':
      return putMasterKey(image, out, call, asked.row);
    case 'reencrypt':
      return reencrypt(image, out, call, asked);
    case 'reencrypt-inputs':
      return reencryptInputs(out, call, asked);
    case 'redeliver':
      return redeliver(image, out, now, call, asked.webhook);
    case 'put-join-token':
      return putJoinToken(image, out, now, call, asked);
    case 'revoke-join-token':
      return revokeJoinToken(image, out, call, asked);
    case 'join':
      return join(image, out, now, call, asked);
    case 'drain-node':
    case 'resume-node':
      return drainNode(image, out, now, call, asked);
    case 'remove-node':
      return removeNode(image, out, now, call, asked);
    default:
      return assertNever(asked);
  }
}

/** A refused operation brought bodies that are in no row, unless the same operation was carried out before. */
function dropBodiesOf(image: State, op: Op): void {
  if (op.kind === 'submit') dropBody(image, op.input);
  if (op.kind === 'finish') for (const body of [op.output, ...op.chunks]) dropBody(image, body);
}

function headRead(image: State, out: StepResult, now: Now, event: Extract<CoreEvent, { kind: 'head-read' }>): void {
  const endpoint = image.endpoints.get(event.endpoint);
  if (endpoint === undefined) return;
  const lane = endpoint.lanes[event.priority];
  const { added, dropped } = finishRefill(
    lane,
    event.rows.map((row) => fromRow(row.job)),
    event.limit,
    (id) => image.jobs.has(id),
  );
  for (const job of dropped) image.jobs.delete(job.id);
  for (const job of added) if (job.position <= lane.covered) image.jobs.set(job.id, job);
  fill(image, out, now, endpoint);
}

function undelivered(image: State, out: StepResult, now: Now, event: Extract<CoreEvent, { kind: 'undelivered' }>): void {
  const node = image.nodes.get(event.node);
  if (node === undefined) return;
  const worker = freeSlot(image, now, node, event.job, event.token);
  const job = image.jobs.get(event.job);
  if (job !== undefined && job.token === event.token && job.lease !== null) requeue(image, out, job, false);
  if (worker !== null) image.dirtyEndpoints.add(worker.endpoint);
}

function tick(image: State, out: StepResult, now: Now): void {
  for (let due = image.deadlines.take(now.mono); due !== null; due = image.deadlines.take(now.mono)) handleDue(image, out, now, due);
  if (now.wall >= image.nextDeletion && !image.readingDue) {
    image.readingDue = true;
    image.nextDeletion = Number.POSITIVE_INFINITY;
    image.reads.due = readOpened(image);
    out.do({ kind: 'read-due', limit: dueBatch });
  }
  lookForHooks(image, out, now);
}

function handleDue(image: State, out: StepResult, now: Now, due: Due): void {
  switch (due.kind) {
    case 'waiter':
      return waitOver(image, out, now, due.waiter);
    case 'record-start':
      return recordStart(out, due.job, due.token);
    case 'silence':
      return silenceDue(image, out, now, due.node);
    case 'grace':
      return graceOver(image, out, now, due.node);
    case 'refill': {
      const endpoint = image.endpoints.get(due.endpoint);
      if (endpoint !== undefined) fill(image, out, now, endpoint);
      return;
    }
    case 'scale':
      image.deadlines.add(now.mono + scaleIntervalMs, { kind: 'scale' });
      for (const endpoint of image.endpoints.values()) {
        if (needsLook(endpoint) || endpoint.config.removing !== undefined) image.dirtyEndpoints.add(endpoint.config.id);
      }
      return;
    case 'room':
      image.roomDue = false;
      for (const endpoint of image.endpoints.values()) if (endpoint.unplaced.count > 0) image.dirtyEndpoints.add(endpoint.config.id);
      return;
    case 'key-expiry':
      return keyExpiry(image, out, now, due.hash);
    case 'build-sweep':
      image.deadlines.add(now.mono + buildSweepMs, { kind: 'build-sweep' });
      return forgetBuilds(image, out, now);
    default:
      assertNever(due);
  }
}

function scale(image: State, out: StepResult, now: Now): void {
  if (image.recovering) return;
  for (const id of image.dirtyEndpoints) {
    const endpoint = image.endpoints.get(id);
    if (endpoint === undefined) continue;
    if (endpoint.config.removing !== undefined) {
      removalStep(image, out, now, endpoint);
      continue;
    }
    scaleEndpoint(image, out, now, endpoint);
    fill(image, out, now, endpoint);
  }
  image.dirtyEndpoints.clear();
}

/**
 * Nodes and their sessions. A node's report of what it runs is authoritative. Leases it does not know are requeued
 * without a charge, leases of an earlier incarnation are lost at once, and a node without a session keeps its leases
 * for a grace period (invariant 6).
 */
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { StopReason, type ActualWorkers, type AgentEvent, type Hello, type Inventory } from '../../../proto/gen/capstan/v1/nodes.ts';
import { assertNever } from '../../../lib/errors.ts';
import { present } from '../../../lib/invariant.ts';
import { WORKER_STOPPED } from '../../../lib/job-errors.ts';

import type { StepContext } from '../context.ts';
import { attemptChunk, attemptEnded, attemptProgress, attemptRefused, attemptStarted, leasedBy, freeSlot } from '../jobs/attempts.ts';
import { noteStart } from '../endpoints/crash-loops.ts';
import { retireFromLostDevices } from './device-loss.ts';
import { retireTooWeak } from './isolation-loss.ts';
import { fill } from '../jobs/dispatch.ts';
import type { CoreEvent } from '../events.ts';
import type { State } from '../state.ts';
import { attemptKey, type NodeRecord, type WorkerRecord } from '../state/fleet.ts';
import { listedWorker, listedWorkers } from '../references.ts';
import type { Now } from '../now.ts';
import { heldAttempt, lose, requeue, start } from '../jobs/jobs.ts';
import { reportedInventory, reportedStatus, reportedVersion } from '../jobs/reported.ts';
import { stopAttempt } from '../jobs/stop-attempt.ts';
import { keepCapacity } from '../endpoints/releases.ts';
import { factsOf } from '../state/node-facts.ts';
import { noteOrphans } from './placement/node-usage.ts';
import { forgetWorker } from './workers.ts';

/** Starts an agent's session. The shell has authenticated the agent and checked that it has no other live session. */
export function sessionOpened(ctx: StepContext, event: Extract<CoreEvent, { kind: 'session-opened' }>): void {
  const node = ctx.state.nodes.get(event.node);
  // It was removed while it connected.
  if (node === undefined) return;
  const { hello } = event;
  if (node.session !== null && node.session !== event.session) {
    ctx.emit({ kind: 'close-session', node: event.node, session: node.session, reason: 'the agent opened another session' });
  }
  node.session = event.session;
  node.reported = true;
  node.incarnation = hello.incarnation;
  node.agentVersion = reportedVersion(hello.agentVersion);
  if (node.grace !== null) ctx.state.deadlines.drop(node.grace);
  node.grace = null;
  noteMessage(ctx.state, ctx.now, node);
  if (hello.inventory !== undefined) takeInventory(ctx.state, node, hello.inventory);
  ctx.state.capacityVersion++;
  const { silenceMs, publicUrl } = ctx.state.settings;
  const heartbeatMs = heartbeatFor(ctx.state);
  const welcome = { $case: 'welcome', value: { heartbeatMs, silenceMs, publicUrl } } as const;
  ctx.emit({ kind: 'send', node: event.node, session: event.session, event: { event: welcome } });
  reconcile(ctx, node, hello);
  workersReported(ctx, node, hello.workers);
  retireFromLostDevices(ctx, node);
  retireTooWeak(ctx, node.workers);
  ctx.state.dirtyNodes.add(event.node);
  retryUnplaced(ctx.state);
  finishRecoveryIfReported(ctx.state);
  ctx.emit({
    kind: 'log',
    level: 'info',
    message: 'node connected',
    facts: { node: event.node, nodeName: node.config.name, incarnation: hello.incarnation },
  });
}

/** Limit for the heartbeats of all agents together, per second. */
const HEARTBEATS_PER_SECOND = 250;

/**
 * Large fleets use a longer interval, up to the limit that the silence timeout allows, which tolerates the loss of one
 * heartbeat.
 */
function heartbeatFor({ settings, nodes }: State): number {
  const slowest = settings.silenceMs * 0.4;
  const wanted = (nodes.size * 1_000) / HEARTBEATS_PER_SECOND;
  return Math.max(settings.heartbeatMs, Math.round(Math.min(slowest, wanted)));
}

/** Handles the end of a session, for any reason. */
export function sessionClosed(ctx: StepContext, event: Extract<CoreEvent, { kind: 'session-closed' }>): void {
  const node = ctx.state.nodes.get(event.node);
  // The node was removed, or another session has replaced this one.
  if (node === undefined || node.session !== event.session) return;
  node.session = null;
  if (node.silence !== null) ctx.state.deadlines.drop(node.silence);
  node.silence = null;
  awaitNode(ctx.state, ctx.now, node);
  ctx.emit({
    kind: 'log',
    level: 'info',
    message: 'node disconnected',
    facts: { node: event.node, nodeName: node.config.name, graceMs: ctx.state.settings.nodeGraceMs },
  });
}

/** Starts the grace period of a node without a session. */
export function awaitNode(state: State, now: Now, node: NodeRecord): void {
  node.grace ??= state.deadlines.add(now.mono + state.settings.nodeGraceMs, { kind: 'grace', node: node.config.id });
}

/** Handles everything an agent reports within a session, in order. */
export function agentReported(ctx: StepContext, event: Extract<CoreEvent, { kind: 'agent' }>): void {
  const node = ctx.state.nodes.get(event.node);
  // What a session sent before it was replaced may arrive after that.
  if (node === undefined || node.session !== event.session) return;
  noteMessage(ctx.state, ctx.now, node);
  for (const { event: report } of event.events) if (report !== undefined) apply(ctx, node, report);
}

/** Ends a session that was silent for too long and starts the grace period. */
export function silenceDue(ctx: StepContext, id: string): void {
  const node = ctx.state.nodes.get(id);
  // A node that joined anew under its id, because the reply to its first join was lost, leaves the deadlines of its first record.
  if (node?.session == null) return;
  const { session } = node;
  const quiet = ctx.now.mono - node.lastHeard;
  if (quiet < ctx.state.settings.silenceMs) {
    node.silence = ctx.state.deadlines.add(node.lastHeard + ctx.state.settings.silenceMs, { kind: 'silence', node: id });
    return;
  }
  node.silence = null;
  ctx.emit({ kind: 'close-session', node: id, session, reason: `no message for ${Math.round(quiet)} ms` });
  sessionClosed(ctx, { kind: 'session-closed', node: id, session });
}

/** Ends the grace period of a node: requeues its jobs and gives up its workers. */
export function graceOver(ctx: StepContext, id: string): void {
  const node = ctx.state.nodes.get(id);
  // As in silenceDue.
  if (node === undefined || node.session !== null) return;
  markNodeLost(ctx, node, `node ${node.config.name} lost`);
  ctx.emit({ kind: 'log', level: 'warn', message: 'node lost', facts: { node: id, nodeName: node.config.name } });
}

/**
 * Gives up everything that a node holds: requeues its jobs and requests its workers on other nodes. `how` is the
 * reason, for users.
 */
export function markNodeLost(ctx: StepContext, node: NodeRecord, how: string): void {
  for (const deadline of [node.grace, node.silence]) if (deadline !== null) ctx.state.deadlines.drop(deadline);
  node.grace = null;
  node.silence = null;
  node.session = null;
  node.reported = true;
  loseLeases(ctx, node, () => true, how);
  for (const id of new Set(listedWorkers(ctx.state, node.workers).map((worker) => worker.endpoint))) {
    const endpoint = ctx.state.endpoints.get(id);
    if (endpoint !== undefined) keepCapacity(ctx.state, ctx.now, endpoint, how);
  }
  for (const worker of [...node.workers]) forgetWorker(ctx.state, worker);
  finishRecoveryIfReported(ctx.state);
}

/** Starts scaling and redispatch once every node with work has reported, or its grace period has ended. */
export function finishRecoveryIfReported(state: State): void {
  if (!state.recovering) return;
  for (const node of state.nodes.values()) if (!node.reported && node.workers.size > 0) return;
  state.recovering = false;
  for (const id of state.endpoints.keys()) state.dirtyEndpoints.add(id);
}

function apply(ctx: StepContext, node: NodeRecord, report: NonNullable<AgentEvent['event']>): void {
  switch (report.$case) {
    case 'started':
      return attemptStarted(ctx, node, report.value);
    case 'refused':
      return attemptRefused(ctx, node, report.value);
    case 'ended':
      return attemptEnded(ctx, node, report.value);
    case 'chunk':
      return attemptChunk(ctx, node, report.value);
    case 'progress':
      return attemptProgress(ctx.state, node, report.value);
    case 'workers':
      return workersReported(ctx, node, report.value);
    case 'inventory':
      return inventoryReported(ctx, node, report.value);
    case 'heartbeat':
      return answerHeartbeat(ctx, node);
    case 'hello':
    case 'logs':
      return;
    default:
      return assertNever(report);
  }
}

/** An idle agent receives no other message and would otherwise declare the session dead. */
function answerHeartbeat(ctx: StepContext, node: NodeRecord): void {
  const session = present(node.session, 'a node reports within a session', { node: node.config.id });
  ctx.emit({ kind: 'send', node: node.config.id, session, event: { event: { $case: 'heartbeat', value: {} } } });
}

function inventoryReported(ctx: StepContext, node: NodeRecord, inventory: Inventory): void {
  if (!takeInventory(ctx.state, node, inventory)) return;
  retireFromLostDevices(ctx, node);
  retireTooWeak(ctx, node.workers);
  retryUnplaced(ctx.state);
}

/** A node has new resources: tries again the endpoints that found no place. */
function retryUnplaced(state: State): void {
  for (const endpoint of state.endpoints.values()) if (endpoint.unplaced.count > 0) state.dirtyEndpoints.add(endpoint.config.id);
}

/** Returns true if something that placement reads has changed. */
function takeInventory(state: State, node: NodeRecord, reported: Inventory): boolean {
  const inventory = reportedInventory(reported);
  const facts = factsOf(inventory, node.facts?.knownKinds);
  const changed = facts.digest !== node.facts?.digest;
  node.inventory = inventory;
  node.facts = facts;
  if (changed) state.capacityVersion++;
  return changed;
}

function noteMessage(state: State, now: Now, node: NodeRecord): void {
  node.lastHeard = now.mono;
  node.silence ??= state.deadlines.add(now.mono + state.settings.silenceMs, { kind: 'silence', node: node.config.id });
}

/** Compares the leases in the state with the attempts that the agent holds. */
function reconcile(ctx: StepContext, node: NodeRecord, hello: Hello): void {
  loseLeases(ctx, node, (incarnation) => incarnation !== hello.incarnation, `node ${node.config.name} restarted`);
  const held = new Set(hello.attempts.map(({ jobId, token }) => attemptKey(jobId, token)));
  for (const id of node.workers) {
    const worker = listedWorker(ctx.state, id);
    for (const [key, { job, token }] of [...worker.attempts]) {
      if (held.has(key)) continue;
      const lost = leasedBy(ctx.state, node, job, token);
      freeSlot(ctx, node, job, token);
      if (lost !== null) requeue(ctx, lost, { reason: 'UNDELIVERED', how: '', charged: false });
    }
  }
  for (const attempt of hello.attempts) {
    const job = leasedBy(ctx.state, node, attempt.jobId, attempt.token);
    const worker = ctx.state.workers.get(attempt.workerId);
    // An agent cannot fill a slot of another node's worker.
    if (worker?.node === node.config.id) {
      const unknown = { job: attempt.jobId, token: attempt.token, isApart: false, since: ctx.now.mono, isRecalled: false };
      const held = job === null ? unknown : heldAttempt(ctx.state, job, ctx.now);
      worker.attempts.set(attemptKey(attempt.jobId, attempt.token), held);
    }
    if (job === null) stopAttempt(ctx, node.config.id, { id: attempt.jobId, token: attempt.token }, StopReason.STALE);
    else if (attempt.started) start(ctx.state, ctx.now, job, attempt.startedAgoMs);
  }
}

/** Gives up the leases of a node with a matching incarnation, and the slots they held. */
function loseLeases(ctx: StepContext, node: NodeRecord, which: (incarnation: string) => boolean, how: string): void {
  for (const id of node.workers) {
    const worker = listedWorker(ctx.state, id);
    for (const [key, { job: jobId, token }] of [...worker.attempts]) {
      const job = ctx.state.jobs.get(jobId);
      // An agent may claim to hold the attempt of a job that another node runs.
      const lease = job?.token === token && job.lease?.node === node.config.id ? job.lease : null;
      if (lease !== null && !which(lease.incarnation)) continue;
      worker.attempts.delete(key);
      if (job !== undefined && lease !== null) lose(ctx, job, { reason: 'NODE_LOST', how });
    }
  }
  // Leases whose worker is no longer in the state.
  for (const job of [...ctx.state.jobs.values()]) {
    if (job.lease === null || job.lease.node !== node.config.id || !which(job.lease.incarnation)) continue;
    lose(ctx, job, { reason: 'NODE_LOST', how });
  }
}

/**
 * Whether a worker became idle. For one that serves requests only its agent knows this; for one that serves jobs the
 * scheduler knows it first.
 */
function becameIdle(before: WorkerState, now: WorkerState): boolean {
  return now === WorkerState.IDLE && before !== WorkerState.IDLE;
}

function isLoadBalanced(state: State, worker: WorkerRecord): boolean {
  return state.endpoints.get(worker.endpoint)?.config.kind === 'LOAD_BALANCED';
}

function workersReported(ctx: StepContext, node: NodeRecord, actual: ActualWorkers | undefined): void {
  // An agent that has no workers may leave them out.
  const reported = new Map((actual?.workers ?? []).map((status) => [status.workerId, status]));
  noteOrphans(ctx.state, node, reported.values());
  const touched = new Set<string>();
  for (const id of [...node.workers]) {
    const worker = listedWorker(ctx.state, id);
    const received = reported.get(id);
    const status = received === undefined ? null : reportedStatus(worker, received);
    if (status !== null) {
      if (worker.status !== null && becameIdle(worker.status.state, status.state) && isLoadBalanced(ctx.state, worker))
        worker.idleSince = ctx.now.mono;
      worker.status = status;
      noteStart(ctx, worker, status);
    } else if (worker.drain && (actual?.epoch ?? 0) >= node.epoch) {
      for (const [key, { job, token }] of [...worker.attempts]) {
        const leased = leasedBy(ctx.state, node, job, token);
        worker.attempts.delete(key);
        if (leased !== null) requeue(ctx, leased, { reason: 'WORKER_LOST', how: WORKER_STOPPED, charged: false });
      }
      forgetWorker(ctx.state, id);
    } else worker.status = null;
    touched.add(worker.endpoint);
    if (worker.yieldsTo !== null) ctx.state.dirtyEndpoints.add(worker.yieldsTo);
  }
  for (const id of touched) {
    const endpoint = ctx.state.endpoints.get(id);
    if (endpoint !== undefined) fill(ctx, endpoint);
    ctx.state.dirtyEndpoints.add(id);
  }
}

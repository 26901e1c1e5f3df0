/** Reconciles desired and actual workers: starts, drains, ends and restarts them. */
import { invariant } from '../../lib/invariant.ts';
import type { ReleaseSpec, WorkerSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import type { StepContext } from './context.ts';
import { deviceProblemOf } from './devices.ts';
import type { State, Worker } from './state.ts';
import { takeRestart } from './restarts.ts';
import { CRASH_LOOP_FAILURES } from './report.ts';

/** First delay before a failed worker is restarted, ms; doubles with each consecutive failure. */
export const BACKOFF_FIRST_MS = 1_000;
/** Longest such delay, ms. */
const BACKOFF_LAST_MS = 60_000;
/** A worker that served this long, ms, resets its failure count. */
const STEADY_MS = 60_000;
/** A worker is reported busy this long after its last request, ms. */
const BUSY_AFTER_MS = 1_000;
/** Start-up time-out where the release sets none, ms. */
const DEFAULT_START_TIMEOUT_MS = 60_000;

/**
 * A draining worker waits this long for its WebSockets, ms: they have no end of their own. Then it is ended, and its
 * server can close them.
 */
export const WEBSOCKET_DRAIN_MS = 30_000;

/** Moves the actual set towards the desired one as far as possible now. */
export function converge(ctx: StepContext): void {
  const desired = new Map(ctx.state.desired.map((spec) => [spec.workerId, spec]));
  for (const worker of ctx.state.workers.values()) {
    const spec = desired.get(worker.id);
    const wanted = spec !== undefined && !spec.drain && spec.releaseId === worker.releaseId;
    if (!worker.draining && (!wanted || ctx.state.closing)) {
      worker.draining = true;
      worker.webSocketsUntil = ctx.now + WEBSOCKET_DRAIN_MS;
      ctx.state.workersChanged = true;
    }
    // A closing agent has less time than that.
    if (worker.draining && ctx.state.closing) worker.webSocketsUntil = ctx.now;
    if (worker.draining) endIfFree(ctx, worker);
  }
  for (const spec of ctx.state.desired) {
    const release = ctx.state.releases.get(spec.releaseId);
    if (ctx.state.closing || spec.drain || release === undefined || ctx.state.workers.has(spec.workerId)) continue;
    ctx.state.workers.set(spec.workerId, newWorker(spec, release, ctx.now));
    ctx.state.workersChanged = true;
  }
  for (const worker of ctx.state.workers.values()) {
    if (worker.phase === 'waiting' && !worker.draining && devicesUsable(ctx.state, worker)) beginStart(ctx, worker);
  }
}

/** Ends a draining worker that holds nothing any more; the runtime's `exited` removes it. */
export function endIfFree(ctx: StepContext, worker: Worker): void {
  if (!worker.draining && worker.viewProblem !== '' && worker.phase === 'ready') restartIfFree(ctx, worker);
  if (!worker.draining || worker.attempts.size > 0 || worker.requests > worker.webSockets) return;
  if (holdsWebSocketsOnly(worker) && ctx.now < (worker.webSocketsUntil ?? 0)) return;
  if (!worker.hostAlive) {
    ctx.state.workers.delete(worker.id);
    ctx.state.workersChanged = true;
    return;
  }
  worker.phase = 'ending';
  worker.deadline = undefined;
  endHost(ctx, worker, false);
}

/** A worker that lost its GPUs starts anew once it has ended what it holds. */
function restartIfFree(ctx: StepContext, worker: Worker): void {
  if (worker.attempts.size === 0 && worker.requests === worker.webSockets) failWorker(ctx, worker, 'DEVICE_PROBLEM', worker.viewProblem);
}

/** The worker's GPUs cannot be used from inside of it: nothing new reaches it. */
export function setViewProblem(ctx: StepContext, worker: Worker, problem: string): void {
  worker.viewProblem = problem;
  ctx.state.workersChanged = true;
}

/** Whether open WebSockets are all that keeps a draining worker. */
export function holdsWebSocketsOnly(worker: Worker): boolean {
  const { draining, phase, attempts, requests, webSockets } = worker;
  return draining && phase !== 'ending' && attempts.size === 0 && webSockets > 0 && requests === webSockets;
}

/** First step of a start: fetch the build, if the release has one. */
export function beginStart(ctx: StepContext, worker: Worker): void {
  if (deviceProblemOf(ctx.state, worker) !== undefined) {
    worker.phase = 'waiting';
    worker.deadline = undefined;
    ctx.state.workersChanged = true;
    return;
  }
  invariant(!worker.hostAlive, 'a worker starts when its last host is gone', {
    worker: worker.id,
    inPhase: worker.phase,
  });
  worker.start += 1;
  worker.endAsked = false;
  worker.slots = undefined;
  worker.hasLostRequest = false;
  if (worker.release.buildDigest === '') {
    startHost(ctx, worker, '');
    return;
  }
  worker.phase = 'artifact';
  worker.deadline = undefined;
  if (worker.failures < CRASH_LOOP_FAILURES) worker.reason = 'ARTIFACT';
  ctx.state.workersChanged = true;
  ctx.emit({ kind: 'fetch-artifact', workerId: worker.id, start: worker.start, release: worker.release });
}

/** The build is here: start the host process. */
export function startHost(ctx: StepContext, worker: Worker, folder: string): void {
  invariant(!worker.hostAlive, 'a start has one host', { worker: worker.id, start: worker.start });
  worker.artifactMs = Math.round(ctx.now - worker.askedAt);
  worker.hostAlive = true;
  awaitLoad(ctx, worker);
  ctx.emit({
    kind: 'start-host',
    workerId: worker.id,
    start: worker.start,
    release: worker.release,
    runtime: worker.runtime,
    folder,
    deviceUuids: worker.deviceUuids,
  });
}

/** The module is being loaded, in a new host or again in the current one. */
export function awaitLoad(ctx: StepContext, worker: Worker): void {
  worker.phase = 'starting';
  worker.waitingFor = '';
  worker.deadline = ctx.now + startTimeoutOf(worker.release);
  if (worker.failures < CRASH_LOOP_FAILURES) worker.reason = 'STARTING';
  ctx.state.workersChanged = true;
}

/** The start reports progress: its time-out starts anew. */
export function setPreparing(ctx: StepContext, worker: Worker, reason: string, detail: string): void {
  worker.deadline = ctx.now + startTimeoutOf(worker.release);
  if (worker.failures >= CRASH_LOOP_FAILURES) return;
  worker.reason = reason;
  worker.detail = detail;
  ctx.state.workersChanged = true;
}

/** The program runs and does not serve yet. */
export function setWaiting(state: State, worker: Worker, detail: string): void {
  worker.waitingFor = detail;
  state.workersChanged = true;
}

export function startTimeoutOf(release: ReleaseSpec): number {
  return release.startTimeoutMs || DEFAULT_START_TIMEOUT_MS;
}

export function setReady(ctx: StepContext, worker: Worker): void {
  invariant(worker.hostAlive, 'a worker that is ready has a host', { worker: worker.id, start: worker.start });
  worker.phase = 'ready';
  worker.reachable = true;
  worker.deadline = undefined;
  worker.readyAt = ctx.now;
  worker.reason = '';
  worker.detail = '';
  worker.waitingFor = '';
  worker.loadedMs = Math.round(ctx.now - worker.askedAt);
  ctx.state.workersChanged = true;
}

/** Gateways receive this with the set of workers. */
export function setReachable(state: State, worker: Worker, is: boolean): void {
  if (worker.reachable === is) return;
  worker.reachable = is;
  state.workersChanged = true;
}

/** The worker has shown how many jobs it takes at once. */
export function setSlots(state: State, worker: Worker, slots: number): void {
  if (worker.slots === slots) return;
  worker.slots = slots;
  state.workersChanged = true;
}

/** The worker served long enough: resets its failure count. */
export function resetFailures(state: State, worker: Worker): void {
  if (worker.failures === 0) return;
  worker.failures = 0;
  state.workersChanged = true;
}

/** A start or a life failed: schedules a restart with increasing delay. */
export function failWorker(ctx: StepContext, worker: Worker, reason: string, detail: string): void {
  if (worker.phase === 'ready' && ctx.now - worker.readyAt >= STEADY_MS) worker.failures = 0;
  worker.failures += 1;
  worker.viewProblem = '';
  worker.phase = 'backoff';
  worker.reason = worker.failures >= CRASH_LOOP_FAILURES ? 'CRASH_LOOP' : reason;
  worker.detail = detail;
  worker.waitingFor = '';
  worker.deadline = ctx.now + Math.min(BACKOFF_LAST_MS, BACKOFF_FIRST_MS * 2 ** (worker.failures - 1));
  worker.askedAt = ctx.now;
  worker.artifactMs = 0;
  worker.startedMs = 0;
  worker.loadedMs = 0;
  ctx.state.workersChanged = true;
  if (worker.hostAlive) endHost(ctx, worker, true);
  endIfFree(ctx, worker);
}

/** Its own work ended it: it starts again, at once unless that happens often to workers of its endpoint. */
export function restartWorker(ctx: StepContext, worker: Worker, detail: string): void {
  worker.askedAt = ctx.now;
  const at = takeRestart(ctx.state, worker.release.endpointId, ctx.now);
  if (at <= ctx.now) {
    beginStart(ctx, worker);
    return;
  }
  worker.phase = 'restarting';
  worker.deadline = at;
  if (worker.failures < CRASH_LOOP_FAILURES) {
    worker.reason = 'RESTARTS_LIMITED';
    worker.detail = `its jobs or requests end workers of the endpoint too often: ${detail}`;
  }
  ctx.state.workersChanged = true;
}

/** Asks the runtime once to end the host of this start; `force` may still follow a graceful end. */
export function endHost(ctx: StepContext, worker: Worker, force: boolean): void {
  if (worker.endAsked && !force) return;
  worker.endAsked = true;
  ctx.emit({ kind: 'end-host', workerId: worker.id, start: worker.start, force });
}

/**
 * Sets the worker's numbers of HTTP requests and WebSockets. It is reported busy at the first one, and idle a moment after the last.
 */
export function setRequests(
  ctx: StepContext,
  worker: Worker,
  { count, webSockets, isLost = false }: { readonly count: number; readonly webSockets: number; readonly isLost?: boolean },
): void {
  if (count < worker.requests) worker.hasLostRequest = isLost;
  worker.requests = count;
  worker.webSockets = webSockets;
  worker.busyUntil = count > 0 ? undefined : ctx.now + BUSY_AFTER_MS;
  if (count > 0 && !worker.busy) {
    worker.busy = true;
    ctx.state.workersChanged = true;
  }
  if (count === webSockets) endIfFree(ctx, worker);
}

/** No request has arrived for a while after the last one. */
export function endBusy(state: State, worker: Worker): void {
  worker.busy = false;
  worker.busyUntil = undefined;
  state.workersChanged = true;
}

/** Returns when the worker must be checked again, monotonic ms. A host must be gone before its worker restarts. */
export function workerDeadline(worker: Worker): number | undefined {
  return worker.phase === 'backoff' && worker.hostAlive ? undefined : worker.deadline;
}

function newWorker(spec: WorkerSpec, release: ReleaseSpec, now: number): Worker {
  return {
    id: spec.workerId,
    releaseId: spec.releaseId,
    release,
    runtime: spec.runtime || release.runtime || 'thread',
    deviceUuids: spec.deviceUuids,
    viewProblem: '',
    phase: 'waiting',
    draining: false,
    attempts: new Set(),
    reachable: true,
    requests: 0,
    webSockets: 0,
    hasLostRequest: false,
    webSocketsUntil: undefined,
    busy: false,
    busyUntil: undefined,
    start: 0,
    hostAlive: false,
    slots: undefined,
    endAsked: false,
    failures: 0,
    reason: 'DEVICE_BUSY',
    detail: '',
    waitingFor: '',
    askedAt: now,
    readyAt: 0,
    deadline: undefined,
    artifactMs: 0,
    startedMs: 0,
    loadedMs: 0,
  };
}

/** Devices are exclusive: a worker waits until they are usable and every other worker that holds them is gone. */
function devicesUsable(state: State, worker: Worker): boolean {
  if (worker.deviceUuids.length === 0) return true;
  if (deviceProblemOf(state, worker) !== undefined) return false;
  for (const other of state.workers.values()) {
    if (other === worker || other.phase === 'waiting') continue;
    if (other.deviceUuids.some((uuid) => worker.deviceUuids.includes(uuid))) return false;
  }
  return true;
}

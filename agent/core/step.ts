/**
 * The agent's core: synchronous and deterministic. `step` takes one event, changes the state and returns effects;
 * `nextDeadline` returns when the next timed event is due. The core contains no promise, timer, clock or I/O: the
 * engine has them.
 */
import { assertNever } from '../../lib/errors.ts';
import { RefusalReason, type DesiredWorkers } from '../../proto/gen/capstan/v1/nodes.ts';
import { StepContext } from './context.ts';
import {
  acceptDispatch,
  acknowledge,
  addChunk,
  chunkStored,
  handlerEnded,
  handlerEntered,
  handleRecall,
  handleStop,
  handToWorker,
  markAttemptsLost,
  outputStored,
  refuse,
  reportProgress,
  resend,
  returnUnstarted,
  runningCount,
  sendChunks,
  setProgress,
  timeOut,
} from './attempts.ts';
import { drain, setStored, nextGrantAt } from './chunks.ts';
import { setDeviceProblems } from './devices.ts';
import type { CoreEvent, Effect, FromWorker } from './events.ts';
import { attemptKey, type Attempt, type State, type Worker } from './state.ts';
import {
  awaitLoad,
  beginStart,
  converge,
  endBusy,
  endHost,
  endIfFree,
  holdsWebSocketsOnly,
  restartWorker,
  failWorker,
  setPreparing,
  setReachable,
  setReady,
  setSlots,
  setViewProblem,
  setWaiting,
  setRequests,
  startHost,
  startTimeoutOf,
  workerDeadline,
} from './workers.ts';

/** Handles one event at a monotonic time in ms. The effects must be carried out in order. */
export function step(state: State, event: CoreEvent, now: number): Effect[] {
  const ctx = new StepContext(state, now);
  const workersBefore = state.workers.size;
  switch (event.kind) {
    case 'welcome':
      state.online = true;
      state.congested = false;
      for (const attempt of state.attempts.values()) resend(ctx, attempt);
      break;
    case 'disconnected':
      state.online = false;
      break;
    case 'congested':
      state.congested = event.is;
      if (event.is) break;
      for (const attempt of state.attempts.values()) if (attempt.chunks !== undefined) chunkStored(ctx, attempt, attempt.chunks);
      break;
    case 'rejoined':
      state.epoch = 0;
      break;
    case 'desired':
      applyDesired(ctx, event.desired);
      break;
    case 'dispatch':
      acceptDispatch(ctx, event.dispatch);
      break;
    case 'stop':
      handleStop(ctx, event.stop);
      break;
    case 'recall':
      handleRecall(ctx, event.recall);
      break;
    case 'ack': {
      const attempt = state.attempts.get(attemptKey(event.ack.jobId, event.ack.token));
      if (attempt !== undefined) acknowledge(ctx, attempt);
      break;
    }
    case 'drained': {
      const attempt = state.attempts.get(attemptKey(event.drained.jobId, event.drained.token));
      if (attempt?.chunks === undefined) break;
      drain(attempt.chunks, event.drained.nextIndex, now);
      sendChunks(ctx, attempt, attempt.chunks);
      break;
    }
    case 'artifact-ready': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'artifact') startHost(ctx, worker, event.folder);
      break;
    }
    case 'artifact-failed': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'artifact') failWorker(ctx, worker, 'ARTIFACT_FAILED', event.detail);
      break;
    }
    case 'host-started': {
      const worker = workerOf(state, event);
      if (worker !== undefined) worker.startedMs = Math.round(now - worker.askedAt);
      break;
    }
    case 'preparing': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') setPreparing(ctx, worker, event.reason, event.detail);
      break;
    }
    case 'waiting': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') setWaiting(state, worker, event.detail);
      break;
    }
    case 'start-failed': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') failWorker(ctx, worker, event.reason, event.detail);
      break;
    }
    case 'loaded': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') setReady(ctx, worker);
      break;
    }
    case 'load-failed': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') failWorker(ctx, worker, 'LOAD_FAILED', event.detail);
      break;
    }
    case 'reloading': {
      const worker = workerOf(state, event);
      if (worker === undefined) break;
      if (worker.phase === 'ready') awaitLoad(ctx, worker);
      markAttemptsLost(ctx, worker, { by: 'forced-stop', detail: 'another job on this worker had to be stopped' });
      break;
    }
    case 'slots': {
      const worker = workerOf(state, event);
      if (worker !== undefined) setSlots(state, worker, event.count);
      break;
    }
    case 'reachable': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'ready') setReachable(state, worker, event.is);
      break;
    }
    case 'exited':
      hostExited(ctx, event);
      break;
    case 'input-ready': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) handToWorker(ctx, attempt, event.input);
      break;
    }
    case 'input-failed': {
      const attempt = state.attempts.get(event.key);
      const reason = event.isMissing ? RefusalReason.INPUT_MISSING : RefusalReason.INPUT_UNAVAILABLE;
      if (attempt?.phase === 'fetching') refuse(ctx, attempt, reason, event.detail);
      break;
    }
    case 'output-stored': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) outputStored(ctx, attempt, { output: event.output });
      break;
    }
    case 'output-refused': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) outputStored(ctx, attempt, { refused: event.detail });
      break;
    }
    case 'chunk-stored': {
      const attempt = state.attempts.get(event.key);
      if (attempt?.chunks === undefined) break;
      setStored(attempt.chunks, event.index, event.data);
      chunkStored(ctx, attempt, attempt.chunks);
      break;
    }
    case 'handler-entered': {
      const attempt = attemptOf(ctx, event);
      if (attempt !== undefined) handlerEntered(ctx, attempt);
      break;
    }
    case 'chunk': {
      const attempt = attemptOf(ctx, event);
      if (attempt !== undefined) addChunk(ctx, attempt, event.data);
      break;
    }
    case 'progress': {
      const attempt = attemptOf(ctx, event);
      if (attempt !== undefined) setProgress(ctx, attempt, event.data);
      break;
    }
    case 'handler-ended': {
      const attempt = attemptOf(ctx, event);
      if (attempt !== undefined) handlerEnded(ctx, attempt, event.result);
      break;
    }
    case 'requests': {
      const worker = workerOf(state, event);
      if (worker !== undefined) setRequests(ctx, worker, event);
      break;
    }
    case 'gpus-lost': {
      const worker = workerOf(state, event);
      if (worker?.phase !== 'ready' || worker.draining || worker.viewProblem !== '') break;
      setViewProblem(ctx, worker, event.detail);
      returnUnstarted(ctx, worker);
      endIfFree(ctx, worker);
      break;
    }
    case 'devices':
      for (const worker of setDeviceProblems(state, event.problems)) returnUnstarted(ctx, worker);
      converge(ctx);
      break;
    case 'tick':
      tick(ctx, event.held);
      break;
    case 'close':
      state.closing = true;
      converge(ctx);
      break;
    case 'close-now':
      state.closing = true;
      for (const worker of state.workers.values()) if (worker.hostAlive) endHost(ctx, worker, true);
      break;
    default:
      assertNever(event);
  }
  // A worker that is gone may have held devices that another one waits for.
  if (state.workers.size < workersBefore) converge(ctx);
  return ctx.effects;
}

/** Returns when the next `tick` is due, monotonic ms. */
export function nextDeadline(state: State): number | undefined {
  let first: number | undefined;
  const consider = (at: number | undefined): void => {
    if (at !== undefined && (first === undefined || at < first)) first = at;
  };
  for (const worker of state.workers.values()) {
    consider(workerDeadline(worker));
    consider(worker.busyUntil);
    if (holdsWebSocketsOnly(worker)) consider(worker.webSocketsUntil);
  }
  for (const attempt of state.attempts.values()) {
    consider(attempt.deadline);
    if (attempt.chunks !== undefined) consider(nextGrantAt(attempt.chunks));
    if (attempt.progressWaits && attempt.phase === 'running') consider(attempt.progressAfter);
  }
  return first;
}

/** True when no worker and no attempt that could still run is left: a closing agent may exit. */
export function isIdle(state: State): boolean {
  return state.workers.size === 0;
}

function applyDesired(ctx: StepContext, desired: DesiredWorkers): void {
  if (desired.epoch < ctx.state.epoch) return;
  ctx.state.epoch = desired.epoch;
  ctx.state.desired = desired.workers;
  ctx.state.releases = new Map(desired.releases.map((release) => [release.releaseId, release]));
  ctx.state.workersChanged = true;
  converge(ctx);
}

function hostExited(ctx: StepContext, event: Extract<CoreEvent, { kind: 'exited' }>): void {
  const worker = workerOf(ctx.state, event);
  if (worker === undefined || !worker.hostAlive) return;
  worker.hostAlive = false;
  const { hardStop, culprit, detail, isUnread = false } = event;
  const by = hardStop ? 'forced-stop' : worker.endAsked ? 'agent' : isUnread ? 'account' : 'itself';
  // A handler of a job or request ended it, which says nothing against the next start. Its requests may be over by now.
  const hadWork = runningCount(ctx.state, worker) > 0 || worker.requests > 0 || worker.busy || worker.hasLostRequest;
  const isOfHandler = by === 'itself' && (culprit !== undefined || hadWork);
  markAttemptsLost(ctx, worker, { by, culprit, detail });
  if (worker.draining) {
    worker.phase = 'ending';
    worker.deadline = undefined;
    endIfFree(ctx, worker);
  } else if (worker.phase === 'ready' && (hardStop || isOfHandler || by === 'account')) {
    restartWorker(ctx, worker, detail);
  } else if (worker.phase !== 'backoff') {
    failWorker(ctx, worker, worker.phase === 'starting' ? 'START_FAILED' : 'WORKER_DIED', detail);
  }
}

function tick(ctx: StepContext, held?: ReadonlySet<string>): void {
  for (const attempt of ctx.state.attempts.values()) {
    if (attempt.deadline !== undefined && ctx.now >= attempt.deadline) {
      if (attempt.stop === undefined && held?.has(attempt.workerId) === true) attempt.deadline = ctx.now + attempt.executionTimeoutMs;
      else timeOut(ctx, attempt);
    }
    if (attempt.progressAfter !== undefined && ctx.now >= attempt.progressAfter) reportProgress(ctx, attempt);
    if (attempt.chunks !== undefined && attempt.chunks.owed > 0) sendChunks(ctx, attempt, attempt.chunks);
  }
  for (const worker of ctx.state.workers.values()) {
    if (worker.busyUntil !== undefined && ctx.now >= worker.busyUntil) endBusy(ctx.state, worker);
    if (holdsWebSocketsOnly(worker)) endIfFree(ctx, worker);
    const deadline = workerDeadline(worker);
    if (deadline === undefined || ctx.now < deadline) continue;
    if (worker.phase === 'backoff' || worker.phase === 'restarting') beginStart(ctx, worker);
    else if (worker.phase === 'starting') {
      const limit = startTimeoutOf(worker.release);
      const waitsFor = worker.waitingFor === '' ? '' : `: ${worker.waitingFor}`;
      const busyWith = worker.reason === 'STARTING' || worker.reason === 'CRASH_LOOP' ? waitsFor : `: ${worker.reason} ${worker.detail}`;
      failWorker(ctx, worker, 'START_TIMEOUT', `the worker was not ready after ${limit} ms${busyWith}`);
    }
  }
}

/**
 * Returns the attempt that a worker speaks of. One that was not handed to this start of it is not its to change: the
 * worker's own code wrote the frame, and the worker ends. An attempt that is gone may be its own, late.
 */
function attemptOf(ctx: StepContext, event: FromWorker): Attempt | undefined {
  const attempt = ctx.state.attempts.get(event.key);
  if (attempt === undefined || (attempt.workerId === event.workerId && attempt.start === event.start)) return attempt;
  const detail = `the worker reported on the attempt ${event.key}, which is not its own`;
  ctx.emit({ kind: 'violation', workerId: event.workerId, detail });
  const worker = workerOf(ctx.state, event);
  if (worker?.hostAlive !== true) return undefined;
  if (worker.draining) endHost(ctx, worker, true);
  else failWorker(ctx, worker, 'WORKER_DIED', detail);
  return undefined;
}

/** Returns the worker of an event, unless the event belongs to an earlier start. */
function workerOf(state: State, event: { readonly workerId: string; readonly start: number }): Worker | undefined {
  const worker = state.workers.get(event.workerId);
  return worker?.start === event.start ? worker : undefined;
}

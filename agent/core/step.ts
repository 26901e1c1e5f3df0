/**
 * The agent's core: synchronous and deterministic. `step` takes one event, changes the state and
 * answers what is to be done; `nextDeadline` says when time itself is the next event. No promise,
 * timer, clock or I/O in here: the engine has them.
 */
import { assertNever } from '../../lib/errors.ts';
import { RefusalReason, type DesiredWorkers } from '../../proto/gen/capstan/v1/nodes.ts';
import {
  acceptDispatch,
  addChunk,
  chunkStored,
  forget,
  handlerEnded,
  handlerEntered,
  handleStop,
  handToWorker,
  loseAttempts,
  outputStored,
  refuse,
  resend,
  returnUnstarted,
  sendChunks,
  setProgress,
  stopAttempt,
  timeOut,
} from './attempts.ts';
import { drain, setStored, nextGrantAt } from './chunks.ts';
import { setDeviceProblems } from './devices.ts';
import type { CoreEvent, Effect } from './events.ts';
import { attemptKey, type State, type Worker } from './state.ts';
import {
  awaitLoad,
  beginStart,
  converge,
  endBusy,
  endHost,
  endIfFree,
  failWorker,
  setPreparing,
  setReachable,
  setReady,
  setRequests,
  startHost,
  startTimeoutOf,
  workerDeadline,
} from './workers.ts';

/** One event, at a monotonic time in ms. Effects are to be carried out in order. */
export function step(state: State, event: CoreEvent, now: number): Effect[] {
  const out: Effect[] = [];
  const workersBefore = state.workers.size;
  switch (event.kind) {
    case 'welcome':
      state.online = true;
      for (const attempt of state.attempts.values()) resend(state, attempt, now, out);
      break;
    case 'disconnected':
      state.online = false;
      break;
    case 'rejoined':
      state.epoch = 0;
      break;
    case 'desired':
      applyDesired(state, event.desired, now, out);
      break;
    case 'dispatch':
      acceptDispatch(state, event.dispatch, out);
      break;
    case 'stop':
      handleStop(state, event.stop, out);
      break;
    case 'ack': {
      const key = attemptKey(event.ack.jobId, event.ack.token);
      const attempt = state.attempts.get(key);
      // An ack for an attempt that still runs means: the scheduler has no use for it any more.
      if (attempt?.lingers === true) break;
      if (attempt !== undefined && (attempt.phase === 'ended' || attempt.phase === 'storing')) forget(state, key, out);
      else if (attempt !== undefined) stopAttempt(state, attempt, 'stopped', out);
      break;
    }
    case 'drained': {
      const attempt = state.attempts.get(attemptKey(event.drained.jobId, event.drained.token));
      if (attempt?.chunks === undefined) break;
      drain(attempt.chunks, event.drained.nextIndex, now);
      sendChunks(state, attempt, attempt.chunks, now, out);
      break;
    }
    case 'artifact-ready': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'artifact') startHost(state, worker, event.folder, now, out);
      break;
    }
    case 'artifact-failed': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'artifact') failWorker(state, worker, 'ARTIFACT_FAILED', event.detail, now, out);
      break;
    }
    case 'host-started': {
      const worker = workerOf(state, event);
      if (worker !== undefined) worker.startedMs = Math.round(now - worker.askedAt);
      break;
    }
    case 'preparing': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') setPreparing(state, worker, event.reason, event.detail, now);
      break;
    }
    case 'start-failed': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') failWorker(state, worker, event.reason, event.detail, now, out);
      break;
    }
    case 'loaded': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') setReady(state, worker, now);
      break;
    }
    case 'load-failed': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'starting') failWorker(state, worker, 'LOAD_FAILED', event.detail, now, out);
      break;
    }
    case 'reloading': {
      const worker = workerOf(state, event);
      if (worker === undefined) break;
      if (worker.phase === 'ready') awaitLoad(state, worker, now);
      loseAttempts(state, worker, true, 'another job on this worker had to be stopped', now, out);
      break;
    }
    case 'reachable': {
      const worker = workerOf(state, event);
      if (worker?.phase === 'ready') setReachable(state, worker, event.is);
      break;
    }
    case 'exited':
      hostExited(state, event, now, out);
      break;
    case 'input-ready': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) handToWorker(state, attempt, event.input, out);
      break;
    }
    case 'input-failed': {
      const attempt = state.attempts.get(event.key);
      if (attempt?.phase === 'fetching') refuse(state, attempt, RefusalReason.INPUT_UNAVAILABLE, event.detail, out);
      break;
    }
    case 'output-stored': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) outputStored(state, attempt, { output: event.output }, now, out);
      break;
    }
    case 'output-refused': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) outputStored(state, attempt, { refused: event.detail }, now, out);
      break;
    }
    case 'chunk-stored': {
      const attempt = state.attempts.get(event.key);
      if (attempt?.chunks === undefined) break;
      setStored(attempt.chunks, event.index, event.data);
      chunkStored(state, attempt, attempt.chunks, now, out);
      break;
    }
    case 'handler-entered': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) handlerEntered(state, attempt, now, out);
      break;
    }
    case 'chunk': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) addChunk(state, attempt, event.data, now, out);
      break;
    }
    case 'progress': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) setProgress(state, attempt, event.data, out);
      break;
    }
    case 'handler-ended': {
      const attempt = state.attempts.get(event.key);
      if (attempt !== undefined) handlerEnded(state, attempt, event.result, now, out);
      break;
    }
    case 'requests': {
      const worker = workerOf(state, event);
      if (worker !== undefined) setRequests(state, worker, event.count, now, out);
      break;
    }
    case 'devices':
      for (const worker of setDeviceProblems(state, event.problems)) returnUnstarted(state, worker, out);
      converge(state, now, out);
      break;
    case 'tick':
      tick(state, now, out);
      break;
    case 'close':
      state.closing = true;
      converge(state, now, out);
      break;
    case 'close-now':
      state.closing = true;
      for (const worker of state.workers.values()) if (worker.hostAlive) endHost(worker, true, out);
      break;
    default:
      assertNever(event);
  }
  // A worker that is gone may have held devices that another one waits for.
  if (state.workers.size < workersBefore) converge(state, now, out);
  return out;
}

/** When the next `tick` is due, monotonic ms. */
export function nextDeadline(state: State): number | undefined {
  let first: number | undefined;
  const consider = (at: number | undefined): void => {
    if (at !== undefined && (first === undefined || at < first)) first = at;
  };
  for (const worker of state.workers.values()) {
    consider(workerDeadline(worker));
    consider(worker.busyUntil);
  }
  for (const attempt of state.attempts.values()) {
    consider(attempt.deadline);
    if (attempt.chunks !== undefined) consider(nextGrantAt(attempt.chunks));
  }
  return first;
}

/** True when no worker and no attempt that could still run is left: a closing agent may go. */
export function isIdle(state: State): boolean {
  return state.workers.size === 0;
}

function applyDesired(state: State, desired: DesiredWorkers, now: number, out: Effect[]): void {
  if (desired.epoch < state.epoch) return;
  state.epoch = desired.epoch;
  state.desired = desired.workers;
  state.releases = new Map(desired.releases.map((release) => [release.releaseId, release]));
  state.workersChanged = true;
  converge(state, now, out);
}

function hostExited(state: State, event: Extract<CoreEvent, { kind: 'exited' }>, now: number, out: Effect[]): void {
  const worker = workerOf(state, event);
  if (worker === undefined || !worker.hostAlive) return;
  worker.hostAlive = false;
  loseAttempts(state, worker, event.hardStop, event.detail, now, out);
  if (worker.draining) {
    worker.phase = 'ending';
    worker.deadline = undefined;
    endIfFree(state, worker, out);
  } else if (worker.phase === 'ready' && event.hardStop) {
    worker.askedAt = now;
    beginStart(state, worker, now, out);
  } else if (worker.phase !== 'backoff') {
    failWorker(state, worker, worker.phase === 'starting' ? 'START_FAILED' : 'WORKER_DIED', event.detail, now, out);
  }
}

function tick(state: State, now: number, out: Effect[]): void {
  for (const attempt of state.attempts.values()) {
    if (attempt.deadline !== undefined && now >= attempt.deadline) timeOut(state, attempt, now, out);
    if (attempt.chunks !== undefined && attempt.chunks.owed > 0) sendChunks(state, attempt, attempt.chunks, now, out);
  }
  for (const worker of state.workers.values()) {
    if (worker.busyUntil !== undefined && now >= worker.busyUntil) endBusy(state, worker);
    const deadline = workerDeadline(worker);
    if (deadline === undefined || now < deadline) continue;
    if (worker.phase === 'backoff') beginStart(state, worker, now, out);
    else if (worker.phase === 'starting') {
      const limit = startTimeoutOf(worker.release);
      const busyWith = worker.reason === 'STARTING' || worker.reason === 'CRASH_LOOP' ? '' : `: ${worker.reason} ${worker.detail}`;
      failWorker(state, worker, 'START_TIMEOUT', `the worker was not ready after ${limit} ms${busyWith}`, now, out);
    }
  }
}

/** The worker an event speaks of, unless the event is about an earlier start of it. */
function workerOf(state: State, event: { readonly workerId: string; readonly start: number }): Worker | undefined {
  const worker = state.workers.get(event.workerId);
  return worker?.start === event.start ? worker : undefined;
}

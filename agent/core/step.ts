/**
 * The agent's core: synchronous and deterministic. `step` takes one event, changes the image and
 * answers what is to be done; `nextDeadline` says when time itself is the next event. No promise,
 * timer, clock or I/O in here: the engine has them (DESIGN.md section 5).
 */
import { assertNever } from '../../proto/errors.ts';
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
import { attemptKey, type State, type Worker } from './image.ts';
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
export function step(image: State, event: CoreEvent, now: number): Effect[] {
  const out: Effect[] = [];
  const workersBefore = image.workers.size;
  switch (event.kind) {
    case 'welcome':
      image.online = true;
      for (const attempt of image.attempts.values()) resend(image, attempt, now, out);
      break;
    case 'disconnected':
      image.online = false;
      break;
    case 'rejoined':
      image.epoch = 0;
      break;
    case 'desired':
      applyDesired(image, event.desired, now, out);
      break;
    case 'dispatch':
      acceptDispatch(image, event.dispatch, out);
      break;
    case 'stop':
      handleStop(image, event.stop, out);
      break;
    case 'ack': {
      const key = attemptKey(event.ack.jobId, event.ack.token);
      const attempt = image.attempts.get(key);
      // An ack for an attempt that still runs means: the scheduler has no use for it any more.
      if (attempt?.lingers === true) break;
      if (attempt !== undefined && (attempt.phase === 'ended' || attempt.phase === 'storing')) forget(image, key, out);
      else if (attempt !== undefined) stopAttempt(image, attempt, 'stopped', out);
      break;
    }
    case 'drained': {
      const attempt = image.attempts.get(attemptKey(event.drained.jobId, event.drained.token));
      if (attempt?.chunks === undefined) break;
      drain(attempt.chunks, event.drained.nextIndex, now);
      sendChunks(image, attempt, attempt.chunks, now, out);
      break;
    }
    case 'artifact-ready': {
      const worker = workerOf(image, event);
      if (worker?.phase === 'artifact') startHost(image, worker, event.folder, now, out);
      break;
    }
    case 'artifact-failed': {
      const worker = workerOf(image, event);
      if (worker?.phase === 'artifact') failWorker(image, worker, 'ARTIFACT_FAILED', event.detail, now, out);
      break;
    }
    case 'host-started': {
      const worker = workerOf(image, event);
      if (worker !== undefined) worker.startedMs = Math.round(now - worker.askedAt);
      break;
    }
    case 'preparing': {
      const worker = workerOf(image, event);
      if (worker?.phase === 'starting') setPreparing(image, worker, event.reason, event.detail, now);
      break;
    }
    case 'start-failed': {
      const worker = workerOf(image, event);
      if (worker?.phase === 'starting') failWorker(image, worker, event.reason, event.detail, now, out);
      break;
    }
    case 'loaded': {
      const worker = workerOf(image, event);
      if (worker?.phase === 'starting') setReady(image, worker, now);
      break;
    }
    case 'load-failed': {
      const worker = workerOf(image, event);
      if (worker?.phase === 'starting') failWorker(image, worker, 'LOAD_FAILED', event.detail, now, out);
      break;
    }
    case 'reloading': {
      const worker = workerOf(image, event);
      if (worker === undefined) break;
      if (worker.phase === 'ready') awaitLoad(image, worker, now);
      loseAttempts(image, worker, true, 'another job on this worker had to be stopped', now, out);
      break;
    }
    case 'reachable': {
      const worker = workerOf(image, event);
      if (worker?.phase === 'ready') setReachable(image, worker, event.is);
      break;
    }
    case 'exited':
      hostExited(image, event, now, out);
      break;
    case 'input-ready': {
      const attempt = image.attempts.get(event.key);
      if (attempt !== undefined) handToWorker(image, attempt, event.input, out);
      break;
    }
    case 'input-failed': {
      const attempt = image.attempts.get(event.key);
      if (attempt?.phase === 'fetching') refuse(image, attempt, RefusalReason.INPUT_UNAVAILABLE, event.detail, out);
      break;
    }
    case 'output-stored': {
      const attempt = image.attempts.get(event.key);
      if (attempt !== undefined) outputStored(image, attempt, { output: event.output }, now, out);
      break;
    }
    case 'output-refused': {
      const attempt = image.attempts.get(event.key);
      if (attempt !== undefined) outputStored(image, attempt, { refused: event.detail }, now, out);
      break;
    }
    case 'chunk-stored': {
      const attempt = image.attempts.get(event.key);
      if (attempt?.chunks === undefined) break;
      setStored(attempt.chunks, event.index, event.data);
      chunkStored(image, attempt, attempt.chunks, now, out);
      break;
    }
    case 'handler-entered': {
      const attempt = image.attempts.get(event.key);
      if (attempt !== undefined) handlerEntered(image, attempt, now, out);
      break;
    }
    case 'chunk': {
      const attempt = image.attempts.get(event.key);
      if (attempt !== undefined) addChunk(image, attempt, event.data, now, out);
      break;
    }
    case 'progress': {
      const attempt = image.attempts.get(event.key);
      if (attempt !== undefined) setProgress(image, attempt, event.data, out);
      break;
    }
    case 'handler-ended': {
      const attempt = image.attempts.get(event.key);
      if (attempt !== undefined) handlerEnded(image, attempt, event.result, now, out);
      break;
    }
    case 'requests': {
      const worker = workerOf(image, event);
      if (worker !== undefined) setRequests(image, worker, event.count, now, out);
      break;
    }
    case 'devices':
      for (const worker of setDeviceProblems(image, event.problems)) returnUnstarted(image, worker, out);
      converge(image, now, out);
      break;
    case 'tick':
      tick(image, now, out);
      break;
    case 'close':
      image.closing = true;
      converge(image, now, out);
      break;
    case 'close-now':
      image.closing = true;
      for (const worker of image.workers.values()) if (worker.hostAlive) endHost(worker, true, out);
      break;
    default:
      assertNever(event);
  }
  // A worker that is gone may have held devices that another one waits for.
  if (image.workers.size < workersBefore) converge(image, now, out);
  return out;
}

/** When the next `tick` is due, monotonic ms. */
export function nextDeadline(image: State): number | undefined {
  let first: number | undefined;
  const consider = (at: number | undefined): void => {
    if (at !== undefined && (first === undefined || at < first)) first = at;
  };
  for (const worker of image.workers.values()) {
    consider(workerDeadline(worker));
    consider(worker.busyUntil);
  }
  for (const attempt of image.attempts.values()) {
    consider(attempt.deadline);
    if (attempt.chunks !== undefined) consider(nextGrantAt(attempt.chunks));
  }
  return first;
}

/** True when no worker and no attempt that could still run is left: a closing agent may go. */
export function isIdle(image: State): boolean {
  return image.workers.size === 0;
}

function applyDesired(image: State, desired: DesiredWorkers, now: number, out: Effect[]): void {
  if (desired.epoch < image.epoch) return;
  image.epoch = desired.epoch;
  image.desired = desired.workers;
  image.releases = new Map(desired.releases.map((release) => [release.releaseId, release]));
  image.workersChanged = true;
  converge(image, now, out);
}

function hostExited(image: State, event: Extract<CoreEvent, { kind: 'exited' }>, now: number, out: Effect[]): void {
  const worker = workerOf(image, event);
  if (worker === undefined || !worker.hostAlive) return;
  worker.hostAlive = false;
  loseAttempts(image, worker, event.hardStop, event.detail, now, out);
  if (worker.draining) {
    worker.phase = 'ending';
    worker.deadline = undefined;
    endIfFree(image, worker, out);
  } else if (worker.phase === 'ready' && event.hardStop) {
    worker.askedAt = now;
    beginStart(image, worker, now, out);
  } else if (worker.phase !== 'backoff') {
    failWorker(image, worker, worker.phase === 'starting' ? 'START_FAILED' : 'WORKER_DIED', event.detail, now, out);
  }
}

function tick(image: State, now: number, out: Effect[]): void {
  for (const attempt of image.attempts.values()) {
    if (attempt.deadline !== undefined && now >= attempt.deadline) timeOut(image, attempt, now, out);
    if (attempt.chunks !== undefined && attempt.chunks.owed > 0) sendChunks(image, attempt, attempt.chunks, now, out);
  }
  for (const worker of image.workers.values()) {
    if (worker.busyUntil !== undefined && now >= worker.busyUntil) endBusy(image, worker);
    const deadline = workerDeadline(worker);
    if (deadline === undefined || now < deadline) continue;
    if (worker.phase === 'backoff') beginStart(image, worker, now, out);
    else if (worker.phase === 'starting') {
      const limit = startTimeoutOf(worker.release);
      const busyWith = worker.reason === 'STARTING' || worker.reason === 'CRASH_LOOP' ? '' : `: ${worker.reason} ${worker.detail}`;
      failWorker(image, worker, 'START_TIMEOUT', `the worker was not ready after ${limit} ms${busyWith}`, now, out);
    }
  }
}

/** The worker an event speaks of, unless the event is about an earlier start of it. */
function workerOf(image: State, event: { readonly workerId: string; readonly start: number }): Worker | undefined {
  const worker = image.workers.get(event.workerId);
  return worker?.start === event.start ? worker : undefined;
}

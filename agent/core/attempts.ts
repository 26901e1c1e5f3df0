/** The agent as arbiter of its slots: what it takes, refuses, stops and reports (invariants 2, 6 and 8). */
import type { Payload } from '../../proto/gen/capstan/v1/common.ts';
import { AttemptOutcome, RefusalReason, type Dispatch, type StopAttempt } from '../../proto/gen/capstan/v1/nodes.ts';
import { append, isStoring, newChunkLog, rewind, grantCredits, takeUnsent, type ChunkLog } from './chunks.ts';
import { deviceProblemOf } from './devices.ts';
import type { Effect, HandlerResult } from './events.ts';
import { attemptKey, type Attempt, type AttemptKey, type State, type StopCause, type Worker } from './state.ts';
import { report, reportEnded, reportRefused, reportStarted } from './report.ts';
import { endIfFree, forgiveFailures } from './workers.ts';

/** Documents above this size, bytes, travel through the blob store (docs/borders.md, Bodies). */
const INLINE_BYTES = 64 * 1024;
/** The error of a job whose handler ran too long. */
const TIMED_OUT_ERROR = 'executionTimeout exceeded';
/** A handler that is out of time and stops within this time, ms, ends with its slot; of any other the end is reported first. */
export const TIMED_OUT_GRACE_MS = 500;

/** Takes the job, or says why not. The same lease twice is one attempt. */
export function acceptDispatch(state: State, dispatch: Dispatch, out: Effect[]): void {
  const key = attemptKey(dispatch.jobId, dispatch.token);
  if (state.attempts.has(key)) return;
  const older = state.attempts.get(state.newest.get(dispatch.jobId) ?? '');
  if (older !== undefined && older.token > dispatch.token) {
    out.push(reportRefused(dispatch.jobId, dispatch.token, RefusalReason.STOPPED, 'a newer attempt at this job is here'));
    return;
  }
  if (older !== undefined) stopAttempt(state, older, 'stopped', out);
  const refusal = refusalOf(state, dispatch);
  if (refusal !== undefined) {
    out.push(reportRefused(dispatch.jobId, dispatch.token, refusal.reason, refusal.detail));
    return;
  }
  const attempt: Attempt = {
    key,
    jobId: dispatch.jobId,
    token: dispatch.token,
    workerId: dispatch.workerId,
    executionTimeoutMs: dispatch.executionTimeoutMs,
    phase: 'fetching',
    dispatch,
    stop: undefined,
    startedAt: undefined,
    deadline: undefined,
    lingers: false,
    chunks: undefined,
    progress: undefined,
    end: undefined,
  };
  state.attempts.set(key, attempt);
  state.newest.set(dispatch.jobId, key);
  state.workers.get(dispatch.workerId)?.attempts.add(key);
  const body = dispatch.input?.body;
  if (body?.$case === 'blob') out.push({ kind: 'fetch-input', key, blob: body.value });
  else if (body === undefined) refuse(state, attempt, RefusalReason.INPUT_UNAVAILABLE, 'the lease came without an input', out);
  else handToWorker(state, attempt, body.value, out);
}

/** The input is complete: the worker gets the job, if it is still able to take it. */
export function handToWorker(state: State, attempt: Attempt, input: Buffer, out: Effect[]): void {
  const { dispatch } = attempt;
  if (attempt.phase !== 'fetching' || dispatch === undefined) return;
  if (state.workers.get(attempt.workerId)?.phase !== 'ready') {
    refuse(state, attempt, RefusalReason.NOT_READY, 'the worker stopped while the input was fetched', out);
    return;
  }
  attempt.phase = 'handed';
  attempt.dispatch = undefined;
  out.push({ kind: 'run', key: attempt.key, dispatch, input });
}

export function handlerEntered(state: State, attempt: Attempt, now: number, out: Effect[]): void {
  if (attempt.phase !== 'handed') return;
  attempt.phase = 'running';
  attempt.startedAt = now;
  if (attempt.executionTimeoutMs > 0 && attempt.stop === undefined) attempt.deadline = now + attempt.executionTimeoutMs;
  if (state.online) out.push(reportStarted(attempt, now));
}

export function handlerEnded(state: State, attempt: Attempt, result: HandlerResult, now: number, out: Effect[]): void {
  if (attempt.lingers) freeLingering(state, attempt, now, out);
  if (attempt.phase !== 'handed' && attempt.phase !== 'running') return;
  if (attempt.stop !== undefined || result.kind === 'stopped') {
    endStopped(state, attempt, result.ms, now, out);
  } else {
    const failed = result.kind === 'failed';
    const { output } = result;
    const large = output !== undefined && output.length > INLINE_BYTES;
    const outcome = failed ? AttemptOutcome.FAILED : AttemptOutcome.COMPLETED;
    const kept = large ? 'stored' : output === undefined ? undefined : inline(output);
    endAttempt(state, attempt, outcome, failed ? result.error : '', result.ms, now, out, kept);
    if (large) out.push({ kind: 'store-output', key: attempt.key, bytes: output });
  }
  const worker = state.workers.get(attempt.workerId);
  if (worker !== undefined) forgiveFailures(state, worker);
}

/**
 * The worker can finish nothing any more: its host is gone, or its handlers were stopped hard to
 * end one of them. A stopped attempt has its own end; the neighbours of a hard stop are given
 * back uncharged (NEIGHBOUR_STOPPED, also after STARTED); everything else is WORKER_LOST.
 */
export function loseAttempts(state: State, worker: Worker, hardStop: boolean, detail: string, now: number, out: Effect[]): void {
  for (const key of worker.attempts) {
    const attempt = state.attempts.get(key);
    if (attempt === undefined || attempt.phase === 'fetching') continue;
    if (attempt.lingers) freeLingering(state, attempt, now, out);
    else if (attempt.stop !== undefined) endStopped(state, attempt, undefined, now, out);
    else if (hardStop) refuse(state, attempt, RefusalReason.NEIGHBOUR_STOPPED, detail, out);
    else endAttempt(state, attempt, AttemptOutcome.WORKER_LOST, detail, undefined, now, out);
  }
}

/** StopAttempt of the scheduler. What is not here was never started as far as anyone can tell. */
export function handleStop(state: State, stop: StopAttempt, out: Effect[]): void {
  const attempt = state.attempts.get(attemptKey(stop.jobId, stop.token));
  if (attempt === undefined) out.push(reportRefused(stop.jobId, stop.token, RefusalReason.STOPPED, 'the attempt is not here'));
  else stopAttempt(state, attempt, 'stopped', out);
}

export function stopAttempt(state: State, attempt: Attempt, cause: StopCause, out: Effect[]): void {
  if (attempt.phase === 'fetching') {
    refuse(state, attempt, RefusalReason.STOPPED, 'stopped before its start', out);
    return;
  }
  if (attempt.stop !== undefined || (attempt.phase !== 'handed' && attempt.phase !== 'running')) return;
  attempt.stop = cause;
  attempt.deadline = undefined;
  out.push({ kind: 'cancel', key: attempt.key, workerId: attempt.workerId });
}

/**
 * The attempt has run for its executionTimeout: its handler is told to stop, and TIMED_OUT is final a moment later at
 * the latest. A handler that has not stopped by then goes on holding its slot.
 */
export function timeOut(state: State, attempt: Attempt, now: number, out: Effect[]): void {
  if (attempt.stop === undefined) {
    stopAttempt(state, attempt, 'timed-out', out);
    attempt.deadline = now + TIMED_OUT_GRACE_MS;
    return;
  }
  attempt.lingers = true;
  endStopped(state, attempt, undefined, now, out);
}

/** The handler of an attempt that timed out before is gone: its slot is free. */
function freeLingering(state: State, attempt: Attempt, now: number, out: Effect[]): void {
  attempt.lingers = false;
  freeSlot(state, attempt, out);
  reportEndWhenComplete(state, attempt, now, out);
}

/** Returns the attempts of a worker that have not entered their handler. */
export function returnUnstarted(state: State, worker: Worker, out: Effect[]): void {
  for (const key of [...worker.attempts]) {
    const attempt = state.attempts.get(key);
    if (attempt?.phase === 'fetching' || attempt?.phase === 'handed') stopAttempt(state, attempt, 'stopped', out);
  }
}

/** Gives the lease back. Nothing is kept: a session that misses the refusal misses the attempt in the next Hello, too. */
export function refuse(state: State, attempt: Attempt, reason: RefusalReason, detail: string, out: Effect[]): void {
  out.push(reportRefused(attempt.jobId, attempt.token, reason, detail));
  freeSlot(state, attempt, out);
  forget(state, attempt.key, out);
}

export function forget(state: State, key: AttemptKey, out: Effect[]): void {
  const attempt = state.attempts.get(key);
  if (attempt === undefined) return;
  freeSlot(state, attempt, out);
  state.attempts.delete(key);
  if (state.newest.get(attempt.jobId) === key) state.newest.delete(attempt.jobId);
  out.push({ kind: 'forget', key });
}

/** The large output lies in the blob store, or never will. */
export function outputStored(
  state: State,
  attempt: Attempt,
  stored: { output: Payload } | { refused: string },
  now: number,
  out: Effect[],
): void {
  const { end } = attempt;
  if (end === undefined || !end.storing) return;
  end.storing = false;
  if ('output' in stored) {
    end.output = stored.output;
  } else if (end.outcome === AttemptOutcome.COMPLETED) {
    end.outcome = AttemptOutcome.FAILED;
    end.error = `the result could not be stored: ${stored.refused}`;
  }
  reportEndWhenComplete(state, attempt, now, out);
}

export function addChunk(state: State, attempt: Attempt, data: Buffer, now: number, out: Effect[]): void {
  if (attempt.phase !== 'running') return;
  const log = (attempt.chunks ??= newChunkLog());
  const large = data.length > INLINE_BYTES;
  const index = append(log, large ? undefined : inline(data), data.length);
  if (large) out.push({ kind: 'store-chunk', key: attempt.key, index, bytes: data });
  sendChunks(state, attempt, log, now, out);
}

/** Sends what may go out and gives the generator what credits it may have. */
export function sendChunks(state: State, attempt: Attempt, log: ChunkLog, now: number, out: Effect[]): void {
  if (state.online) {
    for (const { index, data } of takeUnsent(log)) {
      out.push(report({ $case: 'chunk', value: { jobId: attempt.jobId, token: attempt.token, index, data } }));
    }
  }
  const count = grantCredits(log, state.online, now);
  if (count > 0 && attempt.phase === 'running') out.push({ kind: 'credit', key: attempt.key, workerId: attempt.workerId, count });
}

/** A large chunk arrived in the blob store: it, and what waited behind it, may go out. */
export function chunkStored(state: State, attempt: Attempt, log: ChunkLog, now: number, out: Effect[]): void {
  sendChunks(state, attempt, log, now, out);
  reportEndWhenComplete(state, attempt, now, out);
}

/** After Welcome: everything the scheduler may lack about an attempt, in the order it happened. */
export function resend(state: State, attempt: Attempt, now: number, out: Effect[]): void {
  if (attempt.startedAt !== undefined) out.push(reportStarted(attempt, now));
  if (attempt.chunks !== undefined) {
    rewind(attempt.chunks);
    sendChunks(state, attempt, attempt.chunks, now, out);
  }
  if (attempt.progress !== undefined && attempt.phase === 'running') out.push(progressOf(attempt, attempt.progress));
  reportEndWhenComplete(state, attempt, now, out);
}

export function setProgress(state: State, attempt: Attempt, data: Buffer, out: Effect[]): void {
  if (attempt.phase !== 'running') return;
  attempt.progress = inline(data);
  if (state.online) out.push(progressOf(attempt, attempt.progress));
}

function progressOf(attempt: Attempt, data: Payload): Effect {
  return report({ $case: 'progress', value: { jobId: attempt.jobId, token: attempt.token, data } });
}

function refusalOf(state: State, dispatch: Dispatch): { reason: RefusalReason; detail: string } | undefined {
  const worker = state.workers.get(dispatch.workerId);
  if (worker === undefined) return { reason: RefusalReason.UNKNOWN_WORKER, detail: 'no such worker on this node' };
  if (worker.draining || state.closing) return { reason: RefusalReason.DRAINING, detail: 'the worker is on its way out' };
  const problem = deviceProblemOf(state, worker);
  if (problem !== undefined) return { reason: RefusalReason.NOT_READY, detail: problem };
  if (worker.phase !== 'ready') return { reason: RefusalReason.NOT_READY, detail: worker.detail || worker.reason };
  const slots = Math.max(1, worker.release.maxConcurrency);
  if (worker.attempts.size >= slots) return { reason: RefusalReason.OVER_CAPACITY, detail: `all ${slots} slots are taken` };
  return undefined;
}

function endStopped(state: State, attempt: Attempt, ms: number | undefined, now: number, out: Effect[]): void {
  if (attempt.startedAt === undefined) {
    refuse(state, attempt, RefusalReason.STOPPED, 'stopped before its start', out);
    return;
  }
  const timedOut = attempt.stop === 'timed-out';
  const outcome = timedOut ? AttemptOutcome.TIMED_OUT : AttemptOutcome.STOPPED;
  endAttempt(state, attempt, outcome, timedOut ? TIMED_OUT_ERROR : '', ms, now, out);
}

function endAttempt(
  state: State,
  attempt: Attempt,
  outcome: AttemptOutcome,
  error: string,
  ms: number | undefined,
  now: number,
  out: Effect[],
  output?: Payload | 'stored',
): void {
  const executionMs = ms ?? (attempt.startedAt === undefined ? 0 : now - attempt.startedAt);
  attempt.phase = output === 'stored' ? 'storing' : 'ended';
  attempt.deadline = undefined;
  attempt.end = {
    outcome,
    output: output === 'stored' ? undefined : output,
    error,
    executionMs: Math.max(0, Math.round(executionMs)),
    at: now,
    storing: output === 'stored',
  };
  if (!attempt.lingers) freeSlot(state, attempt, out);
  reportEndWhenComplete(state, attempt, now, out);
}

/** The end follows the last chunk, and both follow their large bodies. */
function reportEndWhenComplete(state: State, attempt: Attempt, now: number, out: Effect[]): void {
  const { end } = attempt;
  if (end === undefined || end.storing) return;
  if (attempt.chunks !== undefined && isStoring(attempt.chunks)) {
    attempt.phase = 'storing';
    return;
  }
  attempt.phase = 'ended';
  if (state.online) out.push(reportEnded(attempt, end, now));
}

function freeSlot(state: State, attempt: Attempt, out: Effect[]): void {
  const worker = state.workers.get(attempt.workerId);
  if (worker === undefined || !worker.attempts.delete(attempt.key)) return;
  endIfFree(state, worker, out);
}

function inline(bytes: Buffer): Payload {
  return { body: { $case: 'inline', value: bytes } };
}

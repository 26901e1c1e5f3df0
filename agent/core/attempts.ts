/** Manages attempts and slots: accepts, refuses, stops and reports attempts (invariants 2, 6 and 8). */
import { invariant, present } from '../../lib/invariant.ts';
import { asBuffer, fromPayloadMessage, MAX_INLINE_BYTES, toPayloadMessage, type Payload } from '../../lib/payload.ts';
import { EXECUTION_TIMEOUT_ERROR } from '../../lib/job-errors.ts';
import { AttemptOutcome, RefusalReason, type Dispatch, type RecallAttempt, type StopAttempt } from '../../proto/gen/capstan/v1/nodes.ts';
import { addAttempt, apply } from './attempt-records.ts';
import type { StepContext } from './context.ts';
import { append, isStoring, newChunkLog, rewind, grantCredits, takeUnsent, type ChunkLog } from './chunks.ts';
import { deviceProblemOf } from './devices.ts';
import type { Effect, HandlerResult } from './events.ts';
import { isCrowded } from './held.ts';
import { attemptKey, type Attempt, type State, type StopCause, type Worker } from './state.ts';
import { report, reportEnded, reportRefused, reportStarted } from './report.ts';
import { resetFailures } from './workers.ts';

/** Least time between two reports of an attempt's progress, ms; only the latest one counts. */
export const PROGRESS_MS = 50;
/**
 * Grace for a timed-out handler, ms. A handler that stops within it ends together with its slot; otherwise the end is
 * reported first.
 */
export const TIMED_OUT_GRACE_MS = 500;

/** Accepts the job or refuses it with a reason. A repeated lease is the same attempt. */
export function acceptDispatch(ctx: StepContext, dispatch: Dispatch): void {
  if (ctx.state.attempts.has(attemptKey(dispatch.jobId, dispatch.token))) return;
  const newest = ctx.state.newest.get(dispatch.jobId);
  const older =
    newest === undefined ? undefined : present(ctx.state.attempts.get(newest), 'the newest attempt of a job is held', { key: newest });
  if (older !== undefined && older.token > dispatch.token) {
    ctx.emit(reportRefused(dispatch.jobId, dispatch.token, RefusalReason.STOPPED, 'a newer attempt of this job is on this node'));
    return;
  }
  if (older !== undefined) stopAttempt(ctx, older, 'stopped');
  const refusal = refusalOf(ctx.state, dispatch);
  if (refusal !== undefined) {
    ctx.emit(reportRefused(dispatch.jobId, dispatch.token, refusal.reason, refusal.detail));
    return;
  }
  const attempt = addAttempt(ctx, dispatch);
  const input = fromPayloadMessage(dispatch.input);
  if (input === undefined) refuse(ctx, attempt, RefusalReason.INPUT_UNAVAILABLE, 'the lease came without an input');
  else if ('blob' in input) ctx.emit({ kind: 'fetch-input', key: attempt.key, blob: input.blob });
  else handToWorker(ctx, attempt, asBuffer(input.inline));
}

/** The input is complete: hands the job to its worker if the worker can still take it. */
export function handToWorker(ctx: StepContext, attempt: Attempt, input: Buffer): void {
  // It was stopped while its input was fetched.
  if (attempt.phase !== 'fetching') return;
  const dispatch = present(attempt.dispatch, 'an attempt keeps its lease until it is handed to its worker', { key: attempt.key });
  const worker = ctx.state.workers.get(attempt.workerId);
  if (worker?.phase !== 'ready') {
    refuse(ctx, attempt, RefusalReason.NOT_READY, 'the worker stopped while the input was fetched');
    return;
  }
  const isHanded = apply(ctx, attempt, 'input');
  invariant(isHanded, 'an attempt that was fetching is handed to its worker', { key: attempt.key });
  attempt.dispatch = undefined;
  attempt.start = worker.start;
  ctx.emit({ kind: 'run', key: attempt.key, dispatch, input });
}

export function handlerEntered(ctx: StepContext, attempt: Attempt): void {
  // A worker may say it again.
  if (!apply(ctx, attempt, 'enter')) return;
  invariant(attempt.startedAt === undefined && attempt.end === undefined, 'a handler is entered once', { key: attempt.key });
  attempt.startedAt = ctx.now;
  if (attempt.executionTimeoutMs > 0 && attempt.stop === undefined) attempt.deadline = ctx.now + attempt.executionTimeoutMs;
  if (ctx.state.online) ctx.emit(reportStarted(attempt, ctx.now));
}

export function handlerEnded(ctx: StepContext, attempt: Attempt, result: HandlerResult): void {
  if (attempt.phase === 'lingering') endLingering(ctx, attempt);
  // It has ended already, or a worker says that what it does not have has ended.
  if (attempt.phase !== 'handed' && attempt.phase !== 'running') return;
  reportProgress(ctx, attempt);
  if (attempt.stop !== undefined || result.kind === 'stopped') {
    endStopped(ctx, attempt, result.ms);
  } else {
    const failed = result.kind === 'failed';
    const { output } = result;
    const large = output !== undefined && output.length > MAX_INLINE_BYTES;
    const outcome = failed ? AttemptOutcome.FAILED : AttemptOutcome.COMPLETED;
    const kept = large ? 'stored' : output === undefined ? undefined : { inline: output };
    endAttempt(ctx, attempt, { outcome, error: failed ? result.error : '', ms: result.ms, output: kept, bytes: output?.length ?? 0 });
    if (large) ctx.emit({ kind: 'store-output', key: attempt.key, bytes: output });
  }
  const worker = ctx.state.workers.get(attempt.workerId);
  if (worker !== undefined) resetFailures(ctx.state, worker);
}

/** Why a worker can finish none of its attempts. */
export interface WorkerLoss {
  /**
   * Its host ended by itself: `culprit`, if known, is the attempt or request that ended it. Its handlers were stopped
   * by force to end one of them. Or the agent ended it for a reason of its own. Or one of the account's workers, perhaps
   * another one, ended what reads them all.
   */
  readonly by: 'itself' | 'forced-stop' | 'agent' | 'account';
  readonly culprit?: string | undefined;
  readonly detail: string;
}

/**
 * Ends all attempts of a worker that can finish none of them. A stopped attempt has its own end. The neighbours of a
 * forced stop and of a known culprit are returned uncharged (NEIGHBOUR_STOPPED, also after STARTED); every other attempt
 * is WORKER_LOST. Several running ones of which any may have ended the worker are reported as suspected (invariant 6).
 */
export function markAttemptsLost(ctx: StepContext, worker: Worker, { by, culprit, detail }: WorkerLoss): void {
  const suspected = by === 'account' || (by === 'itself' && culprit === undefined && runningCount(ctx.state, worker) > 1);
  for (const key of worker.attempts) {
    const attempt = heldBy(ctx.state, worker, key);
    if (attempt.phase === 'fetching') continue;
    if (attempt.phase === 'lingering') endLingering(ctx, attempt);
    else if (attempt.stop !== undefined) endStopped(ctx, attempt, undefined);
    else if (by === 'forced-stop') refuse(ctx, attempt, RefusalReason.NEIGHBOUR_STOPPED, detail);
    else if (culprit !== undefined && culprit !== key)
      refuse(ctx, attempt, RefusalReason.NEIGHBOUR_STOPPED, `another job ended the worker: ${detail}`);
    else endAttempt(ctx, attempt, { outcome: AttemptOutcome.WORKER_LOST, error: detail, suspected });
  }
}

/** Number of the worker's attempts whose handlers run: each may have ended it. */
export function runningCount(state: State, worker: Worker): number {
  const running = [...worker.attempts].filter((key) => heldBy(state, worker, key).startedAt !== undefined);
  return running.length;
}

/** Handles StopAttempt. An attempt that is not here has not started as far as the agent knows. */
export function handleStop(ctx: StepContext, stop: StopAttempt): void {
  const attempt = ctx.state.attempts.get(attemptKey(stop.jobId, stop.token));
  if (attempt === undefined) ctx.emit(reportRefused(stop.jobId, stop.token, RefusalReason.STOPPED, 'the attempt is not on this node'));
  else stopAttempt(ctx, attempt, 'stopped');
}

/** Handles RecallAttempt: returns a lease whose handler was not entered; any other attempt goes on. */
export function handleRecall(ctx: StepContext, { jobId, token }: RecallAttempt): void {
  const attempt = ctx.state.attempts.get(attemptKey(jobId, token));
  if (attempt?.phase === 'fetching') refuse(ctx, attempt, RefusalReason.STOPPED, 'another worker is idle');
  else if (attempt?.phase === 'handed') ctx.emit({ kind: 'recall', key: attempt.key, workerId: attempt.workerId });
}

export function stopAttempt(ctx: StepContext, attempt: Attempt, cause: StopCause): void {
  if (attempt.phase === 'fetching') {
    refuse(ctx, attempt, RefusalReason.STOPPED, 'stopped before it started');
    return;
  }
  // It is being stopped, or has ended.
  if (attempt.stop !== undefined || !apply(ctx, attempt, 'stop')) return;
  attempt.stop = cause;
  attempt.deadline = undefined;
  ctx.emit({ kind: 'cancel', key: attempt.key, workerId: attempt.workerId });
}

/**
 * The attempt has reached its executionTimeout: asks the handler to stop, and reports TIMED_OUT after the grace at the
 * latest. A handler that has not stopped by then keeps its slot.
 */
export function timeOut(ctx: StepContext, attempt: Attempt): void {
  invariant(attempt.phase === 'handed' || attempt.phase === 'running', 'only an attempt of a worker times out', {
    key: attempt.key,
    inPhase: attempt.phase,
  });
  if (attempt.stop === undefined) {
    stopAttempt(ctx, attempt, 'timed-out');
    invariant(attempt.stop === 'timed-out', 'an attempt that times out is stopped for that', { key: attempt.key });
    attempt.deadline = ctx.now + TIMED_OUT_GRACE_MS;
    return;
  }
  if (apply(ctx, attempt, 'overrun')) noteEnd(ctx, attempt, { outcome: AttemptOutcome.TIMED_OUT, error: EXECUTION_TIMEOUT_ERROR });
}

/** Frees the slot of a timed-out attempt whose handler has now ended. */
function endLingering(ctx: StepContext, attempt: Attempt): void {
  const hasEnded = apply(ctx, attempt, 'end');
  invariant(hasEnded && attempt.end !== undefined, 'the end of a lingering attempt was reported', { key: attempt.key });
  reportEndWhenComplete(ctx, attempt);
}

/** Returns the attempts of a worker that have not entered their handler. */
export function returnUnstarted(ctx: StepContext, worker: Worker): void {
  for (const key of [...worker.attempts]) {
    const attempt = heldBy(ctx.state, worker, key);
    if (attempt.phase === 'fetching' || attempt.phase === 'handed') stopAttempt(ctx, attempt, 'stopped');
  }
}

/** Returns the lease. Nothing is kept: a session that misses the refusal also misses the attempt in the next Hello. */
export function refuse(ctx: StepContext, attempt: Attempt, reason: RefusalReason, detail: string): void {
  ctx.emit(reportRefused(attempt.jobId, attempt.token, reason, detail));
  const isGone = apply(ctx, attempt, 'refuse');
  invariant(isGone, 'an attempt is refused before its end', { key: attempt.key, inPhase: attempt.phase });
}

/** The scheduler has acknowledged the end. If the attempt still runs, the scheduler no longer needs it. */
export function acknowledge(ctx: StepContext, attempt: Attempt): void {
  if (!apply(ctx, attempt, 'ack')) stopAttempt(ctx, attempt, 'stopped');
}

/** The large output is in the blob store, or storing it has failed. */
export function outputStored(ctx: StepContext, attempt: Attempt, stored: { output: Payload } | { refused: string }): void {
  const { end } = attempt;
  // A transfer that was cancelled may speak up late, when the same attempt was accepted once more.
  if (end === undefined || !end.storing) return;
  end.storing = false;
  end.bytes = 0;
  if ('output' in stored) {
    end.output = stored.output;
  } else if (end.outcome === AttemptOutcome.COMPLETED) {
    end.outcome = AttemptOutcome.FAILED;
    end.error = `storing the result failed: ${stored.refused}`;
  }
  reportEndWhenComplete(ctx, attempt);
}

export function addChunk(ctx: StepContext, attempt: Attempt, data: Buffer): void {
  if (attempt.phase !== 'running') return;
  const log = (attempt.chunks ??= newChunkLog());
  const large = data.length > MAX_INLINE_BYTES;
  const index = append(log, large ? undefined : { inline: data }, data.length);
  if (large) ctx.emit({ kind: 'store-chunk', key: attempt.key, index, bytes: data });
  sendChunks(ctx, attempt, log);
}

/** Sends the chunks that may be sent and grants the generator its available credits. */
export function sendChunks(ctx: StepContext, attempt: Attempt, log: ChunkLog): void {
  const flows = ctx.state.online && !ctx.state.congested;
  // The chunks of an attempt that has ended are few, and its end waits behind them.
  if (flows || (ctx.state.online && attempt.end !== undefined)) {
    for (const { index, data } of takeUnsent(log)) {
      ctx.emit(report({ $case: 'chunk', value: { jobId: attempt.jobId, token: attempt.token, index, data: toPayloadMessage(data) } }));
    }
  }
  const count = grantCredits(log, { flows, isCrowded: isCrowded(ctx.state, attempt.accountId) }, ctx.now);
  if (count > 0 && attempt.phase === 'running') ctx.emit({ kind: 'credit', key: attempt.key, workerId: attempt.workerId, count });
}

/** A large chunk is in the blob store: it and the chunks behind it may be sent. */
export function chunkStored(ctx: StepContext, attempt: Attempt, log: ChunkLog): void {
  sendChunks(ctx, attempt, log);
  reportEndWhenComplete(ctx, attempt);
}

/** After Welcome: sends everything the scheduler may lack about an attempt, in order. */
export function resend(ctx: StepContext, attempt: Attempt): void {
  if (attempt.startedAt !== undefined) ctx.emit(reportStarted(attempt, ctx.now));
  if (attempt.chunks !== undefined) {
    rewind(attempt.chunks);
    sendChunks(ctx, attempt, attempt.chunks);
  }
  if (attempt.progress !== undefined && attempt.phase === 'running') ctx.emit(progressOf(attempt, attempt.progress));
  reportEndWhenComplete(ctx, attempt);
}

export function setProgress(ctx: StepContext, attempt: Attempt, data: Buffer): void {
  if (attempt.phase !== 'running') return;
  attempt.progress = { inline: data };
  attempt.progressWaits = true;
  if (attempt.progressAfter === undefined || ctx.now >= attempt.progressAfter) reportProgress(ctx, attempt);
}

/** Reports the progress that waits, if any. */
export function reportProgress(ctx: StepContext, attempt: Attempt): void {
  if (!attempt.progressWaits || attempt.progress === undefined || attempt.phase !== 'running') return;
  attempt.progressWaits = false;
  attempt.progressAfter = ctx.now + PROGRESS_MS;
  if (ctx.state.online) ctx.emit(progressOf(attempt, attempt.progress));
}

function progressOf(attempt: Attempt, data: Payload): Effect {
  return report({ $case: 'progress', value: { jobId: attempt.jobId, token: attempt.token, data: toPayloadMessage(data) } });
}

/** Returns an attempt that holds a slot of the worker. */
function heldBy(state: State, { id }: Worker, key: string): Attempt {
  const attempt = present(state.attempts.get(key), 'an attempt that holds a slot is in the state', { worker: id, key });
  invariant(attempt.workerId === id, 'an attempt holds a slot of its own worker', { worker: id, key });
  return attempt;
}

function refusalOf(state: State, dispatch: Dispatch): { reason: RefusalReason; detail: string } | undefined {
  const worker = state.workers.get(dispatch.workerId);
  if (worker === undefined) return { reason: RefusalReason.UNKNOWN_WORKER, detail: 'the worker is not on this node' };
  if (worker.draining || state.closing) return { reason: RefusalReason.DRAINING, detail: 'the worker is stopping' };
  const problem = deviceProblemOf(state, worker);
  if (problem !== undefined) return { reason: RefusalReason.NOT_READY, detail: problem };
  if (worker.phase !== 'ready') return { reason: RefusalReason.NOT_READY, detail: worker.detail || worker.reason };
  const slots = Math.max(1, worker.release.maxConcurrency);
  if (worker.attempts.size >= slots) return { reason: RefusalReason.OVER_CAPACITY, detail: `all ${slots} slots are in use` };
  return undefined;
}

function endStopped(ctx: StepContext, attempt: Attempt, ms: number | undefined): void {
  if (attempt.startedAt === undefined) {
    refuse(ctx, attempt, RefusalReason.STOPPED, 'stopped before it started');
    return;
  }
  const timedOut = attempt.stop === 'timed-out';
  const outcome = timedOut ? AttemptOutcome.TIMED_OUT : AttemptOutcome.STOPPED;
  endAttempt(ctx, attempt, { outcome, error: timedOut ? EXECUTION_TIMEOUT_ERROR : '', ms });
}

interface Ending {
  readonly outcome: AttemptOutcome;
  readonly error: string;
  /** Time in the handler; measured here if the worker did not report it. */
  readonly ms?: number | undefined;
  /** `stored`: the output is being written to the blob store. */
  readonly output?: Payload | 'stored' | undefined;
  /** Of the output. */
  readonly bytes?: number;
  /** As in AttemptEnded. */
  readonly suspected?: boolean;
}

function endAttempt(ctx: StepContext, attempt: Attempt, ending: Ending): void {
  if (apply(ctx, attempt, 'end')) noteEnd(ctx, attempt, ending);
}

/** Records the end, and reports it as soon as it is complete. */
function noteEnd(ctx: StepContext, attempt: Attempt, { outcome, error, ms, output, bytes = 0, suspected = false }: Ending): void {
  invariant(attempt.end === undefined, 'an attempt ends once', { key: attempt.key, outcome });
  const executionMs = ms ?? (attempt.startedAt === undefined ? 0 : ctx.now - attempt.startedAt);
  attempt.deadline = undefined;
  attempt.end = {
    outcome,
    output: output === 'stored' ? undefined : output,
    error,
    executionMs: Math.max(0, Math.round(executionMs)),
    at: ctx.now,
    bytes,
    storing: output === 'stored',
    suspected: suspected && attempt.startedAt !== undefined,
  };
  reportEndWhenComplete(ctx, attempt);
}

/** The end follows the last chunk, and both follow their large bodies. */
function reportEndWhenComplete(ctx: StepContext, attempt: Attempt): void {
  const { end, chunks } = attempt;
  if (end === undefined || end.storing || (chunks !== undefined && isStoring(chunks))) return;
  // Held back while the session was congested.
  if (chunks !== undefined) sendChunks(ctx, attempt, chunks);
  apply(ctx, attempt, 'stored');
  if (ctx.state.online) ctx.emit(reportEnded(attempt, end, ctx.now));
}

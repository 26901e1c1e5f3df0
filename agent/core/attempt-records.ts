/** The attempts in the state. Only this module creates an attempt, changes its phase or removes it. */
import { invariant, present } from '../../lib/invariant.ts';
import type { Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import { holdsSlot, phaseAfter, type AttemptEvent } from './attempt-transitions.ts';
import type { StepContext } from './context.ts';
import { attemptKey, type Attempt } from './state.ts';
import { endIfFree } from './workers.ts';

/** Adds the attempt of a lease; it holds a slot of its worker from now on. */
export function addAttempt(ctx: StepContext, dispatch: Dispatch): Attempt {
  const { jobId, token, workerId, executionTimeoutMs } = dispatch;
  const key = attemptKey(jobId, token);
  const worker = present(ctx.state.workers.get(workerId), 'an attempt is accepted for a worker of the node', { key, worker: workerId });
  invariant(!ctx.state.attempts.has(key), 'an attempt is added once', { key });
  const attempt: Attempt = {
    key,
    jobId,
    token,
    workerId,
    // Empty in the releases of schedulers without accounts.
    accountId: worker.release.accountId ?? '',
    start: undefined,
    executionTimeoutMs,
    phase: 'fetching',
    dispatch,
    stop: undefined,
    startedAt: undefined,
    deadline: undefined,
    chunks: undefined,
    progress: undefined,
    progressAfter: undefined,
    progressWaits: false,
    end: undefined,
  };
  ctx.state.attempts.set(key, attempt);
  ctx.state.newest.set(jobId, key);
  worker.attempts.add(key);
  return attempt;
}

/**
 * Applies an event: moves the attempt to the phase given by the table, frees its slot if that phase holds none, and
 * removes the attempt if it is gone. Returns false, without any change, when the table forbids the event.
 */
export function apply(ctx: StepContext, attempt: Attempt, event: AttemptEvent): boolean {
  const phase = phaseAfter(attempt.phase, event);
  if (phase === null) return false;
  (attempt as { phase: Attempt['phase'] }).phase = phase;
  if (!holdsSlot(phase)) freeSlot(ctx, attempt);
  if (phase === 'gone') remove(ctx, attempt);
  return true;
}

function freeSlot(ctx: StepContext, attempt: Attempt): void {
  // The slot was free before where the attempt waits for its stored output or its acknowledgement: the worker may be gone since.
  const worker = ctx.state.workers.get(attempt.workerId);
  if (worker === undefined || !worker.attempts.delete(attempt.key)) return;
  endIfFree(ctx, worker);
}

function remove(ctx: StepContext, { key, jobId }: Attempt): void {
  const wasHeld = ctx.state.attempts.delete(key);
  invariant(wasHeld, 'an attempt is removed once', { key });
  if (ctx.state.newest.get(jobId) === key) ctx.state.newest.delete(jobId);
  ctx.emit({ kind: 'forget', key });
}

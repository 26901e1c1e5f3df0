/** Builds the agent's reports to the scheduler from the state. */
import { present } from '../../lib/invariant.ts';
import { toPayloadMessage } from '../../lib/payload.ts';
import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import type { ActualWorkers, AgentEvent, AttemptRef, AttemptEnded, RefusalReason, WorkerStatus } from '../../proto/gen/capstan/v1/nodes.ts';
import { deviceProblemOf } from './devices.ts';
import type { Effect } from './events.ts';
import type { Attempt, AttemptEnd, State, Worker } from './state.ts';

/** A worker with this many consecutive failures is reported as in a crash loop. */
export const CRASH_LOOP_FAILURES = 3;

/** The complete actual set (WorkerStatus of nodes.proto). */
export function actualWorkers(state: State): ActualWorkers {
  return { epoch: state.epoch, workers: [...state.workers.values()].map((worker) => workerStatus(state, worker)) };
}

/** Every attempt held, for Hello. */
export function attemptRefs(state: State, now: number): AttemptRef[] {
  return [...state.attempts.values()].map((attempt) => ({
    jobId: attempt.jobId,
    token: attempt.token,
    workerId: attempt.workerId,
    started: attempt.startedAt !== undefined,
    startedAgoMs: attempt.startedAt === undefined ? 0 : age(attempt.startedAt, now),
  }));
}

export function reportStarted(attempt: Attempt, now: number): Effect {
  return report({
    $case: 'started',
    value: {
      jobId: attempt.jobId,
      token: attempt.token,
      agoMs: age(present(attempt.startedAt, 'a start that is reported took place', { key: attempt.key }), now),
    },
  });
}

export function reportRefused(jobId: string, token: number, reason: RefusalReason, detail: string): Effect {
  return report({ $case: 'refused', value: { jobId, token, reason, detail } });
}

export function reportEnded(attempt: Attempt, end: AttemptEnd, now: number): Effect {
  const value: AttemptEnded = {
    jobId: attempt.jobId,
    token: attempt.token,
    outcome: end.outcome,
    output: end.output === undefined ? undefined : toPayloadMessage(end.output),
    error: end.error,
    executionMs: end.executionMs,
    agoMs: age(end.at, now),
    started: attempt.startedAt !== undefined,
    chunks: attempt.chunks?.total ?? 0,
    slotHeld: attempt.phase === 'lingering',
    suspected: end.suspected,
  };
  return report({ $case: 'ended', value });
}

export function report(event: NonNullable<AgentEvent['event']>): Effect {
  return { kind: 'report', event: { event } };
}

function workerStatus(state: State, worker: Worker): WorkerStatus {
  const problem = worker.draining ? undefined : deviceProblemOf(state, worker);
  return {
    workerId: worker.id,
    endpointId: worker.release.endpointId,
    releaseId: worker.releaseId,
    state: problem === undefined ? workerState(worker) : WorkerState.UNHEALTHY,
    reason: problem === undefined ? worker.reason : 'DEVICE_PROBLEM',
    detail: problem ?? (worker.waitingFor === '' || worker.failures >= CRASH_LOOP_FAILURES ? worker.detail : worker.waitingFor),
    failures: worker.failures,
    deviceUuids: [...worker.deviceUuids],
    artifactMs: worker.artifactMs,
    startedMs: worker.startedMs,
    loadedMs: worker.loadedMs,
    slots: worker.slots,
  };
}

function workerState(worker: Worker): WorkerState {
  if (worker.draining || worker.phase === 'ending') return WorkerState.DRAINING;
  switch (worker.phase) {
    case 'ready':
      return worker.attempts.size > 0 || worker.busy ? WorkerState.RUNNING : WorkerState.IDLE;
    case 'backoff':
      return WorkerState.UNHEALTHY;
    // Another worker still holds its devices: it is held back, not starting.
    case 'waiting':
      return WorkerState.THROTTLED;
    default:
      // A crash loop stays visible during the next start.
      return worker.failures >= CRASH_LOOP_FAILURES ? WorkerState.UNHEALTHY : WorkerState.INITIALIZING;
  }
}

function age(since: number, now: number): number {
  return Math.max(0, Math.round(now - since));
}

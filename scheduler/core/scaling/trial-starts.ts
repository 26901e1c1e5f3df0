/**
 * Starts on trial: a caller, such as `capstan deploy`, waits for the first worker of an endpoint's release, whatever its load. Until
 * then the endpoint has one more that waits, so that a worker is requested, and kept until the caller has seen it. The caller repeats
 * the request while it waits; nothing is stored.
 */
import { endpointNotFound } from '../../../lib/job-errors.ts';
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { StartPhase } from '../../../proto/gen/capstan/v1/control.ts';

import type { StepContext } from '../context.ts';
import { explainRejections } from '../state/rejections.ts';
import { unservable } from '../fleet/unservable.ts';
import { isReady } from '../jobs/slots.ts';
import type { Now } from '../now.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import { listedWorkers, nodeOfWorker } from '../references.ts';
import { inCrashLoop } from '../endpoints/crash-loops.ts';

/** How long one request holds, ms. */
export const TRIAL_MS = 15_000;

/** An agent that restarts is back before, ms. */
const ABSENCE_MS = 3_000;

export interface StartProgress {
  readonly stage: StartPhase;
  readonly detail: string;
  readonly workerId: string;
  /** Name. */
  readonly node: string;
  /** Consecutive failed starts of the release. */
  readonly failures: number;
  readonly lastError: string;
}

/** Handles the request for a first worker. */
export function startWorker(ctx: StepContext, call: number, id: string): void {
  const endpoint = ctx.state.endpoints.get(id);
  if (endpoint === undefined || endpoint.config.removing !== undefined) {
    ctx.reply(call, endpointNotFound(id));
    return;
  }
  endpoint.trialUntil = ctx.now.mono + TRIAL_MS;
  ctx.state.dirtyEndpoints.add(id);
  ctx.reply(call, { kind: 'done' });
}

/** Whether a caller waits for a worker of the release, and none is ready. */
export function onTrial(state: Pick<State, 'workers'>, endpoint: EndpointRecord, now: Now): boolean {
  if (endpoint.trialUntil <= now.mono) return false;
  return !workersOf(state, endpoint).some(isReady);
}

/** Returns how far the start of a worker of the release is. */
export function startProgress(state: State, endpoint: EndpointRecord, now: Now): StartProgress {
  const { failures, lastError } = endpoint.starts;
  const workers = workersOf(state, endpoint);
  const progress = (stage: StartPhase, detail: string, worker?: WorkerRecord): StartProgress => {
    const node = worker === undefined ? '' : nodeOfWorker(state, worker).config.name;
    return { stage, detail, workerId: worker?.id ?? '', node, failures, lastError };
  };
  if (endpoint.config.workersMax === 0) return progress(StartPhase.PAUSED, 'workersMax is 0');
  const ready = workers.find(isReady);
  if (ready !== undefined) return progress(StartPhase.READY, '', ready);
  const [worker] = workers;
  if (inCrashLoop(endpoint)) return progress(StartPhase.CRASH_LOOP, lastError, worker);
  if (worker === undefined) {
    const reason = unservable(state, endpoint, now, ABSENCE_MS);
    if (reason !== null) return progress(StartPhase.NO_NODE, `${reason.reason}: ${reason.detail}`);
    return progress(StartPhase.PLACING, endpoint.unplaced.count === 0 ? '' : explainRejections(endpoint.rejections));
  }
  const { status } = worker;
  const detail = status?.detail ?? '';
  const isPreparing = status !== null && (status.reason === 'IMAGE_PULL' || status.reason === 'ARTIFACT');
  if (status?.state === WorkerState.THROTTLED) return progress(StartPhase.PLACING, detail, worker);
  if (!isPreparing) return progress(StartPhase.STARTING, detail, worker);
  const what = status.reason === 'IMAGE_PULL' ? 'image' : 'build';
  return progress(StartPhase.PREPARING, detail === '' ? what : `${what}: ${detail}`, worker);
}

/** Returns those of the present release that stay. */
function workersOf(state: Pick<State, 'workers'>, { workers, config }: EndpointRecord): WorkerRecord[] {
  return listedWorkers(state, workers).filter(({ drain, release }) => !drain && release === config.release);
}

/** Why a queued job waits (invariant 11): one code, and the details for users. */
import { NO_NODE } from '../../../lib/job-errors.ts';
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';

import { inCrashLoop } from '../endpoints/crash-loops.ts';
import { explainMissing, missingSecrets } from '../endpoints/secret-use.ts';
import { mayOvertake } from './dispatch.ts';
import { hasRoom, isReady } from './slots.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { listedWorkers, nodeOfWorker } from '../references.ts';
import type { Now } from '../now.ts';
import { explainRejections } from '../state/rejections.ts';

/** Codes of `queueReason`. */
export type QueueReason =
  | ''
  /** workersMax is 0. */
  | 'PAUSED'
  /** No node is connected, or none can take a worker. */
  | 'NO_CAPACITY'
  | 'WORKER_INITIALIZING'
  | 'IMAGE_PULL'
  | 'CRASH_LOOP'
  | 'THROTTLED'
  /** A secret that the environment of its workers refers to does not exist. */
  | 'SECRET_MISSING'
  /** Every slot is taken, and the endpoint may not have more workers or the scaler has not requested more yet. */
  | 'WORKERS_BUSY'
  /** lowPriority jobs do not start workers. */
  | 'LOW_PRIORITY';

export interface Explanation {
  readonly reason: QueueReason;
  readonly detail: string;
}

/** Returns the reason for the head of an endpoint's queue. */
export function queueReason(state: State, endpoint: EndpointRecord, now: Now): Explanation {
  if (endpoint.config.workersMax === 0) return { reason: 'PAUSED', detail: 'workersMax is 0' };
  const workers = listedWorkers(state, endpoint.workers);
  const sick = workers.find((worker) => !worker.drain && worker.status?.state === WorkerState.UNHEALTHY);
  if (workers.some((worker) => isReady(worker) && nodeOfWorker(state, worker).session !== null)) {
    const isApart = mayOvertake(state, endpoint);
    if (workers.some((worker) => isReady(worker) && hasRoom(worker, now, isApart))) return { reason: '', detail: '' };
    const lacks = isApart ? 'no empty one for a job that runs alone' : 'no free slot';
    return { reason: 'WORKERS_BUSY', detail: `${workers.length} workers, ${lacks}` };
  }
  const missing = missingSecrets(state, endpoint);
  if (missing.length > 0) return { reason: 'SECRET_MISSING', detail: explainMissing(missing) };
  if (inCrashLoop(endpoint)) {
    const { failures, lastError } = endpoint.starts;
    return { reason: 'CRASH_LOOP', detail: `${failures} consecutive starts failed; last error: ${lastError}` };
  }
  if (sick?.status != null) return { reason: 'CRASH_LOOP', detail: `worker ${sick.id}: ${sick.status.reason}: ${sick.status.detail}` };
  const throttled = workers.find((worker) => worker.status?.state === WorkerState.THROTTLED);
  if (throttled !== undefined) return { reason: 'THROTTLED', detail: `worker ${throttled.id}: ${throttled.status?.detail ?? ''}` };
  const starting = workers.find((worker) => !worker.drain && nodeOfWorker(state, worker).session !== null);
  if (starting !== undefined) {
    const pulling = starting.status?.reason === 'IMAGE_PULL';
    const waitsFor = starting.status?.detail ?? '';
    const detail = `worker ${starting.id} is starting${waitsFor === '' ? '' : `: ${waitsFor}`}`;
    return { reason: pulling ? 'IMAGE_PULL' : 'WORKER_INITIALIZING', detail };
  }
  if (endpoint.rejections.length > 0 || state.nodes.size === 0 || workers.length > 0) {
    const rejections = explainRejections(endpoint.rejections) || NO_NODE;
    const detail = endpoint.claims.length === 0 ? rejections : `${rejections}; other workers end to make room`;
    return { reason: 'NO_CAPACITY', detail };
  }
  if (endpoint.lanes[0].count === 0) return { reason: 'LOW_PRIORITY', detail: 'lowPriority jobs do not start workers' };
  return { reason: 'WORKER_INITIALIZING', detail: 'requesting a worker' };
}

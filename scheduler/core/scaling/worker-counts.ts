/**
 * Counts an endpoint's workers by activity, for /health and the metrics. Throttled are the workers that the scaler
 * wants but no node can take, and those that wait on their node for a device. While starts fail repeatedly, starting
 * workers count as unhealthy.
 */
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { inCrashLoop } from '../endpoints/crash-loops.ts';
import { isReady } from '../jobs/slots.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';

export type WorkerCounts = Record<'idle' | 'running' | 'initializing' | 'throttled' | 'unhealthy', number>;

export function workerCounts(state: State, endpoint: EndpointRecord): WorkerCounts {
  const counts: WorkerCounts = { idle: 0, running: 0, initializing: 0, throttled: 0, unhealthy: 0 };
  for (const id of endpoint.workers) {
    const worker = state.workers.get(id);
    if (worker === undefined) continue;
    if (worker.attempts.size > 0) counts.running++;
    else if (isReady(worker)) counts.idle++;
    else if (worker.drain) continue;
    else if (worker.status?.state === WorkerState.THROTTLED) counts.throttled++;
    else if (worker.status?.state === WorkerState.UNHEALTHY) counts.unhealthy++;
    else if (inCrashLoop(endpoint)) counts.unhealthy++;
    else counts.initializing++;
  }
  counts[inCrashLoop(endpoint) ? 'unhealthy' : 'throttled'] += endpoint.unplaced.count;
  return counts;
}

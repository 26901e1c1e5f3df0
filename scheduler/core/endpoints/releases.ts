/** What a change of an endpoint's release leaves to its workers. The rules of a rollout: scheduler/core/scaling/rollout.ts. */
import type { Now } from '../now.ts';
import { listedWorker } from '../references.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';

/** Whether a worker of an old release may still get the job at this position. */
export function mayUseOldRelease(endpoint: EndpointRecord, worker: WorkerRecord, queuePosition: number): boolean {
  return worker.release === endpoint.config.previousRelease && queuePosition < endpoint.config.releaseFrom;
}

/**
 * Workers of the endpoint are about to leave for a reason other than the load: requests as many again as stay now.
 * Unused ones end by the idle timeout.
 */
export function keepCapacity(state: State, now: Now, endpoint: EndpointRecord, reason: string): void {
  let count = 0;
  for (const id of endpoint.workers) if (!listedWorker(state, id).drain) count++;
  if (count === 0) return;
  const until = now.mono + endpoint.config.idleTimeoutS * 1_000;
  endpoint.replace = { count: Math.max(count, endpoint.replace?.count ?? 0), until, reason };
  state.dirtyEndpoints.add(endpoint.config.id);
}

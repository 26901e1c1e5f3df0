/**
 * The rollout from one release of an endpoint to the next. The rules:
 *
 *   - A job submitted after a deployment runs on that deployment's release, or a later one.
 *   - A job that was queued before may still run on a worker of the previous release, as long as no worker of the new
 *     one is ready. From then on old workers get no jobs.
 *   - As many new workers are requested at once as there were old ones (up to workersMax), while the old ones continue.
 *     If there is no place for a new worker, an old one is drained first, one at a time.
 *   - An old worker that can get no more jobs is drained: it finishes its work.
 *   - Requests of load-balanced endpoints have no queue to wait in without cost: old workers serve them until the first
 *     new one is ready.
 *
 * The boundary is a position in the queue, stored with the endpoint's settings, so a restart of the scheduler does not
 * change it.
 */
import type { StepContext } from '../context.ts';
import { first } from '../jobs/lanes.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import { listedWorker } from '../references.ts';
import type { Now } from '../now.ts';
import { drainWorker } from '../fleet/workers.ts';

/** Drains the old workers that can get no more jobs. */
export function retireOld({ state, now }: StepContext, endpoint: EndpointRecord, old: readonly WorkerRecord[], freshReady: boolean): void {
  const { previousRelease, releaseFrom, release } = endpoint.config;
  const owed =
    endpoint.config.kind === 'LOAD_BALANCED' ||
    endpoint.lanes.some((lane) => {
      const head = first(lane);
      return head === null ? lane.count > 0 : head.queuePosition < releaseFrom;
    });
  for (const worker of old) {
    if (worker.release === previousRelease && owed && !freshReady) continue;
    drainWorker(state, now, worker, `replaced by release ${release}`);
  }
}

/** Drains an old worker to make room for a new one; one at a time. */
export function makeRoom(state: State, now: Now, endpoint: EndpointRecord): void {
  let leaving: WorkerRecord | null = null;
  for (const id of endpoint.workers) {
    const worker = listedWorker(state, id);
    if (worker.release === endpoint.config.release) continue;
    if (worker.drain) return;
    if (leaving === null || worker.attempts.size < leaving.attempts.size) leaving = worker;
  }
  if (leaving !== null) drainWorker(state, now, leaving, `replaced by release ${endpoint.config.release}`);
}

/**
 * The load of load-balanced endpoints. Their requests pass by the scheduler: gateways report how
 * many they hold and how many are with workers, as levels that end with the gateway's session.
 */
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import type { EndpointLevel } from '../../../proto/gen/capstan/v1/invoke.ts';

import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import type { Now } from '../now.ts';

/** What the scalers count of an endpoint, whichever kind it is. */
export interface Load {
  readonly waiting: number;
  readonly running: number;
  readonly oldestWaitMs: number;
}

/** A gateway tells the levels that changed. */
export function levelsReported(state: State, now: Now, gateway: number, levels: readonly EndpointLevel[]): void {
  for (const { endpointId, held, inFlight, oldestHeldMs } of levels) {
    const endpoint = state.endpoints.get(endpointId);
    if (endpoint === undefined) continue;
    if (held + inFlight === 0) endpoint.requests.delete(gateway);
    else endpoint.requests.set(gateway, { held, inFlight, heldSince: now.mono - oldestHeldMs });
    state.dirtyEndpoints.add(endpointId);
  }
}

/** Its session ended: its requests are not known any more. */
export function gatewayClosed(state: State, gateway: number): void {
  for (const endpoint of state.endpoints.values()) {
    if (endpoint.requests.delete(gateway)) state.dirtyEndpoints.add(endpoint.config.id);
  }
}

/** The requests of an endpoint at all gateways. */
export function requestLoad(endpoint: EndpointRecord, now: Now): Load {
  let waiting = 0;
  let running = 0;
  let since = now.mono;
  for (const { held, inFlight, heldSince } of endpoint.requests.values()) {
    waiting += held;
    running += inFlight;
    if (held > 0) since = Math.min(since, heldSince);
  }
  return { waiting, running, oldestWaitMs: now.mono - since };
}

/** True for a worker with no request; its agent says so, and leaves out pauses of a moment. */
export function isWithoutRequests(worker: WorkerRecord): boolean {
  return worker.status === null || worker.status.state !== WorkerState.RUNNING;
}

/**
 * The load of load-balanced endpoints. Their requests bypass the scheduler: gateways report the number of held requests
 * and of requests at workers, as levels that end with the gateway's session.
 */
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import type { EndpointLevel } from '../../../proto/gen/capstan/v1/invoke.ts';

import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import type { Now } from '../now.ts';

/** The figures that the scalers read, for endpoints of both kinds. */
export interface Load {
  readonly waiting: number;
  readonly running: number;
  readonly oldestWaitMs: number;
}

/** Handles a gateway's report of changed levels. */
export function levelsReported(state: State, now: Now, gateway: number, levels: readonly EndpointLevel[]): void {
  for (const { endpointId, held, inFlight, oldestHeldMs } of levels) {
    const endpoint = state.endpoints.get(endpointId);
    if (endpoint === undefined) continue;
    if (held + inFlight === 0) endpoint.requests.delete(gateway);
    else endpoint.requests.set(gateway, { held, inFlight, heldSince: now.mono - oldestHeldMs });
    state.dirtyEndpoints.add(endpointId);
  }
}

/** Handles the end of a gateway's session: its requests are no longer known. */
export function gatewayClosed(state: State, gateway: number): void {
  for (const endpoint of state.endpoints.values()) {
    if (endpoint.requests.delete(gateway)) state.dirtyEndpoints.add(endpoint.config.id);
  }
}

/** Returns the requests of an endpoint at all gateways. */
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

/** Whether a worker has no request. Its agent reports this, and ignores short pauses. */
export function isWithoutRequests(worker: WorkerRecord): boolean {
  return worker.status === null || worker.status.state !== WorkerState.RUNNING;
}

/** The load of an endpoint, as the scalers read it: its jobs of normal priority, or its requests. */
import { first } from '../jobs/lanes.ts';
import type { Now } from '../now.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { requestLoad, type Load } from './scaling-requests.ts';
import { onTrial } from './trial-starts.ts';

/**
 * Returns the waiting and running load: requests of a load-balanced endpoint, otherwise the normal jobs. A caller that waits for the
 * first worker of a release counts as one that waits.
 */
export function loadOf(state: Pick<State, 'workers'>, endpoint: EndpointRecord, now: Now): Load {
  const load = workOf(endpoint, now);
  return load.waiting === 0 && onTrial(state, endpoint, now) ? { ...load, waiting: 1 } : load;
}

function workOf(endpoint: EndpointRecord, now: Now): Load {
  if (endpoint.config.kind === 'LOAD_BALANCED') return requestLoad(endpoint, now);
  const normal = endpoint.lanes[0];
  const head = first(normal);
  const running = endpoint.counts.inProgress - endpoint.counts.inProgressLow;
  return { waiting: normal.count, running, oldestWaitMs: head === null ? 0 : now.wall - head.submittedAt };
}

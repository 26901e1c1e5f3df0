/** What pages show of endpoints all the time: counts that are at hand. */
import type { EndpointActivity } from '../../proto/gen/capstan/v1/control.ts';
import { liveEndpoints, type State } from '../core/state.ts';
import { rowKey } from '../core/state/control-rows.ts';
import type { Reader } from './auth.ts';
import { workerCounts } from '../core/scaling/worker-counts.ts';

export function activity(state: State, { account, sees }: Reader): EndpointActivity[] {
  return liveEndpoints(state, account)
    .filter(({ config }) => sees(config))
    .map((endpoint) => {
      const { config, lanes, counts, tallies } = endpoint;
      const workers = workerCounts(state, endpoint);
      return {
        endpointId: config.id,
        version: BigInt(state.versions.get(rowKey('endpoint', config.id)) ?? 0),
        inQueue: lanes[0].count + lanes[1].count,
        inProgress: counts.inProgress,
        submitted: BigInt(tallies.submitted),
        completed: BigInt(counts.completed),
        failed: BigInt(counts.failed),
        workersIdle: workers.idle,
        workersRunning: workers.running,
        workersInitializing: workers.initializing,
        workersThrottled: workers.throttled,
        workersUnhealthy: workers.unhealthy,
      };
    });
}

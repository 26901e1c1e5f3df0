/** An endpoint as `capstan endpoints get` prints it. */
import { listEndpoints } from './control.ts';
import type { EndpointRow } from './endpoint-row.ts';
import { findEndpoint } from './find-endpoint.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { GET_ENDPOINT, type GetEndpointResult } from '../../client/graphql/gen/operations.ts';
import { shownSettings, type ShownSettings } from './shown-settings.ts';
import { workerOf, type WorkerRow } from './workers.ts';

type Scaling = NonNullable<NonNullable<GetEndpointResult['endpoint']>['scaling']>;

export interface EndpointDetail extends EndpointRow {
  readonly settings: ShownSettings;
  /** Number of workers by state. */
  readonly workerCounts: Readonly<Record<string, number>>;
  readonly workerList: readonly WorkerRow[];
  /** Reasons why no node could take the last requested worker. */
  readonly rejections: Scaling['rejections'];
  /** Consecutive failed starts. */
  readonly failedStarts: number;
  readonly lastStartError: string;
  /** Oldest first. */
  readonly decisions: readonly (Omit<Scaling['decisions'][number], 'worker' | 'node'> & {
    readonly worker: string;
    readonly node: string;
  })[];
}

/** Gets an endpoint by id or name; a null environment means all. Returns null when it was deleted meanwhile. */
export async function getEndpoint(client: GatewayClient, environment: string | null, wanted: string): Promise<EndpointDetail | null> {
  const row = findEndpoint(await listEndpoints(client, environment), wanted);
  const { endpoint } = await client.query(GET_ENDPOINT, { id: row.id });
  if (endpoint?.scaling == null) return null;
  const { counts, workers, rejections, decisions, failedStarts, lastStartError } = endpoint.scaling;
  return {
    ...row,
    settings: shownSettings(endpoint.settings),
    workerCounts: counts,
    workerList: workers.map((worker) => workerOf(worker, new Map([[row.id, row.name]]))),
    rejections,
    decisions: decisions.map((decision) => ({ ...decision, worker: decision.worker ?? '', node: decision.node ?? '' })),
    failedStarts,
    lastStartError: lastStartError ?? '',
  };
}

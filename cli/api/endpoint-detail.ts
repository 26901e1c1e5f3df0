/** An endpoint as `capstan endpoints get` prints it. */
import { listEndpoints } from './control.ts';
import type { EndpointRow } from './endpoint-row.ts';
import { findEndpoint } from './find-endpoint.ts';
import type { GatewayClient } from './gateway-client.ts';
import { SETTINGS_SELECTION, type ShownSettings } from './shown-settings.ts';
import { WORKER, workerOf, type WorkerData, type WorkerRow } from './workers.ts';

export interface EndpointDetail extends EndpointRow {
  readonly settings: ShownSettings;
  /** Number of workers by state. */
  readonly workerCounts: Readonly<Record<string, number>>;
  readonly workerList: readonly WorkerRow[];
  /** Reasons why no node could take the last requested worker. */
  readonly rejections: readonly {
    readonly reason: string;
    readonly nodes: number;
    readonly examples: readonly { readonly node: string; readonly detail: string }[];
  }[];
  /** Consecutive failed starts. */
  readonly failedStarts: number;
  readonly lastStartError: string;
  /** Oldest first. */
  readonly decisions: readonly {
    /** ISO 8601. */
    readonly at: string;
    readonly kind: string;
    readonly worker: string;
    readonly node: string;
    readonly reason: string;
  }[];
}

const DETAIL = `settings { ${SETTINGS_SELECTION} }
  scaling { counts workers { ${WORKER} } rejections { reason nodes examples { node detail } } decisions { at kind worker node reason }
    failedStarts lastStartError }`;

type Decision = EndpointDetail['decisions'][number];
interface DetailData {
  readonly settings: EndpointDetail['settings'];
  readonly scaling: {
    readonly counts: EndpointDetail['workerCounts'];
    readonly workers: readonly WorkerData[];
    readonly rejections: EndpointDetail['rejections'];
    readonly decisions: readonly (Omit<Decision, 'worker' | 'node'> & { readonly worker: string | null; readonly node: string | null })[];
    readonly failedStarts: number;
    readonly lastStartError: string | null;
  };
}

/** Gets an endpoint by id or name; a null environment means all. Returns null when it was deleted meanwhile. */
export async function getEndpoint(client: GatewayClient, environment: string | null, wanted: string): Promise<EndpointDetail | null> {
  const row = findEndpoint(await listEndpoints(client, environment), wanted);
  const query = `query ($id: ID!) { endpoint(id: $id) { ${DETAIL} } }`;
  const { endpoint } = await client.query<{ endpoint: DetailData | null }>(query, { id: row.id });
  if (endpoint === null) return null;
  const { counts, workers, rejections, decisions, failedStarts, lastStartError } = endpoint.scaling;
  return {
    ...row,
    settings: endpoint.settings,
    workerCounts: counts,
    workerList: workers.map((worker) => workerOf(worker, new Map([[row.id, row.name]]))),
    rejections,
    decisions: decisions.map((decision) => ({ ...decision, worker: decision.worker ?? '', node: decision.node ?? '' })),
    failedStarts,
    lastStartError: lastStartError ?? '',
  };
}

/** Workers, as the gateway returns them. */
import { listEndpoints } from './control.ts';
import { findEndpoint } from './find-endpoint.ts';
import type { GatewayClient } from './gateway-client.ts';

export interface WorkerRow {
  readonly id: string;
  readonly endpointId: string;
  /** Name of the endpoint. */
  readonly endpoint: string;
  /** State of the worker: `IDLE`, `RUNNING`, … */
  readonly state: string;
  readonly reason: string;
  readonly detail: string;
  readonly jobs: number;
  readonly maxConcurrency: number;
  readonly nodeId: string;
  readonly decision: string;
  readonly devices: readonly string[];
  readonly releaseId: string;
  readonly runtime: string;
  /** Consecutive failed starts. */
  readonly failures: number;
  /** Phases of the last start, ms since the scheduler requested it; 0 when not reached. */
  readonly start: { readonly artifactMs: number; readonly startedMs: number; readonly loadedMs: number };
}

/** Fields of a worker in a query. */
export const WORKER = `id endpointId: endpoint state reason detail jobs maxConcurrency nodeId: node decision devices releaseId: release
  runtime failures start { artifactMs startedMs loadedMs }`;

export type WorkerData = Omit<WorkerRow, 'endpoint' | 'reason' | 'detail'> & {
  readonly reason: string | null;
  readonly detail: string | null;
};

/** Lists the workers of one endpoint, by id or name, of the endpoints of one environment, or of all. */
export async function listWorkers(
  client: GatewayClient,
  { endpoint, environment }: { readonly endpoint: string | undefined; readonly environment: string | undefined },
): Promise<WorkerRow[]> {
  const known = await listEndpoints(client, environment ?? null);
  const id = endpoint === undefined ? null : findEndpoint(known, endpoint).id;
  const names = new Map(known.map((each) => [each.id, each.name]));
  const query = `query ($id: ID) { workers(endpoint: $id) { ${WORKER} } }`;
  const { workers } = await client.query<{ workers: WorkerData[] }>(query, { id });
  const wanted = environment === undefined ? workers : workers.filter(({ endpointId }) => names.has(endpointId));
  return wanted.map((worker) => workerOf(worker, names));
}

/** `names`: names of the endpoints by id. */
export function workerOf(worker: WorkerData, names: ReadonlyMap<string, string>): WorkerRow {
  const { endpointId, reason, detail } = worker;
  return { ...worker, endpoint: names.get(endpointId) ?? endpointId, reason: reason ?? '', detail: detail ?? '' };
}

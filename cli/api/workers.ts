/** Workers, as the gateway returns them. */
import { listEndpoints } from './control.ts';
import { findEndpoint } from './find-endpoint.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { LIST_WORKERS, type WorkerFields } from '../../client/graphql/gen/operations.ts';

/** A worker as the tool prints it, with the name of its endpoint: no reason is an empty text. */
export type WorkerRow = Omit<WorkerFields, 'reason' | 'detail'> & {
  readonly endpoint: string;
  readonly reason: string;
  readonly detail: string;
};

/** Lists the workers of one endpoint, by id or name, of the endpoints of one environment, or of all. */
export async function listWorkers(
  client: GatewayClient,
  { endpoint, environment }: { readonly endpoint: string | undefined; readonly environment: string | undefined },
): Promise<WorkerRow[]> {
  const known = await listEndpoints(client, environment ?? null);
  const id = endpoint === undefined ? null : findEndpoint(known, endpoint).id;
  const names = new Map(known.map((each) => [each.id, each.name]));
  const { workers } = await client.query(LIST_WORKERS, { endpoint: id });
  const wanted = environment === undefined ? workers : workers.filter(({ endpointId }) => names.has(endpointId));
  return wanted.map((worker) => workerOf(worker, names));
}

/** `names`: names of the endpoints by id. */
export function workerOf(worker: WorkerFields, names: ReadonlyMap<string, string>): WorkerRow {
  const { endpointId, reason, detail } = worker;
  return { ...worker, endpoint: names.get(endpointId) ?? endpointId, reason: reason ?? '', detail: detail ?? '' };
}

/** Starts the first worker of an endpoint's release, and says how far it is. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import { START_WORKER, type StartPhase, type WorkerStart } from '../../client/graphql/gen/operations.ts';

export type { StartPhase, WorkerStart };

/** The request holds for 15 s: repeat it while you wait. */
export async function startWorker(client: GatewayClient, endpoint: string): Promise<WorkerStart> {
  return (await client.query(START_WORKER, { endpoint })).startWorker;
}

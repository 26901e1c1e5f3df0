/** Starts the first worker of an endpoint's release, and says how far it is. */
import type { GatewayClient } from './gateway-client.ts';

export type StartPhase = 'PAUSED' | 'PLACING' | 'NO_NODE' | 'PREPARING' | 'STARTING' | 'READY' | 'CRASH_LOOP';

export interface WorkerStart {
  readonly phase: StartPhase;
  readonly detail: string | null;
  readonly worker: string | null;
  /** Name of its node. */
  readonly node: string | null;
  readonly release: string;
  /** Consecutive failed starts of the release. */
  readonly failures: number;
  readonly lastError: string | null;
}

/** The request holds for 15 s: repeat it while you wait. */
export async function startWorker(client: GatewayClient, endpoint: string): Promise<WorkerStart> {
  const query = `mutation ($endpoint: ID!) { startWorker(endpoint: $endpoint) { phase detail worker node release failures lastError } }`;
  return (await client.query<{ startWorker: WorkerStart }>(query, { endpoint })).startWorker;
}

/** Operations on many jobs of an endpoint, which the scheduler carries out. */
import { setTimeout } from 'node:timers/promises';

import { CapstanError } from '../../lib/errors.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { LIST_BULK_OPERATIONS, RETRY_FAILED } from '../../client/graphql/gen/operations.ts';

/** Interval at which the progress is read, ms. */
const POLL_MS = 500;

/** Runs every FAILED and TIMED_OUT job of an endpoint again; resolves when all are queued. */
export async function retryFailed(client: GatewayClient, endpoint: string): Promise<{ readonly changed: number }> {
  let { operation } = await client.query(RETRY_FAILED, { endpoint });
  while (operation.state === 'RUNNING') {
    await setTimeout(POLL_MS);
    const { bulkOperations } = await client.query(LIST_BULK_OPERATIONS, { endpoint });
    const { id } = operation;
    const found = bulkOperations.find((each) => each.id === id);
    if (found === undefined) throw new CapstanError('UNAVAILABLE', 'the scheduler that retried the jobs has stopped: repeat the command');
    operation = found;
  }
  if (operation.error !== null) throw new CapstanError('INTERNAL', `the jobs were not all retried: ${operation.error}`);
  return { changed: operation.changed };
}

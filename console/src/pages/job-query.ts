/** What the page of a job shows. */
import { LIST_DELIVERIES, type Delivery, type GetJobResult, type Job, type PastAttempt } from '../api/graphql/gen/operations.ts';
import { graphql } from '../api/request.ts';

export type Answer = GetJobResult;
export type { Delivery, Job, PastAttempt };

export const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

/** Reads the undelivered webhooks of a job: their ids begin with that of the job. */
export async function readDeliveries(job: string, signal: AbortSignal): Promise<readonly Delivery[]> {
  const { webhooks } = await graphql(LIST_DELIVERIES, { after: `${job}_` }, signal);
  return webhooks.webhooks.filter(({ id }) => id.startsWith(`${job}_`));
}

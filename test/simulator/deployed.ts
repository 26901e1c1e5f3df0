/** What is deployed in the simulated world. */
import type { EndpointInput } from '../../scheduler/core/state/endpoints.ts';
import { queueInput } from '../support/endpoint-input.ts';

/** Three queues; the third wants a device for each worker. */
export const deployed: readonly EndpointInput[] = [
  queueOf('one', 4, 1),
  queueOf('many', 2, 4),
  { ...queueOf('gpu', 4, 1), gpuIds: 'ANY', gpuCount: 1 },
];

/** Sum of `workersMax` that the account may have: a little more than is deployed first, so that some changes are refused. */
export const WORKER_QUOTA = 14;

function queueOf(name: string, workersMax: number, maxConcurrency: number): EndpointInput {
  const scalerType = maxConcurrency > 1 ? 'REQUEST_COUNT' : 'QUEUE_DELAY';
  return queueInput(name, { workersMax, idleTimeoutS: 2, maxConcurrency, scalerType, scalerValue: 2 });
}

/** What is deployed in the simulated world. */
import type { EndpointInput } from '../../scheduler/core/state/endpoints.ts';
import { queueInput } from '../support/endpoint-input.ts';

/**
 * Four queues; the last two want one device and two for each worker. Idle workers of the third stay, unless they make room
 * for the fourth.
 */
export const deployed: readonly EndpointInput[] = [
  queueOf('one', 4, 1),
  queueOf('many', 2, 4),
  { ...queueOf('gpu', 4, 1), gpuIds: 'ANY', gpuCount: 1, workersMin: 1, idleTimeoutS: 600, scalerType: 'REQUEST_COUNT', scalerValue: 1 },
  { ...queueOf('wide', 2, 1), gpuIds: 'ANY', gpuCount: 2 },
];

/** Sum of `workersMax` that the account may have: a little more than is deployed first, so that some changes are refused. */
export const WORKER_QUOTA = 16;

function queueOf(name: string, workersMax: number, maxConcurrency: number): EndpointInput {
  const scalerType = maxConcurrency > 1 ? 'REQUEST_COUNT' : 'QUEUE_DELAY';
  return queueInput(name, { workersMax, idleTimeoutS: 2, maxConcurrency, scalerType, scalerValue: 2 });
}

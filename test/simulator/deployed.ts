/** What is deployed in the simulated world. */
import type { EndpointInput } from '../../scheduler/core/image/endpoints.ts';

/** Three queues; the third wants a device for each worker. */
export const deployed: readonly EndpointInput[] = [
  endpointInput('one', 4, 1),
  endpointInput('many', 2, 4),
  { ...endpointInput('gpu', 4, 1), gpuIds: 'ANY', gpuCount: 1 },
];

/** Sum of `workersMax` that the account may have: a little more than is deployed first, so that some changes are refused. */
export const workerQuota = 14;

function endpointInput(name: string, workersMax: number, maxConcurrency: number): EndpointInput {
  return {
    name,
    kind: 'QUEUE',
    imageName: '',
    workersMin: 0,
    workersMax,
    idleTimeoutS: 2,
    gpuIds: '',
    gpuCount: 0,
    cpu: '',
    maxConcurrency,
    executionTimeoutMs: 0,
    scalerType: maxConcurrency > 1 ? 'REQUEST_COUNT' : 'QUEUE_DELAY',
    scalerValue: 2,
    maxAttempts: 0,
    routes: {},
    limits: {},
    requestsPerWorker: null,
    functions: [{ name, module: name, parameters: [], callStyle: 'CALL_STYLE_WHOLE' }],
    runtime: '',
    command: [],
    packages: [],
    python: '',
    envSealed: null,
    envDigest: '',
  };
}

/** An endpoint as a deployment tells the scheduler's core. */
import type { EndpointInput } from '../../scheduler/core/state/endpoints.ts';

/** A queue of one function that is called like it. */
export function queueInput(name: string, more: Partial<EndpointInput> = {}): EndpointInput {
  return {
    name,
    kind: 'QUEUE',
    imageName: '',
    workersMin: 0,
    workersMax: 3,
    idleTimeoutS: 5,
    gpuIds: '',
    gpuCount: 0,
    cpu: '',
    maxConcurrency: 1,
    executionTimeoutMs: 0,
    scalerType: 'QUEUE_DELAY',
    scalerValue: 4,
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
    ...more,
  };
}

/** What a worker's code finds in its environment beyond what its host or image gives. */
import type { WorkerStart } from '../runtime.ts';

/** The release's values, then the worker's own names, which no release can change. Holds secrets. */
export function workerEnv(
  spec: Pick<WorkerStart, 'env' | 'endpointId' | 'workerId' | 'deviceUuids'>,
): Record<string, string> & { readonly CUDA_VISIBLE_DEVICES: string } {
  return {
    ...spec.env,
    CAPSTAN_ENDPOINT_ID: spec.endpointId,
    CAPSTAN_WORKER_ID: spec.workerId,
    CUDA_VISIBLE_DEVICES: spec.deviceUuids.join(','),
  };
}

/** The environment of a worker's code, in addition to that of its host or image. */
import type { WorkerStart } from '../runtime.ts';

/** The release's values, then the worker's own names, which a release cannot override. Contains secrets. */
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

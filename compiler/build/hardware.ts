/** Warns about the hardware that endpoints request. */
import { GpuTable } from '../../lib/gpu-table.ts';
import type { Application } from '../application/application.ts';

/**
 * Returns one sentence for each endpoint that requests a GPU that Capstan does not know. It is a warning, because the
 * service may know more: its operator can add types and groups, and every model of its hosts counts.
 */
export function unknownGpus({ endpoints }: Pick<Application, 'endpoints'>): string[] {
  const table = new GpuTable();
  return endpoints.flatMap(({ spec: { name, gpuIds } }) => {
    const fault = gpuIds === '' ? null : table.fault(gpuIds, []);
    return fault === null ? [] : [`endpoint ${name}: gpu: ${fault}; deploying fails unless the service knows it`];
  });
}

/** What the build can say about the hardware that endpoints ask for. */
import { GpuTable } from '../../lib/gpu-table.ts';
import type { Application } from '../deploy/application.ts';

/**
 * One sentence for each endpoint that asks for a GPU that Capstan does not know. A warning, since the service may know more: its
 * operator can add types and groups, and every model that its hosts have counts.
 */
export function unknownGpus({ endpoints }: Pick<Application, 'endpoints'>): string[] {
  const table = new GpuTable();
  return endpoints.flatMap(({ spec: { name, gpuIds } }) => {
    const fault = gpuIds === '' ? null : table.fault(gpuIds, []);
    return fault === null ? [] : [`endpoint ${name}: gpu: ${fault}; deploying fails unless the service knows it`];
  });
}

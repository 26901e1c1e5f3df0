/** CPU selections, `cpu<gen>-<vCPU>-<RAM GB>`. */
import { settingViolation } from '../../../../lib/endpoint-settings.ts';

/** Resources of a CPU worker. */
export interface CpuSize {
  /** Thousandths of a core. */
  readonly cpuMillis: number;
  readonly memoryBytes: number;
}

const GIBIBYTE = 1024 ** 3;

/** Default of an endpoint that names neither `gpu` nor `cpu`. */
const SMALLEST_CPU = 'cpu3c-1-2';

/**
 * Returns the size of a selection; null if it is invalid. Generations differ in name only, because hosts have the
 * processors they have.
 */
export function cpuSize(selection: string): CpuSize | null {
  if (settingViolation('cpu', selection) !== null) return null;
  const [, cpus, memory] = selection.split('-');
  return { cpuMillis: Number(cpus) * 1_000, memoryBytes: Number(memory) * GIBIBYTE };
}

/**
 * Returns the limits of a worker: those of its CPU selection. A GPU worker has none: its size is its devices, and its
 * use of the host's processor and memory is not limited.
 */
export function workerLimits(release: { readonly gpuIds: string; readonly cpu: string }): CpuSize {
  if (release.gpuIds !== '') return { cpuMillis: 0, memoryBytes: 0 };
  return cpuSize(release.cpu === '' ? SMALLEST_CPU : release.cpu) ?? { cpuMillis: 0, memoryBytes: 0 };
}

/** Resources reserved for a worker on its node. */
export interface Reserve {
  readonly cpuMillis: number;
  readonly memoryBytes: number;
}

/**
 * Returns the reserve of a worker: the full request of its endpoint; a small amount if the endpoint requests nothing,
 * because most such workers use little; nothing for a GPU worker.
 */
export function workerReserve(release: { readonly gpuIds: string; readonly cpu: string }, unsized: Reserve): Reserve {
  if (release.gpuIds !== '') return { cpuMillis: 0, memoryBytes: 0 };
  return release.cpu === '' ? unsized : workerLimits(release);
}

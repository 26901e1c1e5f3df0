/** CPU selections, `cpu<gen>-<vCPU>-<RAM GB>`. */
import { settingViolation } from '../../../../lib/endpoint-settings.ts';

/** What a CPU worker gets. */
export interface CpuSize {
  /** Thousandths of a core. */
  readonly cpuMillis: number;
  readonly memoryBytes: number;
}

const GIBIBYTE = 1024 ** 3;

/** An endpoint that names neither `gpu` nor `cpu` gets this one. */
const SMALLEST_CPU = 'cpu3c-1-2';

/** The size a selection stands for; null when it is none. Generations differ in name only: hosts are what they are. */
export function cpuSize(selection: string): CpuSize | null {
  if (settingViolation('cpu', selection) !== null) return null;
  const [, cpus, memory] = selection.split('-');
  return { cpuMillis: Number(cpus) * 1_000, memoryBytes: Number(memory) * GIBIBYTE };
}

/**
 * Limits of a worker: those of its CPU selection. A GPU worker has none: it is measured by its
 * devices, and what it may use of the host's processor and memory is not limited.
 */
export function workerLimits(release: { readonly gpuIds: string; readonly cpu: string }): CpuSize {
  if (release.gpuIds !== '') return { cpuMillis: 0, memoryBytes: 0 };
  return cpuSize(release.cpu === '' ? SMALLEST_CPU : release.cpu) ?? { cpuMillis: 0, memoryBytes: 0 };
}

/** What is set aside for a worker on its node. */
export interface Reserve {
  readonly cpuMillis: number;
  readonly memoryBytes: number;
}

/**
 * Set aside for a worker: all of what its endpoint asked for; for one that asked for nothing a
 * little, since most such workers use little; nothing for a GPU worker.
 */
export function workerReserve(release: { readonly gpuIds: string; readonly cpu: string }, unsized: Reserve): Reserve {
  if (release.gpuIds !== '') return { cpuMillis: 0, memoryBytes: 0 };
  return release.cpu === '' ? unsized : workerLimits(release);
}

/**
 * Validates the full report (`nvidia-smi -q -x`) as parsed by node-nvidia-smi and converts it to device facts. The
 * schema is lenient, so that unknown cards and versions work: one GPU is an object and several are an array, every
 * value is a string with its unit, and a value that a card cannot report is `N/A`.
 */
import { z } from 'zod';

import {
  busIdOf,
  bytesOf,
  celsiusOf,
  facts,
  isGpuUuid,
  isSliceUuid,
  isTrouble,
  numberOf,
  percentOf,
  textOf,
  uuidProblem,
  type ListedSlice,
} from './nvidia-text.ts';
import type { DeviceFacts, ProbeResult } from './probe.ts';

/** One element, several, or the empty string of an element without content. */
const listOf = <T extends z.ZodType>(item: T) =>
  z
    .union([z.array(item), item, z.string()])
    .optional()
    .transform((value) =>
      value === undefined || typeof value === 'string' ? [] : ((Array.isArray(value) ? value : [value]) as z.output<T>[]),
    );

const text = z.string().optional().catch(undefined);
/** A group of values; a string such as `N/A` in its place means no values. */
const group = <T extends z.ZodRawShape>(shape: T) => z.object(shape).partial().optional().catch(undefined);

const sliceSchema = z.object({
  index: text,
  gpu_instance_id: text,
  compute_instance_id: text,
  fb_memory_usage: group({ total: text, used: text }),
});

const powerReadings = group({ power_draw: text, instant_power_draw: text, average_power_draw: text });

const gpuSchema = z.object({
  uuid: text,
  product_name: text,
  mig_mode: group({ current_mig: text }),
  mig_devices: z
    .union([z.object({ mig_device: listOf(sliceSchema) }), z.string()])
    .optional()
    .catch(undefined),
  fb_memory_usage: group({ total: text, used: text }),
  utilization: group({ gpu_util: text }),
  temperature: group({ gpu_temp: text }),
  fan_speed: text,
  performance_state: text,
  power_readings: powerReadings,
  gpu_power_readings: powerReadings,
  gpu_recovery_action: text,
  pci: group({ pci_bus_id: text }),
  ecc_errors: group({ volatile: z.unknown() }),
  remapped_rows: group({ remapped_row_pending: text, remapped_row_failure: text }),
});

const reportSchema = z.object({
  nvidia_smi_log: z.object({
    driver_version: text,
    cuda_version: text,
    attached_gpus: text,
    gpu: listOf(z.unknown()),
  }),
});

/** Returns the device facts of a full report; `slices` are the UUIDs printed by `nvidia-smi -L`. */
export function devicesOfReport(report: unknown, slices: readonly ListedSlice[]): ProbeResult {
  const parsed = reportSchema.safeParse(report);
  if (!parsed.success) return { kind: 'failed', problem: 'nvidia-smi printed a report with an unknown schema' };
  const { driver_version: driver, cuda_version: cuda, gpu: gpus, attached_gpus } = parsed.data.nvidia_smi_log;
  const versions = facts<DeviceFacts>({ uuid: undefined, driverVersion: textOf(driver), cudaVersion: textOf(cuda) });
  const devices: DeviceFacts[] = [];
  let unreadable = 0;
  for (const entry of gpus) {
    const gpu = gpuSchema.safeParse(entry);
    const found = gpu.success ? devicesOfGpu(gpu.data, versions, slices) : [];
    if (found.length === 0) unreadable += 1;
    devices.push(...found);
  }
  const attached = numberOf(attached_gpus) ?? gpus.length;
  const problem =
    unreadable > 0
      ? `nvidia-smi reports ${unreadable} GPU(s) without a UUID`
      : attached > gpus.length
        ? `nvidia-smi lists ${gpus.length} of ${attached} attached GPUs`
        : '';
  return { kind: 'devices', devices, problem };
}

function devicesOfGpu(gpu: z.output<typeof gpuSchema>, versions: Partial<DeviceFacts>, listed: readonly ListedSlice[]): DeviceFacts[] {
  const model = textOf(gpu.product_name);
  const recovery = textOf(gpu.gpu_recovery_action);
  const pciBusId = busIdOf(gpu.pci?.pci_bus_id);
  const trouble = troubleOf(gpu);
  const problem =
    recovery !== undefined
      ? `recovery action needed: ${recovery}`
      : trouble !== undefined
        ? `nvidia-smi reports ${trouble}`
        : rowProblem(gpu.remapped_rows?.remapped_row_failure, gpu.remapped_rows?.remapped_row_pending);
  const shared = {
    ...versions,
    ...facts<DeviceFacts>({
      uuid: undefined,
      temperatureCelsius: celsiusOf(gpu.temperature?.gpu_temp),
      pciBusId,
      ...eccOf(gpu.ecc_errors?.volatile),
      recoveryAction: recovery ?? '',
      problem,
    }),
  };
  const uuid = gpu.uuid?.trim() ?? '';
  if (!isGpuUuid(uuid)) {
    // Without UUID and bus the GPU cannot be identified.
    if (pciBusId === undefined) return [];
    return [{ ...shared, ...facts<DeviceFacts>({ uuid: undefined, model }), uuid: '', problem: uuidProblem(uuid) }];
  }
  if (gpu.mig_mode?.current_mig?.trim() !== 'Enabled') {
    const whole = facts<DeviceFacts>({
      uuid,
      model,
      memoryBytes: bytesOf(gpu.fb_memory_usage?.total),
      memoryUsedBytes: bytesOf(gpu.fb_memory_usage?.used),
      utilizationPercent: percentOf(gpu.utilization?.gpu_util),
    });
    return [{ ...shared, ...whole, uuid }];
  }
  const slices = typeof gpu.mig_devices === 'object' ? gpu.mig_devices.mig_device : [];
  // A GPU in MIG mode runs nothing itself.
  if (slices.length === 0)
    return [{ ...shared, ...(model === undefined ? {} : { model }), uuid, problem: 'MIG is enabled, but no MIG device exists' }];
  return slices.map((slice, position) => {
    const index = numberOf(slice.index) ?? position;
    const named = listed.find((entry) => entry.parentUuid === uuid && entry.index === index);
    // Without the list: the name that CUDA accepted before slices had their own UUIDs.
    const sliceUuid = named?.uuid ?? `MIG-${uuid}/${slice.gpu_instance_id ?? '0'}/${slice.compute_instance_id ?? '0'}`;
    const own = facts<DeviceFacts>({
      uuid: sliceUuid,
      model: model === undefined ? undefined : `${model} MIG${named === undefined ? '' : ` ${named.profile}`}`,
      memoryBytes: bytesOf(slice.fb_memory_usage?.total),
      memoryUsedBytes: bytesOf(slice.fb_memory_usage?.used),
      parentUuid: uuid,
    });
    if (isSliceUuid(sliceUuid)) return { ...shared, ...own, uuid: sliceUuid };
    const place = `slice ${String(index)} of ${uuid}`;
    return { ...shared, ...own, uuid: place, problem: 'nvidia-smi does not name the instances of this slice' };
  });
}

/** Returns the first value of the GPU that is an error. Process names are excluded: users choose them. */
function troubleOf(gpu: z.output<typeof gpuSchema>): string | undefined {
  const power = [gpu.power_readings, gpu.gpu_power_readings];
  const values = [
    gpu.product_name,
    gpu.fb_memory_usage?.total,
    gpu.fb_memory_usage?.used,
    gpu.temperature?.gpu_temp,
    gpu.utilization?.gpu_util,
    gpu.fan_speed,
    gpu.performance_state,
    gpu.mig_mode?.current_mig,
    gpu.gpu_recovery_action,
    gpu.remapped_rows?.remapped_row_failure,
    ...power.flatMap((readings) => [readings?.power_draw, readings?.instant_power_draw, readings?.average_power_draw]),
  ];
  return values.find((value) => value !== undefined && isTrouble(value))?.slice(0, 200);
}

/** Memory rows that the GPU could not remap, or remaps at its next reset. */
function rowProblem(failure: string | undefined, pending: string | undefined): string | undefined {
  if (failure?.trim() === 'Yes') return 'remapping memory rows failed';
  return pending?.trim() === 'Yes' ? 'memory rows will be remapped at the next reset' : undefined;
}

/** Schemas differ in granularity: counts named uncorrectable (or double bit) against the rest. Absent without ECC. */
function eccOf(counts: unknown): { eccCorrected: number | undefined; eccUncorrected: number | undefined } {
  const sums: { corrected: number | undefined; uncorrected: number | undefined } = { corrected: undefined, uncorrected: undefined };
  if (typeof counts === 'object' && counts !== null) {
    for (const [name, value] of Object.entries(counts as Readonly<Record<string, unknown>>)) {
      // The oldest schema has one group per kind, with a total.
      const total: unknown = typeof value === 'object' && value !== null && 'total' in value ? value.total : value;
      const count = typeof total === 'string' ? numberOf(total) : undefined;
      const kind = /uncorrect|double_bit/.test(name) ? 'uncorrected' : /correct|single_bit/.test(name) ? 'corrected' : undefined;
      if (count !== undefined && kind !== undefined) sums[kind] = (sums[kind] ?? 0) + count;
    }
  }
  return { eccCorrected: sums.corrected, eccUncorrected: sums.uncorrected };
}

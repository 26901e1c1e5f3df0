/** Writes a program called nvidia-smi that prints what a test wants, and can hang, fail or warn. */
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface FakeGpu {
  readonly uuid: string;
  readonly name?: string;
  readonly memoryMiB?: number;
  readonly slices?: readonly { readonly uuid: string; readonly profile: string; readonly memoryMiB: number }[];
  /** Printed in the place of the temperature. */
  readonly temperature?: string;
  readonly recovery?: string;
  /** Printed in the place of the UUID. */
  readonly uuidText?: string;
  /** Printed in the place of the fan's speed, of the power draw and of the used memory. */
  readonly fan?: string;
  readonly power?: string;
  readonly usedMemory?: string;
  /** Mask of the reasons for lower clocks. */
  readonly throttle?: string;
  /** As nvidia-smi writes it. */
  readonly pciBusId?: string;
  /** What stands inside of `ecc_errors`. */
  readonly ecc?: string;
  /** What stands inside of `remapped_rows`. */
  readonly rows?: string;
}

export interface FakeBehaviour {
  readonly gpus?: readonly FakeGpu[];
  /** Sleep for ever, on every call or on the named ones. */
  readonly hangs?: 'all' | 'report';
  /** Exit code and message. The real program writes most of its errors to stdout. */
  readonly fails?: { readonly code: number; readonly stderr?: string; readonly stdout?: string };
  /** Words on stderr beside a good answer. */
  readonly warns?: string;
  /** An old driver, that refuses columns it does not know. */
  readonly old?: boolean;
  /** Printed instead of the report. */
  readonly report?: string;
  /** GPUs that the report counts as attached; else those it lists. */
  readonly attached?: number;
  /** Lines that are printed behind the rows of the table, and its exit code then. */
  readonly tableEnd?: { readonly code: number; readonly stdout: string };
  /** Only the list of GPUs and slices fails. */
  readonly listFails?: boolean;
}

/** Writes the program anew; answers its path. */
export async function writeFakeSmi(folder: string, behaviour: FakeBehaviour): Promise<string> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'nvidia-smi');
  const gpus = behaviour.gpus ?? [];
  const say = (text: string): string => `cat <<'END'\n${text}\nEND\n`;
  const hang = 'exec sleep 600';
  const tableEnd = behaviour.tableEnd === undefined ? '' : failure(behaviour.tableEnd);
  const script = `#!/bin/sh
${behaviour.hangs === 'all' ? hang : ''}
${behaviour.fails === undefined ? '' : failure(behaviour.fails)}
${behaviour.warns === undefined ? '' : `echo '${behaviour.warns}' >&2`}
case "$*" in
*-x*)
${behaviour.hangs === 'report' ? hang : ''}
${say(behaviour.report ?? reportOf(gpus, behaviour.attached))};;
*-L*)
${behaviour.listFails === true ? 'exit 255' : say(listOf(gpus))};;
*compute_cap*)
${behaviour.old === true ? `echo 'Field "compute_cap" is not a valid field to query.'; exit 2` : `${say(gpus.map((gpu) => rowOf(gpu, true)).join('\n'))}${tableEnd}`};;
*query-gpu*)
${say(gpus.map((gpu) => rowOf(gpu, false)).join('\n'))};;
*) exit 9;;
esac
`;
  // Replaced at once: a program that is being read must not change.
  const next = `${path}.next`;
  await writeFile(next, script);
  await chmod(next, 0o755);
  await rename(next, path);
  return path;
}

function failure({ code, stderr, stdout }: NonNullable<FakeBehaviour['fails']>): string {
  const say = (text: string, where: string): string => `cat ${where}<<'END'\n${text}\nEND\n`;
  return `${stdout === undefined ? '' : say(stdout, '')}${stderr === undefined ? '' : say(stderr, '>&2 ')}exit ${code}`;
}

function rowOf(gpu: FakeGpu, withNew: boolean): string {
  const mig = gpu.slices === undefined ? '[N/A]' : 'Enabled';
  const row = [
    gpu.uuidText ?? gpu.uuid,
    gpu.name ?? 'NVIDIA Test',
    String(gpu.memoryMiB ?? 1024),
    gpu.usedMemory ?? '12',
    '550.1',
    gpu.slices === undefined ? '7' : '[N/A]',
    gpu.temperature ?? '40',
    gpu.pciBusId ?? '[N/A]',
    gpu.fan ?? '[N/A]',
    gpu.power ?? '67.03',
  ];
  return [...row, ...(withNew ? [mig, '8.0', gpu.throttle ?? '0x0000000000000001'] : [])].join(', ');
}

function listOf(gpus: readonly FakeGpu[]): string {
  return gpus
    .map((gpu, index) =>
      [
        `GPU ${index}: ${gpu.name ?? 'NVIDIA Test'} (UUID: ${gpu.uuidText ?? gpu.uuid})`,
        ...(gpu.slices ?? []).map(({ profile, uuid }, device) => `  MIG ${profile}     Device  ${device}: (UUID: ${uuid})`),
      ].join('\n'),
    )
    .join('\n');
}

function reportOf(gpus: readonly FakeGpu[], attached = gpus.length): string {
  return `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<driver_version>550.1</driver_version><cuda_version>12.4</cuda_version><attached_gpus>${attached}</attached_gpus>
${gpus.map(gpuXml).join('\n')}
</nvidia_smi_log>`;
}

function gpuXml(gpu: FakeGpu): string {
  const slices = gpu.slices?.map(
    ({ memoryMiB }, index) =>
      `<mig_device><index>${index}</index><gpu_instance_id>${index + 3}</gpu_instance_id><compute_instance_id>0</compute_instance_id>
<fb_memory_usage><total>${memoryMiB} MiB</total><used>1 MiB</used></fb_memory_usage></mig_device>`,
  );
  return `<gpu id="x"><product_name>${gpu.name ?? 'NVIDIA Test'}</product_name><uuid>${gpu.uuidText ?? gpu.uuid}</uuid>
<mig_mode><current_mig>${gpu.slices === undefined ? 'N/A' : 'Enabled'}</current_mig></mig_mode>
<mig_devices>${slices?.join('') ?? 'None'}</mig_devices>
<fb_memory_usage><total>${gpu.memoryMiB ?? 1024} MiB</total><used>${gpu.usedMemory ?? '12'} MiB</used></fb_memory_usage>
<utilization><gpu_util>${gpu.slices === undefined ? '7 %' : 'N/A'}</gpu_util></utilization>
<temperature><gpu_temp>${gpu.temperature === undefined ? '40 C' : gpu.temperature}</gpu_temp></temperature>
<pci><pci_bus_id>${gpu.pciBusId ?? 'N/A'}</pci_bus_id></pci><ecc_errors>${gpu.ecc ?? 'N/A'}</ecc_errors>
<fan_speed>${gpu.fan ?? 'N/A'}</fan_speed><gpu_power_readings><power_draw>${gpu.power ?? '67.03 W'}</power_draw></gpu_power_readings>
<remapped_rows>${gpu.rows ?? 'N/A'}</remapped_rows>
<gpu_recovery_action>${gpu.recovery ?? 'None'}</gpu_recovery_action></gpu>`;
}

/** The check of an installed GPU host (`capstan node check`), under the settings of its agent. It changes nothing and needs no network. */
import { execFile } from 'node:child_process';
import { mkdtemp, open, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { messageOf } from '../lib/to-error.ts';
import { throttleNames } from '../lib/throttle-reasons.ts';
import type { AgentConfig } from './config.ts';
import { containerGpuVerdict, readContainerGpuFacts, type ContainerGpuVerdict } from './inventory/container-gpus.ts';
import { NvidiaProbe } from './inventory/nvidia-probe.ts';
import type { DeviceFacts } from './inventory/probe.ts';

export interface NodeCheckRow {
  readonly check: string;
  readonly result: 'pass' | 'fail' | 'skip';
  /** What was found; of a skipped check the reason. */
  readonly value: string;
  /** What to do; empty when there is nothing to do. */
  readonly hint: string;
}

const COLUMNS = ['uuid', 'name', 'memory.total', 'memory.used', 'driver_version'];
const CUDA_MS = 60_000;
/** Reasons that are faults of the host; a power limit is reached under full load. */
const FAULTS = new Set(['hw_slowdown', 'hw_thermal_slowdown', 'hw_power_brake_slowdown']);

/** Uses the one visible device as a program would. Prints what it found. */
const CUDA_PROGRAM = `
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print(error)
    sys.exit(3)
count, device, context, pointer = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
name = ctypes.create_string_buffer(128)
def call(what, code):
    if code != 0:
        print(f"{what}: CUDA error {code}")
        sys.exit(1)
call("cuInit", cuda.cuInit(0))
call("cuDeviceGetCount", cuda.cuDeviceGetCount(ctypes.byref(count)))
if count.value != 1:
    print(f"{count.value} devices are visible instead of 1")
    sys.exit(1)
call("cuDeviceGet", cuda.cuDeviceGet(ctypes.byref(device), 0))
call("cuDeviceGetName", cuda.cuDeviceGetName(name, 128, device))
call("cuCtxCreate", cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device))
call("cuMemAlloc", cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(64 << 20)))
call("cuMemFree", cuda.cuMemFree_v2(pointer))
print(name.value.decode())
`;

export async function checkNode(config: AgentConfig): Promise<NodeCheckRow[]> {
  const folder = await mkdtemp(join(tmpdir(), 'capstan-node-check-'));
  const probe = new NvidiaProbe({ program: config.nvidiaSmi, timeoutMs: config.nvidiaSmiTimeoutMs, folder, env: config.hostEnv });
  try {
    const found = await probe.full();
    if (found.kind === 'none') return [skip('GPUs', `${config.nvidiaSmi} is not there: a host without GPUs`)];
    if (found.kind === 'failed') return [fail('GPUs', found.problem, 'Run nvidia-smi to see its error; see docs/gpu-upgrade.md.')];
    const { devices, problem } = found;
    const [first] = devices;
    const rows = [
      devices.length === 0 || problem !== ''
        ? fail('GPUs', problem === '' ? 'nvidia-smi lists none' : problem, 'Check the driver and the kernel log.')
        : pass('GPUs', `${devices.length}, driver ${first?.driverVersion ?? 'unknown'}, CUDA ${first?.cudaVersion ?? 'unknown'}`),
      ...(await checkDevices(config, devices)),
      await checkFiles(),
    ];
    for (const device of devices) if (device.problem === undefined) rows.push(await checkCuda(config, device));
    return [...rows, await checkContainers(config)];
  } finally {
    probe.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** What `capstan doctor` says about GPUs in containers; undefined on a host without them. */
export async function containerGpus(socket: string, access: string): Promise<ContainerGpuVerdict | undefined> {
  const facts = await readContainerGpuFacts(socket, access);
  return facts === undefined ? undefined : containerGpuVerdict(facts);
}

/** The agent's inventory against nvidia-smi. */
async function checkDevices({ nvidiaSmi, hostEnv }: AgentConfig, devices: readonly DeviceFacts[]): Promise<NodeCheckRow[]> {
  const table = new Map<string, string[]>();
  try {
    const args = [`--query-gpu=${COLUMNS.join(',')}`, '--format=csv,noheader,nounits'];
    const { stdout } = await promisify(execFile)(nvidiaSmi, args, { env: hostEnv, timeout: CUDA_MS });
    for (const line of stdout.split('\n')) {
      const cells = line.split(',').map((cell) => cell.trim());
      table.set(cells[0] ?? '', cells);
    }
  } catch (error) {
    return [fail('inventory', messageOf(error), 'Run nvidia-smi to see its error.')];
  }
  return devices.map((device) => {
    const check = `inventory of ${device.uuid}`;
    const [, name, memory, , driver] = table.get(device.parentUuid ?? device.uuid) ?? [];
    if (device.problem !== undefined) return fail(check, device.problem, 'See docs/runbook.md, "A GPU is unhealthy".');
    const lowered = throttleNames(device.throttleReasons ?? 0n).filter((reason) => FAULTS.has(reason));
    const wrong = [
      name === undefined ? 'nvidia-smi does not list it' : '',
      device.parentUuid === undefined && name !== undefined && device.model !== name ? `model ${device.model ?? ''}, not ${name}` : '',
      device.parentUuid === undefined && memory !== undefined && Math.round((device.memoryBytes ?? 0) / 2 ** 20) !== Number(memory)
        ? `memory ${device.memoryBytes ?? 0} bytes, not ${memory} MiB`
        : '',
      driver !== undefined && device.driverVersion !== driver ? `driver ${device.driverVersion ?? ''}, not ${driver}` : '',
      device.cudaVersion === undefined ? 'no CUDA version' : '',
      lowered.length === 0 ? '' : `clocks are lowered: ${lowered.join(', ')}`,
    ].filter((text) => text !== '');
    if (wrong.length > 0) return fail(check, wrong.join('; '), 'See docs/gpu-hosts.md.');
    const gigabytes = Math.round((device.memoryBytes ?? 0) / 1e9);
    return pass(check, `${device.model ?? ''}, ${gigabytes} GB, uncorrected memory errors: ${device.eccUncorrected ?? 'not reported'}`);
  });
}

/** Whether this user may open the devices. */
async function checkFiles(): Promise<NodeCheckRow> {
  const check = 'device files';
  const names = (await readdir('/dev')).filter((name) => /^nvidia(?:\d+|ctl|-uvm)$/.test(name));
  if (names.length === 0) return skip(check, 'none below /dev');
  const refused: string[] = [];
  for (const name of names) {
    try {
      await (await open(`/dev/${name}`, 'r')).close();
    } catch (error) {
      refused.push(`/dev/${name}: ${messageOf(error)}`);
    }
  }
  if (refused.length === 0) return pass(check, names.join(', '));
  return fail(check, refused.join('; '), 'Run the check as the user of the agent; name the group of the files in SupplementaryGroups=.');
}

async function checkCuda({ hostEnv }: AgentConfig, { uuid }: DeviceFacts): Promise<NodeCheckRow> {
  const check = `CUDA on ${uuid}`;
  try {
    const env = { ...hostEnv, CUDA_VISIBLE_DEVICES: uuid };
    const { stdout } = await promisify(execFile)('python3', ['-c', CUDA_PROGRAM], { env, timeout: CUDA_MS });
    return pass(check, `${stdout.trim()}: a context and memory`);
  } catch (error) {
    const { code, stdout = '' } = error as { code?: number | string; stdout?: string };
    if (code === 'ENOENT') return skip(check, 'no python3');
    if (code === 3) return skip(check, `no driver library for programs: ${stdout.trim()}`);
    return fail(check, stdout.trim() === '' ? messageOf(error) : stdout.trim(), 'Compare with nvidia-smi; see docs/gpu-hosts.md.');
  }
}

async function checkContainers({ containerSocket, containerGpus: access }: AgentConfig): Promise<NodeCheckRow> {
  const check = 'GPUs in containers';
  const verdict = await containerGpus(containerSocket, access);
  if (verdict === undefined) return skip(check, 'no container engine, or no device files');
  return verdict.isSafe ? pass(check, verdict.text) : fail(check, verdict.text, verdict.hint);
}

function pass(check: string, value: string): NodeCheckRow {
  return { check, result: 'pass', value, hint: '' };
}

function skip(check: string, reason: string): NodeCheckRow {
  return { check, result: 'skip', value: reason, hint: '' };
}

function fail(check: string, value: string, hint: string): NodeCheckRow {
  return { check, result: 'fail', value, hint };
}

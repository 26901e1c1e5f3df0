/** CPU, memory, disk and operating system of the host. */
import { readFile, statfs } from 'node:fs/promises';
import os from 'node:os';
import { parseEnv } from 'node:util';

/** Facts that do not change while the agent runs. */
export interface HostIdentity {
  readonly hostname: string;
  readonly os: string;
  readonly arch: string;
  readonly cpuCount: number;
  readonly cpuModel: string;
  readonly memoryBytes: bigint;
  readonly nodeVersion: string;
}

export interface HostGauges {
  readonly memoryAvailableBytes: bigint;
  readonly diskBytes: bigint;
  readonly diskAvailableBytes: bigint;
  /** 0 to 100. */
  readonly cpuPercent: number;
}

/** Files in which Linux distributions identify themselves. */
const OS_RELEASE = '/etc/os-release';

/** Facts that need no probe: enough for the first Hello. */
export function quickIdentity(): HostIdentity {
  return {
    hostname: os.hostname(),
    os: `${os.type()} ${os.release()}`,
    arch: os.arch(),
    cpuCount: os.availableParallelism(),
    cpuModel: os.cpus()[0]?.model.trim() ?? '',
    memoryBytes: BigInt(os.totalmem()),
    nodeVersion: process.versions.node,
  };
}

export function quickGauges(): HostGauges {
  return { memoryAvailableBytes: BigInt(os.freemem()), diskBytes: 0n, diskAvailableBytes: 0n, cpuPercent: 0 };
}

/**
 * Returns the full identity; a fact that cannot be read keeps its quick value. Linux provides nearly all facts itself;
 * the library for other systems starts a dozen programs, so it is used only for what is missing (on ARM, for example,
 * the CPU has no name).
 */
export async function readIdentityOfHost(quick = quickIdentity(), osRelease = OS_RELEASE): Promise<HostIdentity> {
  const named = quick.cpuModel !== '' && quick.cpuModel !== 'unknown';
  const [cpuModel, system] = await Promise.all([named ? quick.cpuModel : askedModel(), linuxName(osRelease)]);
  return { ...quick, os: (system ?? (await askedSystem())) || quick.os, cpuModel: cpuModel || quick.cpuModel };
}

/** `Debian GNU/Linux 12 6.1.0-18-amd64`; null where no file has it. */
async function linuxName(path: string): Promise<string | null> {
  const { NAME: name, VERSION_ID: version } = parseEnv(await readFile(path, 'utf8').catch(() => ''));
  return name === undefined ? null : words([name, version, os.release()]);
}

async function askedSystem(): Promise<string> {
  const { default: information } = await import('systeminformation');
  const { distro, release, kernel } = await information.osInfo();
  return words([distro, release, kernel]);
}

async function askedModel(): Promise<string> {
  const { default: information } = await import('systeminformation');
  const { manufacturer, brand } = await information.cpu();
  return words([manufacturer, brand]);
}

function words(parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== '').join(' ');
}

/** Returns the current gauges; `folder` is on the disk that holds the builds. */
export async function readGauges(folder: string, load: CpuLoad): Promise<HostGauges> {
  const { blocks, bavail, bsize } = await statfs(folder, { bigint: true });
  return {
    memoryAvailableBytes: BigInt(await availableMemory()),
    diskBytes: blocks * bsize,
    diskAvailableBytes: bavail * bsize,
    cpuPercent: load.percent(),
  };
}

/** Memory available to programs, bytes. */
async function availableMemory(): Promise<number> {
  // On Linux, free memory includes reclaimable memory (MemAvailable); on other systems it does not.
  if (process.platform === 'linux') return os.freemem();
  const { default: information } = await import('systeminformation');
  return Math.round((await information.mem()).available);
}

/** CPU utilization between two calls. */
export class CpuLoad {
  readonly #times: () => CpuTimes;
  #last: CpuTimes;

  constructor(times = cpuTimes) {
    this.#times = times;
    this.#last = times();
  }

  /** 0 to 100, with one decimal; since the last call. */
  percent(): number {
    const { busy, idle } = this.#times();
    const spent = busy - this.#last.busy;
    const all = spent + idle - this.#last.idle;
    this.#last = { busy, idle };
    return all > 0 ? Math.round((spent / all) * 1_000) / 10 : 0;
  }
}

/** Of all processors together, ms. */
export interface CpuTimes {
  readonly busy: number;
  readonly idle: number;
}

function cpuTimes(): CpuTimes {
  let busy = 0;
  let idle = 0;
  for (const { times } of os.cpus()) {
    busy += times.user + times.nice + times.sys + times.irq;
    idle += times.idle;
  }
  return { busy, idle };
}

/**
 * The host's operating system, CPU, memory and disks. What is stable comes from systeminformation (hardware.ts). The gauges of
 * each report come from the kernel by Node: one reading takes 0.13 ms of processor time here, and 3 ms
 * by `mem` and `fsSize` of systeminformation, which start a program each time (measured on 2 processors).
 */
import { statfs } from 'node:fs/promises';
import os from 'node:os';

import type { HostHardware } from '../../proto/gen/capstan/v1/nodes.ts';
import type { HardwareReading } from './hardware-facts.ts';

/** What hardly changes while the agent runs: read at its start and with each full probe of the devices. */
export interface HostIdentity {
  readonly hostname: string;
  readonly os: string;
  readonly arch: string;
  readonly cpuCount: number;
  readonly cpuModel: string;
  readonly memoryBytes: bigint;
  readonly nodeVersion: string;
  /** Undefined until it has been read. */
  readonly hardware: HostHardware | undefined;
}

export interface HostGauges {
  readonly memoryAvailableBytes: bigint;
  readonly diskBytes: bigint;
  readonly diskAvailableBytes: bigint;
  /** 0 to 100. */
  readonly cpuPercent: number;
}

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
    hardware: undefined,
  };
}

export function quickGauges(): HostGauges {
  return { memoryAvailableBytes: BigInt(os.freemem()), diskBytes: 0n, diskAvailableBytes: 0n, cpuPercent: 0 };
}

/**
 * Returns the full identity, as systeminformation reads it; what it does not say keeps its quick value. Node's count of
 * processors stays, because it is what the agent may use of them.
 */
export async function readIdentityOfHost(read: () => Promise<HardwareReading>, quick = quickIdentity()): Promise<HostIdentity> {
  const { os: system, cpuModel, memoryBytes, hardware } = await read();
  return {
    ...quick,
    os: system || quick.os,
    cpuModel: cpuModel || quick.cpuModel,
    memoryBytes: memoryBytes || quick.memoryBytes,
    hardware,
  };
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

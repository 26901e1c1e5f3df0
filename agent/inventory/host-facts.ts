/** CPU, memory, disk and software of the host. */
import { execFile } from 'node:child_process';
import { statfs } from 'node:fs/promises';
import os from 'node:os';
import { promisify } from 'node:util';

import si from 'systeminformation';

/** What does not change while the agent runs. */
export interface HostIdentity {
  readonly hostname: string;
  readonly os: string;
  readonly arch: string;
  readonly cpuCount: number;
  readonly cpuModel: string;
  readonly memoryBytes: bigint;
  readonly nodeVersion: string;
  readonly pythonVersion: string;
}

export interface HostGauges {
  readonly memoryAvailableBytes: bigint;
  readonly diskBytes: bigint;
  readonly diskAvailableBytes: bigint;
  /** 0 to 100. */
  readonly cpuPercent: number;
}

const PYTHON_TIMEOUT_MS = 5_000;

/** What is known without asking anyone: enough for the first Hello. */
export function quickIdentity(): HostIdentity {
  return {
    hostname: os.hostname(),
    os: `${os.type()} ${os.release()}`,
    arch: os.arch(),
    cpuCount: os.availableParallelism(),
    cpuModel: os.cpus()[0]?.model.trim() ?? '',
    memoryBytes: BigInt(os.totalmem()),
    nodeVersion: process.versions.node,
    pythonVersion: '',
  };
}

export function quickGauges(): HostGauges {
  return { memoryAvailableBytes: BigInt(os.freemem()), diskBytes: 0n, diskAvailableBytes: 0n, cpuPercent: 0 };
}

/** The whole identity; what cannot be found keeps its quick value. */
export async function readIdentityOfHost(env: Readonly<Record<string, string>>): Promise<HostIdentity> {
  const quick = quickIdentity();
  const [cpu, system, memory, python] = await Promise.all([si.cpu(), si.osInfo(), si.mem(), pythonVersion(env)]);
  return {
    ...quick,
    os: [system.distro, system.release, system.kernel].filter((part) => part !== '').join(' ') || quick.os,
    cpuModel: [cpu.manufacturer, cpu.brand].filter((part) => part !== '').join(' ') || quick.cpuModel,
    memoryBytes: memory.total > 0 ? BigInt(memory.total) : quick.memoryBytes,
    pythonVersion: python,
  };
}

/**
 * The gauges now; `folder` lies on the disk that builds are kept on. The first load takes half a
 * second to measure: `withLoad` false does without.
 */
export async function readGauges(folder: string, withLoad: boolean): Promise<HostGauges> {
  const [memory, disk, load] = await Promise.all([si.mem(), diskOf(folder), withLoad ? si.currentLoad() : { currentLoad: 0 }]);
  return {
    memoryAvailableBytes: BigInt(Math.round(memory.available)),
    diskBytes: disk.bytes,
    diskAvailableBytes: disk.available,
    cpuPercent: Math.round(load.currentLoad * 10) / 10,
  };
}

/** systeminformation lists mounts; where it misses the folder's, the file system itself is asked. */
async function diskOf(folder: string): Promise<{ bytes: bigint; available: bigint }> {
  const mounts = await si.fsSize();
  const holds = (mount: string): boolean => folder === mount || folder.startsWith(mount.endsWith('/') ? mount : `${mount}/`);
  const [best] = mounts.filter(({ mount }) => holds(mount)).sort((a, b) => b.mount.length - a.mount.length);
  if (best !== undefined) return { bytes: BigInt(Math.round(best.size)), available: BigInt(Math.round(best.available)) };
  const { blocks, bavail, bsize } = await statfs(folder, { bigint: true });
  return { bytes: blocks * bsize, available: bavail * bsize };
}

/** `3.11.2`; empty where there is no Python. */
async function pythonVersion(env: Readonly<Record<string, string>>): Promise<string> {
  try {
    const { stdout, stderr } = await promisify(execFile)('python3', ['--version'], { env, timeout: PYTHON_TIMEOUT_MS });
    return /Python (\S+)/.exec(stdout + stderr)?.[1] ?? '';
  } catch {
    // No Python is a normal case.
    return '';
  }
}

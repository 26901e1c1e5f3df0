/** One worker's control group: in version 2 one folder, in version 1 one of each controller. */
import { readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { isErrno } from '../../../lib/to-error.ts';
import type { Controller } from './mounts.ts';

export interface GroupFolder {
  readonly path: string;
  readonly version: 1 | 2;
  readonly controllers: readonly Controller[];
}

/** 0: no limit. */
export interface GroupLimits {
  readonly memoryBytes: number;
  /** Thousandths of a core. */
  readonly cpuMillis: number;
  /** Processes and threads. */
  readonly pids: number;
}

const POLL_MS = 5;
/** Time for killed processes to leave a group: a process in the driver of a device may take longer. */
const KILL_POLLS = 400;

/** The kernel shares out processor time by this period, µs, and takes no smaller share than 1,000 µs of it. */
const PERIOD_US = 100_000;
const MIN_QUOTA_US = 1_000;
const MEBIBYTE = 1024 * 1024;
/** A group that reached its limit was below it by less than this: pages are counted in batches, and may be 2 MiB each. */
const SLACK_BYTES = 4 * MEBIBYTE;
const SLACK_SHARE = 16;

export class ControlGroup {
  readonly #folders: readonly GroupFolder[];
  #memoryBytes = 0;

  constructor(folders: readonly GroupFolder[]) {
    this.#folders = folders;
  }

  /**
   * A line for `sh` that puts the shell into the group, and with it all that it starts; the shell exits with 1 when that
   * is refused. Run by the agent's user, outside of any sandbox.
   */
  get entry(): string {
    return this.#folders.map(({ path }) => `echo $$ >${quoted(join(path, 'cgroup.procs'))} || exit 1`).join('; ');
  }

  /** Puts a process into the group; children that it has already stay outside. Throws ESRCH when it is gone. */
  add(pid: number): void {
    for (const { path } of this.#folders) writeFileSync(join(path, 'cgroup.procs'), `${pid}`, { flag: 'r+' });
  }

  /**
   * Sets the limits that are not 0; those whose controller is missing are not set. Throws what the kernel refuses, and
   * that the limit is exceeded when more memory is in use already (version 1; version 2 ends the group).
   */
  limit({ memoryBytes, cpuMillis, pids }: GroupLimits): void {
    if (memoryBytes > 0) {
      this.#memoryBytes = memoryBytes;
      this.#limitMemory(memoryBytes);
      // Swap would lift the limit. Without the files there is none.
      this.#writeIfThere('memory', { 1: ['memory.memsw.limit_in_bytes', memoryBytes], 2: ['memory.swap.max', 0] });
      // Of a worker that lost one of its processes nothing is left. Version 1 has no such setting.
      this.#writeIfThere('memory', { 2: ['memory.oom.group', 1] });
    }
    if (cpuMillis > 0) {
      const quota = Math.max(MIN_QUOTA_US, Math.round((cpuMillis * PERIOD_US) / 1_000));
      this.#writeIfThere('cpu', { 1: ['cpu.cfs_period_us', PERIOD_US] });
      this.#write('cpu', { 1: ['cpu.cfs_quota_us', quota], 2: ['cpu.max', `${quota} ${PERIOD_US}`] });
    }
    if (pids > 0) this.#write('pids', { 1: ['pids.max', pids], 2: ['pids.max', pids] });
  }

  /**
   * Returns why the kernel ended a process of the group for want of memory; undefined when it did not, and when the group
   * is removed.
   */
  get outOfMemory(): string | undefined {
    const events = this.#read('memory', { 1: 'memory.oom_control', 2: 'memory.events' });
    if (events === undefined || countIn(events, 'oom_kill') === 0) return undefined;
    // The kernel counts what it ended for the limit of the agent's group and of the host, too.
    const limit = this.#memoryBytes;
    const peak = this.#peakBytes;
    if (limit === 0 || peak < limit - Math.max(SLACK_BYTES, limit / SLACK_SHARE)) {
      return 'the host is out of memory: the kernel ended a process of the worker';
    }
    return exceeded(peak, limit);
  }

  /** Pids of the processes in the group, in the agent's namespace; empty when the group is removed. */
  get processes(): readonly number[] {
    const found = new Set<number>();
    for (const { path } of this.#folders) for (const pid of processesOf(path)) found.add(pid);
    return [...found];
  }

  /** Kills all processes of the group and waits until they have left it; returns false when some have not after 2 s. */
  async kill(): Promise<boolean> {
    for (let polls = 0; polls < KILL_POLLS; polls += 1) {
      if (!killIn(this.#folders)) return true;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    return false;
  }

  /** Removes the group; returns false when it is still in use. Kill it first. */
  remove(): boolean {
    return this.#folders.map(({ path }) => removeTree(path)).every(Boolean);
  }

  /** Kernels before 5.19 do not say it in version 2: then its limit. */
  get #peakBytes(): number {
    return Number(this.#read('memory', { 1: 'memory.max_usage_in_bytes', 2: 'memory.peak' }) ?? this.#memoryBytes);
  }

  /** EBUSY: more than that is in use, and version 1 can free none of it. */
  #limitMemory(bytes: number): void {
    try {
      this.#write('memory', { 1: ['memory.limit_in_bytes', bytes], 2: ['memory.max', bytes] });
    } catch (error) {
      if (isErrno(error, 'EBUSY')) throw new Error(exceeded(this.#peakBytes, bytes), { cause: error });
      throw error;
    }
  }

  #write(controller: Controller, files: Partial<Record<1 | 2, readonly [name: string, value: number | string]>>): void {
    const folder = this.#folderOf(controller);
    const file = folder === undefined ? undefined : files[folder.version];
    if (folder !== undefined && file !== undefined) writeFileSync(join(folder.path, file[0]), `${file[1]}`, { flag: 'r+' });
  }

  #writeIfThere(controller: Controller, files: Partial<Record<1 | 2, readonly [name: string, value: number | string]>>): void {
    try {
      this.#write(controller, files);
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) throw error;
    }
  }

  #read(controller: Controller, files: Record<1 | 2, string>): string | undefined {
    const folder = this.#folderOf(controller);
    return folder === undefined ? undefined : readIfThere(join(folder.path, files[folder.version]));
  }

  #folderOf(controller: Controller): GroupFolder | undefined {
    return this.#folders.find(({ controllers }) => controllers.includes(controller));
  }
}

/** Kills what is in the folders and in groups below them; returns false when nothing was. */
function killIn(folders: readonly GroupFolder[]): boolean {
  let some = false;
  for (const folder of folders.flatMap((each) => [each, ...below(each)])) {
    const processes = processesOf(folder.path);
    if (processes.length === 0) continue;
    some = true;
    // Version 2 kills all at once since Linux 5.14.
    if (folder.version === 2 && writeTo(join(folder.path, 'cgroup.kill'), '1')) continue;
    // No process starts another one while these are killed.
    for (const { path, controllers } of folders) if (controllers.includes('pids')) writeTo(join(path, 'pids.max'), '0');
    for (const pid of processes) kill(pid);
  }
  return some;
}

/** Removes a group with the groups below it; returns false when one is in use. */
export function removeTree(path: string): boolean {
  try {
    for (const name of groupsIn(path)) removeTree(join(path, name));
    rmdirSync(path);
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return true;
    if (isErrno(error, 'EBUSY', 'ENOTEMPTY')) return false;
    throw error;
  }
}

/** Returns the names of the groups directly below one; none when it is not there. */
export function groupsIn(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
}

/** Returns the processes directly in a group; none when it is not there. */
export function processesOf(path: string): number[] {
  return (readIfThere(join(path, 'cgroup.procs')) ?? '')
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 0);
}

/** Returns the content; undefined when there is no such file. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trimEnd();
  } catch (error) {
    // ENODEV: the group was removed while the file was open.
    if (isErrno(error, 'ENOENT', 'ENODEV')) return undefined;
    throw error;
  }
}

function below(folder: GroupFolder): GroupFolder[] {
  return groupsIn(folder.path).flatMap((name) => {
    const child = { ...folder, path: join(folder.path, name) };
    return [child, ...below(child)];
  });
}

/** Returns whether the file exists and took the value. */
function writeTo(path: string, value: string): boolean {
  try {
    writeFileSync(path, value, { flag: 'r+' });
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENODEV', 'EOPNOTSUPP')) return false;
    throw error;
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

/** Of lines `name count`. */
function countIn(events: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(events)?.[1] ?? 0);
}

function quoted(path: string): string {
  return `'${path.replaceAll("'", String.raw`'\''`)}'`;
}

function exceeded(bytes: number, limit: number): string {
  return `memory limit exceeded: ${mebibytes(bytes)} MiB resident, the limit is ${mebibytes(limit)} MiB`;
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / MEBIBYTE);
}

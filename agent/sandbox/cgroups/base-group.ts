/**
 * Creates the group below which an agent keeps its workers' groups. Nothing else of the host is changed, except that
 * version 2 must offer controllers to a group from the one above it, and a group that does so may hold no process:
 *
 * | Agent | Version 2: where the base group is |
 * |---|---|
 * | in a unit with `Delegate=yes` | in the unit's group, whose processes move into its leaf `capstan-agent` |
 * | root of a host | at the top; controllers that the top does not offer yet are offered |
 * | alone in its group (a container) | in that group; the agent moves into the leaf |
 *
 * In version 1 it is in the agent's own group of each controller.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { isErrno, messageOf } from '../../../lib/to-error.ts';
import { processesOf, readIfThere, removeTree, type GroupFolder } from './control-group.ts';
import { CONTROLLERS, type Controller, type OwnGroups } from './mounts.ts';

/** The group of the agent itself, where it had to leave the one above. systemd may start it there (`DelegateSubgroup`). */
const LEAF = 'capstan-agent';
const SYSTEMCTL_MS = 2_000;

/** The files that a group must have to set each limit: a kernel can lack what a controller offers. */
const LIMIT_FILES = {
  1: { memory: 'memory.limit_in_bytes', cpu: 'cpu.cfs_quota_us', pids: 'pids.max' },
  2: { memory: 'memory.max', cpu: 'cpu.max', pids: 'pids.max' },
} as const;

export interface BaseGroup {
  readonly folders: readonly GroupFolder[];
  /** Why a folder, or a controller, is missing. */
  readonly problems: readonly string[];
}

/** Creates the base group of this name, or takes the one that an earlier agent left. */
export async function createBaseGroup({ unified, legacy }: OwnGroups, name: string): Promise<BaseGroup> {
  const offered = unified === undefined ? [] : words(join(unified.own, 'cgroup.controllers'));
  // With both mounted, version 2 has the controllers that version 1 does not use.
  if (unified !== undefined && (legacy.size === 0 || offered.includes('memory'))) return createUnified(unified, name);
  if (legacy.size === 0) return { folders: [], problems: ['no control groups are mounted'] };
  return createLegacy(legacy, name);
}

/** Creates a base group again that somebody has removed. Throws what the kernel refuses. */
export function restoreBaseGroup(folders: readonly GroupFolder[]): void {
  for (const { path, version } of folders) {
    if (existsSync(path)) continue;
    mkdirSync(path, { recursive: true });
    if (version === 2) offer(path);
  }
}

function createLegacy(legacy: OwnGroups['legacy'], name: string): BaseGroup {
  const folders = new Map<string, Controller[]>();
  const problems: string[] = [];
  for (const controller of CONTROLLERS) {
    const own = legacy.get(controller);
    const problem = own === undefined ? `the controller ${controller} is not mounted` : created(join(own, name));
    if (own === undefined || problem !== undefined) problems.push(problem ?? '');
    else if (!existsSync(join(own, name, LIMIT_FILES[1][controller]))) problems.push(`the kernel has no ${LIMIT_FILES[1][controller]}`);
    else folders.set(join(own, name), [...(folders.get(join(own, name)) ?? []), controller]);
  }
  return { folders: [...folders].map(([path, controllers]) => ({ path, version: 1, controllers })), problems };
}

async function createUnified({ mount, own }: { mount: string; own: string }, name: string): Promise<BaseGroup> {
  const group = basename(own) === LEAF ? dirname(own) : own;
  if (await isDelegated(group)) return createIn(group, name, leave(group, 'all'));
  // Only the root of the hierarchy has no type; that of a container's namespace has one.
  if (process.getuid?.() === 0 && !existsSync(join(mount, 'cgroup.type'))) return createIn(mount, name, undefined);
  return createIn(group, name, leave(group, 'alone'));
}

function createIn(parent: string, name: string, problem: string | undefined): BaseGroup {
  if (problem !== undefined) return { folders: [], problems: [problem] };
  offer(parent);
  const path = join(parent, name);
  const uncreated = created(path);
  if (uncreated !== undefined) return { folders: [], problems: [uncreated] };
  offer(path);
  const offered = words(join(path, 'cgroup.subtree_control'));
  const controllers = CONTROLLERS.filter((each) => offered.includes(each) && existsSync(join(path, LIMIT_FILES[2][each])));
  const absent = CONTROLLERS.filter((each) => !controllers.includes(each));
  // Without limits the group still ends a worker with all its processes.
  const problems = absent.length === 0 ? [] : [`the controllers ${absent.join(', ')} are not available in ${parent}`];
  return { folders: [{ path, version: 2, controllers }], problems };
}

/** Offers the controllers to the groups below. One that is refused is missing there. */
function offer(group: string): void {
  for (const controller of CONTROLLERS) {
    try {
      writeFileSync(join(group, 'cgroup.subtree_control'), `+${controller}`, { flag: 'r+' });
    } catch (error) {
      // Not there; not permitted; read-only; processes in the group; used by version 1.
      if (!isErrno(error, 'ENOENT', 'EINVAL', 'EACCES', 'EPERM', 'EROFS', 'EBUSY', 'EOPNOTSUPP')) throw error;
    }
  }
}

/** Moves the group's processes into its leaf: all, or the agent if it is alone. Returns why that is impossible. */
function leave(group: string, which: 'all' | 'alone'): string | undefined {
  const processes = processesOf(group);
  if (processes.length === 0) return undefined;
  if (which === 'alone' && processes.some((pid) => pid !== process.pid)) return `${group} contains processes other than the agent's`;
  const leaf = join(group, LEAF);
  const problem = created(leaf);
  if (problem !== undefined) return problem;
  try {
    for (const pid of processes) move(pid, leaf);
    return undefined;
  } catch (error) {
    removeTree(leaf);
    return `the agent is not permitted to move into ${leaf}: ${messageOf(error)}`;
  }
}

function move(pid: number, group: string): void {
  try {
    writeFileSync(join(group, 'cgroup.procs'), `${pid}`, { flag: 'r+' });
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

/** Returns whether the group is that of a systemd unit which leaves all below it to the unit. */
async function isDelegated(group: string): Promise<boolean> {
  const unit = basename(group);
  if (!/\.(service|scope)$/.test(unit)) return false;
  const manager = /\/user@\d+\.service\//.test(group) ? ['--user'] : [];
  try {
    const args = [...manager, 'show', '--property=Delegate', '--value', '--', unit];
    const { stdout } = await promisify(execFile)('systemctl', args, { timeout: SYSTEMCTL_MS });
    return stdout.trim() === 'yes';
  } catch {
    // No systemd, or it does not answer: nothing is delegated.
    return false;
  }
}

/** Creates a group that may be there already; returns why it cannot. */
function created(path: string): string | undefined {
  try {
    mkdirSync(path);
    return undefined;
  } catch (error) {
    if (isErrno(error, 'EEXIST')) return undefined;
    if (isErrno(error, 'EROFS')) return `${dirname(path)} is read-only`;
    if (isErrno(error, 'EACCES', 'EPERM')) return `the agent is not permitted to create groups in ${dirname(path)}`;
    if (isErrno(error, 'ENOENT')) return `${dirname(path)} does not exist`;
    throw error;
  }
}

function words(file: string): string[] {
  return (readIfThere(file) ?? '').split(/\s+/).filter((word) => word !== '');
}

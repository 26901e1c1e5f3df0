/**
 * Control groups of this node's workers: limits of memory, processor time and processes that the kernel holds for a
 * worker with all it starts, and a sure end of all its processes. Works with both versions of control groups.
 *
 *     <group of the agent>/capstan-<hash of the data folder>-<pid of the agent>/<random>-<number>
 *
 * Whoever opens them removes what agents that are dead have left: of the same data folder also what still runs.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import type { MissingIsolation } from '../../../lib/isolation.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { readStat } from '../../runtimes/process-stat.ts';
import { createBaseGroup, restoreBaseGroup } from './base-group.ts';
import { ControlGroup, groupsIn, removeTree, type GroupFolder } from './control-group.ts';
import { ownGroups, type Controller } from './mounts.ts';

const HASH_CHARACTERS = 12;
const BASE_NAME = /^capstan-([0-9a-f]{12})-(\d+)$/;
/** Tries to remove a group that the kernel still counts as used, and the time between them. */
const REMOVE_TRIES = 100;
const REMOVE_MS = 10;
/** Interval in which memory events are read, of all groups that are watched. */
const LOOK_MS = 250;
const REMEDY =
  'run the agent as a systemd service with Delegate=yes (deploy/systemd has one), as root on the host, or alone in a container with a writable /sys/fs/cgroup';

export interface ControlGroupsOptions {
  /** The agent's data folder: no two agents that run have the same. */
  readonly folder: string;
  readonly warn: (fields: object, message: string) => void;
}

export class ControlGroups {
  readonly #base: readonly GroupFolder[];
  readonly #warn: ControlGroupsOptions['warn'];
  /** In use still when their worker was gone. */
  readonly #unremoved = new Set<ControlGroup>();
  /** A group that an earlier agent left in use has another one. */
  readonly #prefix = randomBytes(3).toString('hex');
  readonly #watched = new Map<ControlGroup, (reason: string) => void>();
  #timer: NodeJS.Timeout | undefined;
  #created = 0;
  readonly limits: ReadonlySet<Controller>;
  /** Empty when all limits hold. */
  readonly missing: readonly MissingIsolation[];

  private constructor(base: readonly GroupFolder[], problems: readonly string[], warn: ControlGroupsOptions['warn']) {
    this.#base = base;
    this.#warn = warn;
    this.limits = new Set(base.flatMap(({ controllers }) => controllers));
    this.missing = problems.length === 0 ? [] : [{ without: 'limits', reason: `control groups: ${problems.join('; ')}`, remedy: REMEDY }];
  }

  /**
   * Creates this agent's base group where it may, and ends what an earlier agent of the folder left in it. Never throws
   * for a host without control groups: `missing` says why there are none. Call it before the agent starts processes.
   */
  static async open({ folder, warn }: ControlGroupsOptions): Promise<ControlGroups> {
    const hash = createHash('sha256').update(folder).digest('hex').slice(0, HASH_CHARACTERS);
    const { folders, problems } = await readBase(`capstan-${hash}-${process.pid}`);
    const groups = new ControlGroups(folders, problems, warn);
    await groups.#sweep(hash);
    return groups;
  }

  /** Returns whether there are groups at all: without a controller they still end a worker with all its processes. */
  get areAvailable(): boolean {
    return this.#base.length > 0;
  }

  /** Number of groups that exist. */
  get count(): number {
    return Math.max(0, ...this.#base.map(({ path }) => groupsIn(path).length));
  }

  /** Creates a group without limits; undefined where there are no groups. Throws what the kernel refuses (no memory). */
  create(): ControlGroup | undefined {
    if (!this.areAvailable) return undefined;
    const name = `${this.#prefix}-${(this.#created += 1)}`;
    const folders = this.#base.map((base) => ({ ...base, path: join(base.path, name) }));
    try {
      // Another agent, in another pid namespace, may have taken this one for dead.
      restoreBaseGroup(this.#base);
      for (const { path } of folders) mkdirSync(path);
    } catch (error) {
      for (const { path } of folders) removeTree(path);
      throw new Error(`creating a control group failed: ${messageOf(error)}`, { cause: error });
    }
    return new ControlGroup(folders);
  }

  /**
   * Calls `onExceeded` once, with a reason, after the kernel ended a process of the group for its memory: the others may
   * live. Returns a function that ends the watch.
   */
  watchMemory(group: ControlGroup, onExceeded: (reason: string) => void): () => void {
    this.#watched.set(group, onExceeded);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    return () => {
      this.#watched.delete(group);
      if (this.#watched.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Kills all processes of a group and removes it. One that cannot be removed yet is removed later. */
  async end(group: ControlGroup): Promise<void> {
    try {
      if (!(await group.kill())) this.#warn({ processes: group.processes }, 'processes of a worker do not end when killed');
      this.#unremoved.add(group);
      await removed(() => this.#remove(group));
      for (const other of this.#unremoved) this.#remove(other);
    } catch (error) {
      this.#warn({ error: messageOf(error) }, 'removing a control group failed');
    }
  }

  /** Kills what is left in the groups and removes them, the base group included. */
  async close(): Promise<void> {
    await groupsBelow(this.#base)?.kill();
    if (await removed(() => this.#base.map(({ path }) => removeTree(path)).every(Boolean))) return;
    this.#warn({ groups: this.#base.map(({ path }) => path) }, 'control groups are still in use: the next start of the agent removes them');
  }

  #look(): void {
    for (const [group, onExceeded] of this.#watched) {
      const reason = group.outOfMemory;
      if (reason === undefined) continue;
      this.#watched.delete(group);
      onExceeded(reason);
    }
  }

  #remove(group: ControlGroup): boolean {
    const isRemoved = group.remove();
    if (isRemoved) this.#unremoved.delete(group);
    return isRemoved;
  }

  async #sweep(hash: string): Promise<void> {
    const bases = this.#base.flatMap((base) => {
      const parent = dirname(base.path);
      return groupsIn(parent).flatMap((name) => {
        const [, owner, pid] = BASE_NAME.exec(name) ?? [];
        return owner === undefined ? [] : [{ folder: { ...base, path: join(parent, name) }, owner, pid: Number(pid) }];
      });
    });
    const left = groupsBelow(bases.filter(({ owner }) => owner === hash).map(({ folder }) => folder));
    if (left !== undefined) {
      const processes = left.processes.length;
      if (processes > 0) this.#warn({ processes }, 'killing processes in control groups of an earlier agent');
      await this.end(left);
    }
    for (const { folder, owner, pid } of bases) {
      if (pid === process.pid || (owner !== hash && readStat(pid) !== null)) continue;
      if ((groupsBelow([folder])?.processes.length ?? 0) === 0) removeTree(folder.path);
    }
  }
}

/** All groups directly below these as one; undefined when there are none. */
function groupsBelow(bases: readonly GroupFolder[]): ControlGroup | undefined {
  const found = bases.flatMap((base) => groupsIn(base.path).map((name) => ({ ...base, path: join(base.path, name) })));
  return found.length === 0 ? undefined : new ControlGroup(found);
}

async function readBase(name: string): ReturnType<typeof createBaseGroup> {
  try {
    const own = ownGroups(readFileSync('/proc/self/mountinfo', 'utf8'), readFileSync('/proc/self/cgroup', 'utf8'));
    return await createBaseGroup(own, name);
  } catch (error) {
    return { folders: [], problems: [messageOf(error)] };
  }
}

async function removed(remove: () => boolean): Promise<boolean> {
  for (let tries = 0; tries < REMOVE_TRIES; tries += 1) {
    if (remove()) return true;
    await new Promise((resolve) => setTimeout(resolve, REMOVE_MS));
  }
  return false;
}

/**
 * User ids of workers: each worker of a root agent has one of its own while it lives, so that workers can neither
 * signal nor read one another, and what a worker leaves can be found.
 *
 * Agents on one host share the range. Each holds a slot of it by a lock file, and uses no other ids: whatever runs
 * under an id of a slot whose holder is dead was left by a worker, and may be ended.
 */
import { createHash } from 'node:crypto';
import { accessSync, constants, mkdirSync, readdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { acquireLock } from '../../lib/lock.mjs';
import { isErrno } from '../../lib/to-error.ts';
import { MIN_UIDS, show, type UidRange } from './uid-range.ts';

/** Shared by all agents of a host; emptied when the host starts. */
const LOCKS = '/run/capstan/worker-uids';
/** Most ids in a slot: as many workers, spares included, as one agent has at a time. */
const SLOT_UIDS = 1_024;

export interface WorkerUidsOptions {
  /** As usableUidRange returns it. */
  readonly range: UidRange;
  /** The agent's folder: decides which slot is tried first, and holds the locks where /run is not writable. */
  readonly folder: string;
  /** Folder of the lock files; another one for tests. */
  readonly locks?: string;
}

export class WorkerUids {
  /** The ids of this agent. */
  readonly slot: UidRange;
  readonly #lock: { release(): void };
  /** Free ids, the one that has been free for longest first. */
  readonly #free: number[];
  readonly #taken = new Set<number>();

  private constructor(slot: UidRange, lock: { release(): void }, start: number) {
    this.slot = slot;
    this.#lock = lock;
    const ids = Array.from({ length: slot.last - slot.first + 1 }, (_, each) => slot.first + each);
    const middle = start % ids.length;
    this.#free = [...ids.slice(middle), ...ids.slice(0, middle)];
  }

  /**
   * Takes a slot. Calls `sweep` with each slot of the range whose holder died and with the one taken, one after the other,
   * while no other agent can take it: it ends and removes what workers left there. Rejects with CONFLICT when other agents
   * hold all slots, with what `sweep` rejects with, and with file system errors.
   */
  static async open({ range, folder, locks }: WorkerUidsOptions, sweep: (slot: UidRange) => Promise<void>): Promise<WorkerUids> {
    const at = lockFolder(folder, locks);
    const slots = slotsOf(range);
    const held = new Set(readdirSync(at));
    for (const slot of slots.filter((each) => held.has(show(each)))) {
      const lock = acquireLock(join(at, show(slot)));
      if (!('release' in lock)) continue;
      await swept(slot, lock, sweep);
      lock.release();
    }
    // Containers do not see each other's locks: unequal agents begin with unequal ids.
    const seed = createHash('sha256').update(`${hostname()}\0${folder}`).digest().readUInt32LE();
    for (let tried = 0; tried < slots.length; tried += 1) {
      const slot = slots[(seed + tried) % slots.length] as UidRange;
      const lock = acquireLock(join(at, show(slot)));
      if (!('release' in lock)) continue;
      await swept(slot, lock, sweep);
      return new WorkerUids(slot, lock, Math.floor(Math.random() * SLOT_UIDS));
    }
    throw new CapstanError('CONFLICT', `other agents of this host use all user ids of CAPSTAN_WORKER_UIDS (${show(range)})`, {
      field: 'CAPSTAN_WORKER_UIDS',
    });
  }

  /** Returns an id that no worker has. Throws UNAVAILABLE when all are taken. */
  take(): number {
    const uid = this.#free.shift();
    if (uid === undefined) {
      throw new CapstanError('UNAVAILABLE', `all user ids of this agent (${show(this.slot)}) are taken by workers`, {
        field: 'CAPSTAN_WORKER_UIDS',
      });
    }
    this.#taken.add(uid);
    return uid;
  }

  /** Returns an id. No process of it may be left: an id whose processes could not be ended is never returned. */
  free(uid: number): void {
    if (this.#taken.delete(uid)) this.#free.push(uid);
  }

  /** Gives the slot back. No worker may be left. */
  close(): void {
    this.#lock.release();
  }
}

async function swept(slot: UidRange, lock: { release(): void }, sweep: (slot: UidRange) => Promise<void>): Promise<void> {
  try {
    await sweep(slot);
  } catch (error) {
    lock.release();
    throw error;
  }
}

function slotsOf({ first, last }: UidRange): UidRange[] {
  const slots: UidRange[] = [];
  for (let start = first; start <= last; start += SLOT_UIDS) {
    const end = Math.min(start + SLOT_UIDS - 1, last);
    // A short rest belongs to nobody.
    if (end - start + 1 >= MIN_UIDS) slots.push({ first: start, last: end });
  }
  return slots;
}

function lockFolder(folder: string, locks: string | undefined): string {
  return writableFolder(locks === undefined ? [LOCKS, join(folder, 'worker-uids')] : [locks]);
}

/** Returns the first folder that is writable, created if it is missing. Throws the last one's file system error. */
function writableFolder(folders: readonly string[]): string {
  const [folder, ...others] = folders;
  if (folder === undefined) throw new Error('there is no folder for the lock files');
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.W_OK);
    return folder;
  } catch (error) {
    if (others.length === 0 || !isErrno(error, 'EROFS', 'EACCES', 'ENOENT', 'EPERM')) throw error;
    return writableFolder(others);
  }
}

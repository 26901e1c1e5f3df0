/**
 * A lock file that names its holder, for programs on one host: `npm start` and `npm test` during the set-up of one
 * checkout, `capstan up` and agents on one data folder. The lock of a dead holder is free. Plain JavaScript, because
 * the set-up runs on any installed Node version.
 *
 * After a reboot another process may have the same id; so the file also has the holder's start time where the system
 * provides it.
 */
import { randomUUID } from 'node:crypto';
import { linkSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';

/**
 * Acquires the lock, or returns its holder.
 * @param {string} path of the lock file, in a folder that exists and is writable
 * @returns {{ release: () => void } | { heldBy: number }} the process id of a living holder
 */
export function acquireLock(path) {
  // Threads have one process id.
  const own = `${path}.${process.pid}-${randomUUID()}`;
  writeFileSync(own, `${JSON.stringify(identityOf(process.pid))}\n`);
  try {
    if (tryLink(own, path)) return holding(path);
    const holder = livingHolder(path);
    if (holder !== null) return { heldBy: holder };
    return takeOver(own, path);
  } finally {
    unlinkIfThere(own);
  }
}

/**
 * Returns what identifies a process on this host, also after its id is used again.
 * @param {number} pid
 * @returns {{ pid: number, started: string | null }}
 */
export function identityOf(pid) {
  return { pid, started: startOf(pid) };
}

/**
 * Whether the process still runs; false for one that has exited and waits to be reaped.
 * @param {{ pid: number, started: string | null }} identity
 * @returns {boolean}
 */
export function isRunning({ pid, started }) {
  if (!isAlive(pid) || isZombie(pid)) return false;
  const now = startOf(pid);
  return now === null || started === null || now === started;
}

/** When several find a dead holder, only one may replace its file: the guard decides which. */
function takeOver(own, path) {
  const guard = `${path}.takeover`;
  if (!tryLink(own, guard)) {
    const holder = livingHolder(guard);
    if (holder !== null) return { heldBy: holder };
    unlinkIfThere(guard); // the process that was replacing the lock died
    if (!tryLink(own, guard)) return { heldBy: livingHolder(guard) ?? process.pid };
  }
  try {
    const holder = livingHolder(path);
    if (holder !== null) return { heldBy: holder };
    const next = `${own}.next`;
    writeFileSync(next, readFileSync(own));
    renameSync(next, path);
    return holding(path);
  } finally {
    unlinkIfThere(guard);
  }
}

function holding(path) {
  return {
    release() {
      if (readHolder(path)?.pid === process.pid) unlinkIfThere(path);
    },
  };
}

function tryLink(from, to) {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function unlinkIfThere(path) {
  try {
    unlinkSync(path);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
}

/** Returns the holder's process id; null when the file is gone, is not a valid lock, or its holder is dead. */
function livingHolder(path) {
  const holder = readHolder(path);
  return holder !== null && isRunning(holder) ? holder.pid : null;
}

function readHolder(path) {
  let text;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return null;
    throw error;
  }
  try {
    const { pid, started } = JSON.parse(text);
    return Number.isInteger(pid) && pid > 0 ? { pid, started: typeof started === 'string' ? started : null } : null;
  } catch {
    return null; // not one of our locks: no holder
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** It has exited and waits to be reaped by its parent. */
function isZombie(pid) {
  return statOf(pid)?.[0] === 'Z';
}

/**
 * Returns the fields of /proc/<pid>/stat after the command name, which is in parentheses and may contain spaces; null
 * where there is none.
 */
function statOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null; // gone, or no /proc here
  }
}

/**
 * Returns what distinguishes this process from an earlier one with its id; null where the system does not provide it
 * (it needs Linux's /proc).
 */
function startOf(pid) {
  const ticks = statOf(pid)?.[19];
  if (ticks === undefined) return null;
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}:${ticks}`;
  } catch {
    return null; // a /proc without this file
  }
}

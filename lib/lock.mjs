/**
 * A lock file that names its holder, for programs on one host: `npm start` and `npm test` setting
 * one checkout up, `capstan up` and agents on one data folder. A holder that has died holds nothing. Plain
 * JavaScript, because the set-up runs on whatever Node the machine has.
 *
 * A process id alone would call a lock held after a reboot gave the id to somebody else; so the
 * file also carries the holder's start time where the system tells it.
 */
import { linkSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';

/**
 * Takes the lock, or says who has it.
 * @param {string} path of the lock file, in a folder that exists and can be written
 * @returns {{ release: () => void } | { heldBy: number }} the process id of a living holder
 */
export function acquireLock(path) {
  const own = `${path}.${process.pid}`;
  writeFileSync(own, `${JSON.stringify({ pid: process.pid, started: startOf(process.pid) })}\n`);
  try {
    if (tryLink(own, path)) return holding(path);
    const holder = livingHolder(path);
    if (holder !== null) return { heldBy: holder };
    return takeOver(own, path);
  } finally {
    unlinkIfThere(own);
  }
}

/** Only one of several that found a dead holder may replace its file: the guard decides which. */
function takeOver(own, path) {
  const guard = `${path}.takeover`;
  if (!tryLink(own, guard)) {
    const holder = livingHolder(guard);
    if (holder !== null) return { heldBy: holder };
    unlinkIfThere(guard); // whoever was taking over died at it
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

/** The holder's process id; null when the file is gone, unreadable as a lock, or its holder is dead. */
function livingHolder(path) {
  const holder = readHolder(path);
  if (holder === null || !isAlive(holder.pid) || isZombie(holder.pid)) return null;
  const started = startOf(holder.pid);
  return started === null || holder.started === null || started === holder.started ? holder.pid : null;
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
    return null; // not a lock of ours: nobody's
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

/** It has ended; only its parent has not asked yet how. */
function isZombie(pid) {
  return statOf(pid)?.[0] === 'Z';
}

/** Fields of /proc/<pid>/stat after the command name, which stands in parentheses and may hold spaces; null where there is none. */
function statOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null; // gone, or no /proc here
  }
}

/** What tells this process from an earlier one with its id; null where the system does not say (it needs Linux's /proc). */
function startOf(pid) {
  const ticks = statOf(pid)?.[19];
  if (ticks === undefined) return null;
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}:${ticks}`;
  } catch {
    return null; // a /proc without it
  }
}

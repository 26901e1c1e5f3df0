/**
 * Resident memory of process groups from /proc. One sample serves all watchers of a group.
 *
 * The agent forwards every request and every job, so a sample must not block its event loop: a process seen in an
 * unwatched group is not read again while it lives, and the others are read a few at a time. (Reading every process of
 * a host through promises blocked the loop for 10 ms four times a second on a host with a hundred of them.)
 */
import { readdir } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { readStat } from './process-stat.ts';

/** Sampling interval of all watched groups, ms. */
const LOOK_MS = 250;
/** Processes read in one turn of the event loop; about 10 µs each. */
const READS_A_TURN = 32;

type OnBytes = (bytes: number) => void;

/** By the group's leader. */
const watchers = new Map<number, OnBytes>();
/** Processes of unwatched groups. Cleared when a group is added, since they may belong to it. */
let strangers = new Set<number>();
let timer: NodeJS.Timeout | undefined;
let looking = false;

/**
 * Reports a few times a second the total bytes of all processes of a group; shared pages count once for each process.
 * Returns a function that ends the watch.
 */
export function watchGroup(leader: number, onBytes: OnBytes): () => void {
  watchers.set(leader, onBytes);
  strangers = new Set();
  timer ??= setInterval(() => void look(), LOOK_MS).unref();
  return () => {
    // The number may belong to another group by now.
    if (watchers.get(leader) !== onBytes) return;
    watchers.delete(leader);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

async function look(): Promise<void> {
  if (looking) return;
  looking = true;
  const before = strangers;
  const still = new Set<number>();
  const groups = new Map<number, number>();
  let reads = 0;
  // Without /proc no limit can be enforced.
  for (const name of await readdir('/proc').catch(() => [])) {
    const pid = Number(name);
    if (Number.isNaN(pid)) continue;
    // A leader is read even if it was unwatched before: it was until it created its group.
    if (before.has(pid) && !watchers.has(pid)) {
      still.add(pid);
      continue;
    }
    if (++reads % READS_A_TURN === 0) await nextTurn();
    const found = readStat(pid);
    if (found === null) continue;
    if (watchers.has(found.group)) groups.set(found.group, (groups.get(found.group) ?? 0) + found.residentBytes);
    else still.add(pid);
  }
  // A group was added meanwhile: the list of unwatched processes is no longer valid.
  if (strangers === before) strangers = still;
  looking = false;
  for (const [group, bytes] of groups) watchers.get(group)?.(bytes);
}

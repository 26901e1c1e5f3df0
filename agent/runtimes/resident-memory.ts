/**
 * Resident memory of process groups as /proc tells it. One look serves everyone who watches a group.
 *
 * The agent passes every request and every job on, so a look must not hold up its event loop: a
 * process that was seen in a group nobody watches is not read again as long as it lives, and the
 * others are read a few at a time. (Reading every process of a host through promises kept the loop
 * busy for 10 ms four times a second on a host with a hundred of them.)
 */
import { readdir } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { readStat } from './process-stat.ts';

/** How often all watched groups are looked at, ms. */
const LOOK_MS = 250;
/** Processes read in one turn of the event loop; about 10 µs each. */
const READS_A_TURN = 32;

type OnBytes = (bytes: number) => void;

/** By the group's leader. */
const watchers = new Map<number, OnBytes>();
/** Processes of groups that nobody watches. Emptied when a group is added, which may be theirs. */
let strangers = new Set<number>();
let timer: NodeJS.Timeout | undefined;
let looking = false;

/**
 * Tells a few times a second how many bytes all processes of a group have together; pages that they
 * share count once for each. Answers how to end that.
 */
export function watchGroup(leader: number, onBytes: OnBytes): () => void {
  watchers.set(leader, onBytes);
  strangers = new Set();
  timer ??= setInterval(() => void look(), LOOK_MS).unref();
  return () => {
    // The number may be another group's by now.
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
  // Where there is no /proc, no limit can be held.
  for (const name of await readdir('/proc').catch(() => [])) {
    const pid = Number(name);
    if (Number.isNaN(pid)) continue;
    // A leader is read even if it was a stranger: it was one until it began its group.
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
  // A group was added meanwhile: who is a stranger now is not known.
  if (strangers === before) strangers = still;
  looking = false;
  for (const [group, bytes] of groups) watchers.get(group)?.(bytes);
}

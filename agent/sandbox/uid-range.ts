/** The range of user ids of workers: its form, and which ids of this host it must not contain. */
import { readFileSync } from 'node:fs';

import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';

/** User ids from `first` to `last`, both included. */
export interface UidRange {
  readonly first: number;
  readonly last: number;
}

const SETTING = 'CAPSTAN_WORKER_UIDS';
/** The highest id that every program reads as a positive number. */
const MAX_UID = 2 ** 31 - 1;
/** Fewer would be reused too soon, and two agents could not share them. */
export const MIN_UIDS = 64;
/** Used without a setting: above all ids that systemd and login.defs give out; then below those of a small user namespace. */
const DEFAULTS: readonly UidRange[] = [
  { first: 1_900_000_000, last: 1_900_065_535 },
  { first: 30_000, last: 59_999 },
];

/** Returns the range that `<first>-<last>` names. Throws CONFIG, which names the rule. */
export function parseUidRange(text: string): UidRange {
  const [, from = '', to = ''] = /^(\d{1,10})-(\d{1,10})$/.exec(text) ?? [];
  const [first, last] = [Number(from), Number(to)];
  if (from === '') throw invalid(`must be two user ids as in 1900000000-1900065535, not ${JSON.stringify(text.slice(0, 64))}`);
  if (first === 0) throw invalid('must not contain 0, the user id of root');
  if (last > MAX_UID) throw invalid(`must end at ${MAX_UID} or earlier`);
  if (last - first + 1 < MIN_UIDS) throw invalid(`must contain at least ${MIN_UIDS} user ids`);
  return { first, last };
}

/** The files that name ids which are in use on this host, and the ids of this process's user namespace. */
export interface HostIds {
  readonly passwd: string;
  readonly group: string;
  readonly subuid: string;
  readonly subgid: string;
  readonly uidMap: string;
}

export function readHostIds(): HostIds {
  return {
    passwd: textOf('/etc/passwd'),
    group: textOf('/etc/group'),
    subuid: textOf('/etc/subuid'),
    subgid: textOf('/etc/subgid'),
    uidMap: textOf('/proc/self/uid_map'),
  };
}

/**
 * Returns the range of the setting, or without one the first default that fits this host. A worker's group has the
 * number of its user. Throws CONFIG when an id of the range belongs to a user, a group or their containers, or does not
 * exist in this process's user namespace.
 */
export function usableUidRange(setting: string | undefined, ids: HostIds = readHostIds()): UidRange {
  if (setting !== undefined) {
    const range = parseUidRange(setting);
    const problem = problemOf(range, ids);
    if (problem !== undefined) throw invalid(problem);
    return range;
  }
  const [first, ...others] = DEFAULTS.map((range) => ({ range, problem: problemOf(range, ids) }));
  const usable = [first, ...others].find((each) => each?.problem === undefined);
  if (usable === undefined) throw invalid(`must be set to a range of free user ids: the default ${first?.problem ?? ''}`);
  return usable.range;
}

function problemOf(range: UidRange, ids: HostIds): string | undefined {
  if (!isMapped(range, ids.uidMap)) return `${show(range)} does not exist in the user namespace of this container`;
  const user = entryIn(range, ids.passwd);
  if (user !== undefined) return `contains ${user.id}, the id of the user ${user.name} in /etc/passwd`;
  const group = entryIn(range, ids.group);
  if (group !== undefined) return `contains ${group.id}, the id of the group ${group.name} in /etc/group`;
  const owner = subordinateIn(range, ids.subuid) ?? subordinateIn(range, ids.subgid);
  return owner === undefined ? undefined : `overlaps the ids that /etc/subuid or /etc/subgid gives to containers of ${owner}`;
}

export function show({ first, last }: UidRange): string {
  return `${first}-${last}`;
}

/** Fields of passwd(5) and group(5): name, password, id. */
function entryIn(range: UidRange, text: string): { readonly name: string; readonly id: number } | undefined {
  for (const line of text.split('\n')) {
    const [name = '', , id = ''] = line.split(':');
    if (id !== '' && isIn(range, Number(id))) return { name, id: Number(id) };
  }
  return undefined;
}

/** Fields of subuid(5): owner, first id, count. */
function subordinateIn(range: UidRange, text: string): string | undefined {
  for (const line of text.split('\n')) {
    const [owner = '', first = '', count = ''] = line.split(':');
    if (count !== '' && Number(first) <= range.last && Number(first) + Number(count) > range.first) return owner;
  }
  return undefined;
}

/** Lines of user_namespaces(7): first id inside, first id outside, count. Without the file there is no namespace. */
function isMapped(range: UidRange, text: string): boolean {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return (
    lines.length === 0 ||
    lines.some((line) => {
      const [first = 0, , count = 0] = line.trim().split(/\s+/).map(Number);
      return first <= range.first && first + count > range.last;
    })
  );
}

function isIn({ first, last }: UidRange, id: number): boolean {
  return id >= first && id <= last;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return '';
    throw error;
  }
}

function invalid(rule: string): CapstanError {
  return new CapstanError('CONFIG', `${SETTING}: ${rule}`, { field: SETTING });
}

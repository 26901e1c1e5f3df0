/** Resident memory of processes as /proc tells it; 0 for one that is gone. */
import { readdir, readFile } from 'node:fs/promises';

const PAGE_BYTES = 4_096;
/** Fields of /proc/<pid>/stat after the name, counted from 0. */
const GROUP_FIELD = 2;
const RESIDENT_FIELD = 21;
/** The processes of the host are listed at most this often, ms, however many workers ask. */
const SNAPSHOT_MS = 200;
/** Files read at once. */
const AT_ONCE = 32;

let snapshot: { readonly at: number; readonly groups: Promise<ReadonlyMap<number, number>> } | undefined;

/** Bytes of all processes of a group together; pages that they share count once for each. */
export async function groupResidentBytes(leader: number): Promise<number> {
  const now = performance.now();
  if (snapshot === undefined || now - snapshot.at > SNAPSHOT_MS) snapshot = { at: now, groups: readGroups() };
  return (await snapshot.groups).get(leader) ?? 0;
}

async function readGroups(): Promise<ReadonlyMap<number, number>> {
  const groups = new Map<number, number>();
  // Where there is no /proc, no limit can be held.
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const readNext = async (): Promise<void> => {
    for (let pid = pids.pop(); pid !== undefined; pid = pids.pop()) {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      // The name stands in parentheses and may hold anything.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const group = Number(fields[GROUP_FIELD] ?? 0);
      groups.set(group, (groups.get(group) ?? 0) + Number(fields[RESIDENT_FIELD] ?? 0) * PAGE_BYTES);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, readNext));
  return groups;
}

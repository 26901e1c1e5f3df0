/**
 * CPU time and memory of a process and its descendants by role: shows which part limits a load. Reads /proc, so it
 * works on Linux only; elsewhere the result is empty.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** /proc counts in ticks of 1/100 s on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

interface Process {
  readonly parent: number;
  readonly seconds: number;
}

/** Seconds of CPU used so far, by role: `up`, `scheduler`, `gateway`, `agent`, `workers`. */
export function cpuByRole(root: number): Map<string, number> {
  const processes = allProcesses();
  const roles = new Map<string, number>();
  for (const [pid, { seconds }] of processes) {
    if (!isBelow(pid, root, processes)) continue;
    const role = roleOf(pid);
    roles.set(role, (roles.get(role) ?? 0) + seconds);
  }
  return roles;
}

/** Cores used between two readings `seconds` apart. */
export function coresBetween(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  seconds: number,
): Record<string, number> {
  return Object.fromEntries([...after].map(([role, used]) => [role, Math.max(0, used - (before.get(role) ?? 0)) / seconds]));
}

/** Id of the process with this role below `root`; null if none. */
export function processOf(root: number, role: string): number | null {
  const processes = allProcesses();
  for (const pid of processes.keys()) if (pid !== root && isBelow(pid, root, processes) && roleOf(pid) === role) return pid;
  return null;
}

/** Resident memory of a process: current and peak, bytes. */
export function residentOf(pid: number): { readonly now: number; readonly most: number } {
  const text = readOrNull(`/proc/${pid}/status`) ?? '';
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024;
  return { now: field('VmRSS'), most: field('VmHWM') };
}

function allProcesses(): Map<number, Process> {
  const processes = new Map<number, Process>();
  if (!existsSync('/proc/self/stat')) return processes;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const found = readProcess(name);
    if (found !== null) processes.set(Number(name), found);
  }
  return processes;
}

function readProcess(pid: string): Process | null {
  const text = readOrNull(`/proc/${pid}/stat`);
  if (text === null) return null;
  // The second field, the name in parentheses, may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(fields[1]), seconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND };
}

function isBelow(pid: number, root: number, processes: ReadonlyMap<number, Process>): boolean {
  for (let at: number | undefined = pid; at !== undefined && at > 0; at = processes.get(at)?.parent) if (at === root) return true;
  return false;
}

/** The CLI's processes have their role as the last argument. Any other process that an agent starts is a worker. */
function roleOf(pid: number): string {
  const last = (readOrNull(`/proc/${pid}/cmdline`) ?? '').split('\0').filter(Boolean).at(-1) ?? '';
  return ['up', 'scheduler', 'gateway', 'agent'].includes(last) ? last : 'workers';
}

/** A process may end between the listing and the read. */
function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

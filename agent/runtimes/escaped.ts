/**
 * Finds processes that left their worker's group (setsid, a daemon) and would outlive it. They are identified in /proc
 * by what they inherit: the agent's mark together with the worker's id (in a fork of a host that was started before its
 * worker was known, the host's id); and the working folder, which remains when a process clears its environment. A
 * process without any of these is not found.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, readlink } from 'node:fs/promises';

import { isErrno } from '../../lib/to-error.ts';
import { readStat } from './process-stat.ts';

/** Identifies the agent: its data folder, then its process. */
export const AGENT_MARK = 'CAPSTAN_AGENT_MARK';
export const WORKER_MARK = 'CAPSTAN_WORKER_ID';
/** Identifies one host process: /proc shows a fork the environment that its host was started with. */
export const HOST_MARK = 'CAPSTAN_HOST_ID';

/** A process that starts others during the search is found in the next round. */
const ROUNDS = 5;
const ROUND_MS = 20;
/** Most rounds to wait for killed processes: a busy machine needs time. */
const LAST_ROUNDS = 500;
/** Files read concurrently. */
const AT_ONCE = 32;

/** Returns the mark of this process as the agent of a data folder. */
export function agentMark(folder: string): string {
  return `${folderMark(folder)}${process.pid}:${readStat(process.pid)?.start ?? ''}`;
}

/** Returns the agent's mark as an environment, to override one that a release may set. */
export function markOf(env: Readonly<Record<string, string>>): Record<string, string> {
  const mark = env[AGENT_MARK];
  return mark === undefined ? {} : { [AGENT_MARK]: mark };
}

/** What identifies the processes of a worker. */
export interface WorkerMarks {
  /** The agent's mark; undefined where processes are not marked. */
  readonly agent: string | undefined;
  readonly workerId: string;
  readonly hostId?: string;
  /** The worker's working folder; empty if it has none of its own. */
  readonly workFolder: string;
}

/** Kills processes that have the marks of a worker or work in its folder; returns how many it killed. */
export function killEscaped({ agent, workerId, hostId, workFolder }: WorkerMarks): Promise<number> {
  const names = [`${WORKER_MARK}=${workerId}`, ...(hostId === undefined ? [] : [`${HOST_MARK}=${hostId}`])];
  return killAll(
    (marks) =>
      (agent !== undefined && marks.agent === agent && names.some((name) => marks.environment.includes(name))) ||
      (workFolder !== '' && isWithin(marks.folder, workFolder)),
  );
}

/**
 * Kills leftovers of earlier agents on this folder and processes that work in `workFolders`; skips processes of a
 * living agent.
 */
export function killLeftovers(folder: string, workFolders: string): Promise<number> {
  const prefix = folderMark(folder);
  return killAll(({ agent, folder: workFolder }) => {
    if (isWithin(workFolder, workFolders)) return true;
    if (agent?.startsWith(prefix) !== true) return false;
    const [pid, start] = agent.slice(prefix.length).split(':');
    return readStat(Number(pid))?.start !== start;
  });
}

function folderMark(folder: string): string {
  return `${createHash('sha256').update(folder).digest('hex').slice(0, 16)}:`;
}

/** /proc shows a removed folder in which a process works as `<path> (deleted)`. */
function isWithin(folder: string, parent: string): boolean {
  return folder === parent || folder === `${parent} (deleted)` || folder.startsWith(`${parent}/`);
}

interface Marks {
  readonly agent: string | undefined;
  /** Its working folder; empty when unreadable. */
  readonly folder: string;
  readonly environment: readonly string[];
}

async function killAll(isMeant: (marks: Marks) => boolean): Promise<number> {
  const killed = new Set<number>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const found = await marked(isMeant);
    if (found.length === 0) break;
    for (const pid of found) if (kill(pid)) killed.add(pid);
    await pause();
  }
  // An exiting process has no environment any more but still holds its resources.
  for (let round = 0; round < LAST_ROUNDS && [...killed].some(isAlive); round += 1) await pause();
  return killed.size;
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ROUND_MS));
}

function isAlive(pid: number): boolean {
  const state = readStat(pid)?.state ?? 'X';
  return state !== 'Z' && state !== 'X';
}

async function marked(isMeant: (marks: Marks) => boolean): Promise<number[]> {
  // Without /proc nothing can be found.
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const found: number[] = [];
  const readNext = async (): Promise<void> => {
    for (let pid = pids.pop(); pid !== undefined; pid = pids.pop()) {
      // Of another user, or gone; a zombie has none.
      const environment = (await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '')).split('\0');
      const agent = environment.find((entry) => entry.startsWith(`${AGENT_MARK}=`))?.slice(AGENT_MARK.length + 1);
      // A person's shell inside a worker's folder is not a process of the worker.
      const folder = readStat(Number(pid))?.hasTerminal === false ? await readlink(`/proc/${pid}/cwd`).catch(() => '') : '';
      if (Number(pid) !== process.pid && isMeant({ agent, environment, folder })) found.push(Number(pid));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, readNext));
  return found;
}

/**
 * The number was read a moment ago: it could belong to another process only if all numbers had been used in between.
 */
function kill(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch (error) {
    if (isErrno(error, 'ESRCH', 'EPERM')) return false;
    throw error;
  }
}

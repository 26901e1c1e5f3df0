/**
 * Processes that left their worker's group (setsid, a daemon) and would outlive it. They are found in
 * /proc by what they inherit: the agent's mark with the worker's id or, in a fork of a host that was
 * started before its worker was known, the host's id; and the working folder, which one that clears
 * its environment keeps. A process that leaves all of that behind is not found.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, readlink } from 'node:fs/promises';

import { isErrno } from '../../lib/to-error.ts';
import { readStat } from './process-stat.ts';

/** Names the agent: its data folder, then its process. */
export const AGENT_MARK = 'CAPSTAN_AGENT_MARK';
export const WORKER_MARK = 'CAPSTAN_WORKER_ID';
/** Names one host process: /proc shows a fork the environment that its host was started with. */
export const HOST_MARK = 'CAPSTAN_HOST_ID';

/** A process that starts others while it is looked for shows up in the next round. */
const ROUNDS = 5;
const ROUND_MS = 20;
/** What was killed is waited for at most this many rounds: a busy machine takes its time. */
const LAST_ROUNDS = 500;
/** Files read at once. */
const AT_ONCE = 32;

/** The mark of this very process as the agent on a data folder. */
export function agentMark(folder: string): string {
  return `${folderMark(folder)}${process.pid}:${readStat(process.pid)?.start ?? ''}`;
}

/** The agent's mark in an environment, to be put over one that a release may set. */
export function markOf(env: Readonly<Record<string, string>>): Record<string, string> {
  const mark = env[AGENT_MARK];
  return mark === undefined ? {} : { [AGENT_MARK]: mark };
}

/** What tells that a process is of one worker. */
export interface WorkerMarks {
  /** The agent's mark; undefined where processes are not marked. */
  readonly agent: string | undefined;
  readonly workerId: string;
  readonly hostId?: string;
  /** The worker's working folder; empty where it has none of its own. */
  readonly workFolder: string;
}

/** Kills what carries the marks of a worker or works in its folder; answers how many processes it killed. */
export function killEscaped({ agent, workerId, hostId, workFolder }: WorkerMarks): Promise<number> {
  const names = [`${WORKER_MARK}=${workerId}`, ...(hostId === undefined ? [] : [`${HOST_MARK}=${hostId}`])];
  return killAll(
    (marks) =>
      (agent !== undefined && marks.agent === agent && names.some((name) => marks.environment.includes(name))) ||
      (workFolder !== '' && isWithin(marks.folder, workFolder)),
  );
}

/** Kills what earlier agents on this folder left, and what works in `workFolders`; what belongs to one that lives is not touched. */
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

/** A folder that was removed while a process works in it is shown as `<path> (deleted)`. */
function isWithin(folder: string, parent: string): boolean {
  return folder === parent || folder === `${parent} (deleted)` || folder.startsWith(`${parent}/`);
}

interface Marks {
  readonly agent: string | undefined;
  /** Its working folder; empty where that cannot be read. */
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
  // One that is on its way out has no environment any more, and yet holds what it holds.
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
  // Where there is no /proc, nothing can be found.
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const found: number[] = [];
  const readNext = async (): Promise<void> => {
    for (let pid = pids.pop(); pid !== undefined; pid = pids.pop()) {
      // Of another user, or gone; one that only waits to be reaped has none.
      const environment = (await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '')).split('\0');
      const agent = environment.find((entry) => entry.startsWith(`${AGENT_MARK}=`))?.slice(AGENT_MARK.length + 1);
      // Somebody's shell that looks around in a worker's folder is no process of the worker's.
      const folder = readStat(Number(pid))?.hasTerminal === false ? await readlink(`/proc/${pid}/cwd`).catch(() => '') : '';
      if (Number(pid) !== process.pid && isMeant({ agent, environment, folder })) found.push(Number(pid));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, readNext));
  return found;
}

/** Read a moment ago: that its number is another process's by now would take all numbers to be used up meanwhile. */
function kill(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch (error) {
    if (isErrno(error, 'ESRCH', 'EPERM')) return false;
    throw error;
  }
}

/**
 * Processes that left their worker's group (setsid, a daemon) and would outlive it. Every process
 * of a worker inherits two variables by which it is found in /proc; one that clears its own
 * environment is not.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';

import { isErrno } from '../../proto/thrown.ts';

/** Names the agent: its data folder, then its process. */
export const AGENT_MARK = 'CAPSTAN_AGENT_MARK';
export const WORKER_MARK = 'CAPSTAN_WORKER_ID';

/** A process that starts others while it is looked for shows up in the next round. */
const ROUNDS = 5;
const ROUND_MS = 20;
/** What was killed is waited for at most this many rounds: a busy machine takes its time. */
const LAST_ROUNDS = 100;
/** Field of /proc/<pid>/stat after the name, counted from 0. */
const START_FIELD = 19;
/** Files read at once. */
const AT_ONCE = 32;

/** The mark of this very process as the agent on a data folder. */
export async function agentMark(folder: string): Promise<string> {
  return `${folderMark(folder)}${process.pid}:${(await startOf(process.pid)) ?? ''}`;
}

/** The agent's mark in an environment, to be put over one that a release may set. */
export function markOf(env: Readonly<Record<string, string>>): Record<string, string> {
  const mark = env[AGENT_MARK];
  return mark === undefined ? {} : { [AGENT_MARK]: mark };
}

/** Kills what carries the marks of an agent and of one of its workers; answers how many processes it killed. */
export function killEscaped(agentMark: string, workerId: string): Promise<number> {
  const worker = `${WORKER_MARK}=${workerId}`;
  return killAll(async (marks) => marks.agent === agentMark && marks.environment.includes(worker));
}

/** Kills what earlier agents on this folder left; what belongs to one that lives is not touched. */
export function killLeftovers(folder: string): Promise<number> {
  const prefix = folderMark(folder);
  return killAll(async ({ agent }) => {
    if (agent?.startsWith(prefix) !== true) return false;
    const [pid, start] = agent.slice(prefix.length).split(':');
    return (await startOf(Number(pid))) !== start;
  });
}

function folderMark(folder: string): string {
  return `${createHash('sha256').update(folder).digest('hex').slice(0, 16)}:`;
}

/** When a process was started, in ticks since the boot: with its number it names it for good. Absent when it is gone. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[START_FIELD];
}

interface Marks {
  readonly agent: string | undefined;
  readonly environment: readonly string[];
}

async function killAll(isMeant: (marks: Marks) => Promise<boolean>): Promise<number> {
  const killed = new Set<number>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const found = await marked(isMeant);
    if (found.length === 0) break;
    for (const pid of found) if (kill(pid)) killed.add(pid);
    await pause();
  }
  // One that is on its way out has no environment any more, and yet holds what it holds.
  for (let round = 0; round < LAST_ROUNDS && (await anyAlive(killed)); round += 1) await pause();
  return killed.size;
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ROUND_MS));
}

async function anyAlive(pids: Iterable<number>): Promise<boolean> {
  for (const pid of pids) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    const state = stat.slice(stat.lastIndexOf(')') + 2).charAt(0);
    // Z and X wait for their parent alone.
    if (state !== '' && state !== 'Z' && state !== 'X') return true;
  }
  return false;
}

async function marked(isMeant: (marks: Marks) => Promise<boolean>): Promise<number[]> {
  // Where there is no /proc, nothing can be found.
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const found: number[] = [];
  const readNext = async (): Promise<void> => {
    for (let pid = pids.pop(); pid !== undefined; pid = pids.pop()) {
      // Of another user, or gone; one that only waits to be reaped has none.
      const environment = (await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '')).split('\0');
      const agent = environment.find((entry) => entry.startsWith(`${AGENT_MARK}=`))?.slice(AGENT_MARK.length + 1);
      if (agent !== undefined && (await isMeant({ agent, environment }))) found.push(Number(pid));
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

/**
 * Processes that left their worker's group (setsid, a daemon) and would outlive it. Every process
 * of a worker inherits two variables by which it is found in /proc; one that clears its own
 * environment is not.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';

import { isErrno } from '../../proto/thrown.ts';
import { readStat } from './process-stat.ts';

/** Names the agent: its data folder, then its process. */
export const AGENT_MARK = 'CAPSTAN_AGENT_MARK';
export const WORKER_MARK = 'CAPSTAN_WORKER_ID';

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

/** Kills what carries the marks of an agent and of one of its workers; answers how many processes it killed. */
export function killEscaped(agentMark: string, workerId: string): Promise<number> {
  const worker = `${WORKER_MARK}=${workerId}`;
  return killAll((marks) => marks.agent === agentMark && marks.environment.includes(worker));
}

/** Kills what earlier agents on this folder left; what belongs to one that lives is not touched. */
export function killLeftovers(folder: string): Promise<number> {
  const prefix = folderMark(folder);
  return killAll(({ agent }) => {
    if (agent?.startsWith(prefix) !== true) return false;
    const [pid, start] = agent.slice(prefix.length).split(':');
    return readStat(Number(pid))?.start !== start;
  });
}

function folderMark(folder: string): string {
  return `${createHash('sha256').update(folder).digest('hex').slice(0, 16)}:`;
}

interface Marks {
  readonly agent: string | undefined;
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
      if (agent !== undefined && isMeant({ agent, environment })) found.push(Number(pid));
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

/**
 * Ends what a stopped attempt started and left behind, where the worker runs one attempt at a time: everything of the
 * worker that was started since the attempt began is its own. What the module or earlier attempts started stays.
 * capstan_bootstrap/attempt_processes.py is the same for Python.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

import { isErrno } from '../../../lib/to-error.ts';
import { HOST_MARK, WORKER_MARK } from '../escaped.ts';
import { readStat, readStatFile, type ProcessStat } from '../process-stat.ts';
import type { LoadSpec, ProcessScope } from '../host-protocol.ts';

/** Length of a clock tick, s: 100 per second on every Linux that Node supports. */
const TICK_S = 0.01;
const ROUNDS = 50;
const ROUND_MS = 10;
/** In a container the kernel's clock may be replaced: then start times are compared with this process's own, s. */
const MAX_DRIFT_S = 2;

interface Worker {
  readonly scope: ProcessScope;
  /** Its first process, which stays. */
  readonly root: number;
  readonly workFolder: string;
  /** `NAME=value` in the environment of its processes; undefined without one. */
  readonly mark: string | undefined;
}

export class AttemptProcesses {
  readonly #worker: Worker;
  readonly #driftS: number;
  #sinceTick = 0;
  #lastPid = 0;

  private constructor(worker: Worker) {
    this.#worker = worker;
    const driftS = nodeStart() * TICK_S + process.uptime() - uptimeS();
    this.#driftS = Math.abs(driftS) > MAX_DRIFT_S ? driftS : 0;
  }

  /** Returns undefined for a worker that runs several attempts at a time: a process may be of any of them. */
  static of({ maxConcurrency, processScope, workFolder }: LoadSpec): AttemptProcesses | undefined {
    if (maxConcurrency > 1) return undefined;
    const root = process.pid;
    const mark = entryOf(root, (entry) => entry.startsWith(`${HOST_MARK}=`));
    return new AttemptProcesses({ scope: processScope, root, workFolder, mark });
  }

  /** Of a worker that is not this process but one below the agent: what descends from it or inherited its environment. */
  static ofProgram(root: number, workerId: string): AttemptProcesses {
    return new AttemptProcesses({ scope: 'marked', root, workFolder: '', mark: `${WORKER_MARK}=${workerId}` });
  }

  /** An attempt begins. Takes some microseconds: most attempts are not stopped. */
  begin(): void {
    this.#sinceTick = Math.round((uptimeS() + this.#driftS) / TICK_S);
    this.#lastPid = Number(read('/proc/loadavg').split(' ')[4] ?? 0);
  }

  /** Kills what was started since then; resolves when it is gone. */
  async end(): Promise<void> {
    const refused = new Set<number>();
    for (let round = 0; round < ROUNDS; round += 1) {
      const found = this.#left(refused);
      if (found.length === 0) return;
      for (const pid of found) if (!kill(pid)) refused.add(pid);
      await pause(ROUND_MS);
    }
  }

  #left(refused: ReadonlySet<number>): number[] {
    const stats = new Map(pids().flatMap((pid) => statEntry(pid)));
    return [...stats].flatMap(([pid, stat]) => {
      const isOver = stat.state === 'Z' || stat.state === 'X';
      const isKept = pid === process.pid || pid === this.#worker.root || refused.has(pid) || isOver || !this.#isLater(pid, stat);
      return !isKept && this.#isOwn(pid, stats) ? [pid] : [];
    });
  }

  #isLater(pid: number, { start }: ProcessStat): boolean {
    const tick = Number(start);
    return tick > this.#sinceTick || (tick === this.#sinceTick && pid > this.#lastPid);
  }

  #isOwn(pid: number, stats: ReadonlyMap<number, ProcessStat>): boolean {
    const stat = stats.get(pid);
    // What has no parent here was sent in from outside, for example an operator's shell.
    const { scope, root, workFolder, mark } = this.#worker;
    if (scope === 'own') return stat?.parent !== 0;
    if (scope === 'user') return ownerOf(pid) === process.getuid?.();
    let parent = pid;
    for (let known = stat; known !== undefined && parent !== root; known = stats.get(parent)) parent = known.parent;
    if (parent === root || (mark !== undefined && entryOf(pid, (entry) => entry === mark) !== undefined)) return true;
    // A person's shell in the folder is not a process of the worker.
    if (workFolder === '' || stat?.hasTerminal !== false) return false;
    const folder = folderOf(pid);
    return folder === workFolder || folder.startsWith(`${workFolder}/`);
  }
}

/**
 * Returns when Node began in this process, in ticks: its first own thread. The process itself is older by all that was before Node's
 * first line, such as a shell, or seconds on a busy host.
 */
function nodeStart(): number {
  const threads = names('/proc/self/task').filter((id) => Number(id) !== process.pid);
  const starts = threads.map((id) => Number(readStatFile(`/proc/self/task/${id}/stat`)?.start ?? Number.NaN));
  const known = starts.filter((start) => Number.isFinite(start));
  return known.length > 0 ? Math.min(...known) : Number(readStat(process.pid)?.start ?? 0);
}

function uptimeS(): number {
  return Number(read('/proc/uptime').split(' ')[0] ?? 0);
}

function pids(): number[] {
  return names('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function statEntry(pid: number): [number, ProcessStat][] {
  const stat = readStat(pid);
  return stat === null ? [] : [[pid, stat]];
}

/** Returns the first entry of a process's environment that matches. */
function entryOf(pid: number, isMatch: (entry: string) => boolean): string | undefined {
  return read(`/proc/${pid}/environ`).split('\0').find(isMatch);
}

/** Returns an empty value for a process that is gone, or another user's, and where there is no /proc. */
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function ownerOf(pid: number): number | undefined {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
}

function folderOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
}

/** Returns false for a process that this one may not kill. */
function kill(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch (error) {
    if (isErrno(error, 'ESRCH')) return true;
    if (isErrno(error, 'EPERM')) return false;
    throw error;
  }
}

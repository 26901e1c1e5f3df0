/**
 * One sandbox as the agent sees it. A shell waits until what the sandbox needs is there (a slot, a network, a control
 * group) and then becomes bubblewrap, so that pipes exist from the first moment. Bubblewrap's child is the first
 * process of the sandbox's pid namespace: with it, everything inside ends.
 *
 * ```
 * agent ── sh, nsenter, bwrap (one process) ── first process (childPid) ── worker (pid) ── what it starts
 * ```
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';

import { messageOf, isErrno } from '../../../lib/to-error.ts';
import { markOf } from '../../runtimes/escaped.ts';
import { readStat } from '../../runtimes/process-stat.ts';
import type { WorkerLimits } from '../cgroups/worker-limits.ts';
import type { Assignment, LaunchSpec, Vantage, WorkerExit, WorkerProcess } from '../launcher.ts';
import { endOutputLater } from '../output-grace.ts';
import { CLEAN_ENVIRONMENT } from '../user/clean-environment.ts';
import { withoutInherited } from '../host/descriptors.ts';
import type { MemoryFiles } from './memory-files.ts';
import { quoted } from './quoted.ts';

/** Descriptors of the shell. Those of a worker come first; `sh` takes a single digit in a redirection. */
const FIRST_PIPE = 3;
export const FDS = { arguments: 6, info: 7, gate: 8, seccomp: 9, passwd: 10, environment: 11, hosts: 12 } as const;
const GATE = `line=$(cat <&${FDS.gate}) && [ -n "$line" ] || exit 1; exec ${FDS.gate}<&-; eval "$line"`;
const POLL_MS = 5;
/** Time for the kernel to remove the last process of a sandbox: drivers of devices may take long. */
const GONE_POLLS = 6_000;
/** Exit code of a program that a signal ended, less the signal. */
const SIGNALLED = 128;
/** Time for bubblewrap to say which process is the first, when it is to be killed. */
const INFO_MS = 2_000;
const LONGEST_COMPLAINT = 500;

/** What the shell carries out once everything is prepared. */
export interface Preparation {
  /** Arguments of bubblewrap that are hidden from the sandbox. */
  readonly bwrap: readonly string[];
  readonly passwd: string;
  readonly hosts: string;
  readonly environment: string;
  /** Lines of `sh` to run before. */
  readonly before: readonly string[];
  /** The command that ends up as bubblewrap, and the command inside. */
  readonly command: readonly string[];
}

/** What a sandbox needs of the launcher. */
export interface SandboxParts {
  /** A file with the filter of system calls. */
  readonly seccompFile: string | undefined;
  /** As Vantage. */
  readonly isAgentsUser: boolean;
  prepare(): Promise<Preparation>;
  /** Gives a spare its build, its limits and its network. */
  assign(assignment: Assignment): Promise<void>;
  /** As WorkerProcess. */
  listens(port: number): boolean | undefined;
  /** Frees what `prepare` and `assign` took. Never rejects. */
  release(): Promise<void>;
  readonly limits: WorkerLimits;
  readonly memoryFiles: MemoryFiles;
}

export class SandboxProcess implements WorkerProcess {
  readonly #order: LaunchSpec;
  readonly #parts: SandboxParts;
  readonly #child: ChildProcess;
  readonly pipes: readonly Socket[];
  readonly started: Promise<void>;
  readonly gone: Promise<WorkerExit>;
  /** Its shell has been told what to do. */
  #opened: Promise<void> | undefined;
  readonly #info = Promise.withResolvers<void>();
  /** The first process of the sandbox, with its start, which tells it from a later process of the same number. */
  #first: { readonly pid: number; readonly start: string } | undefined;
  #pid: number | undefined;
  #reason: string | undefined;
  #problem: string | undefined;
  #complaint = '';
  #killed = false;
  #over = false;
  /** Where the kernel does not charge the worker for its files in memory. */
  #files: ReturnType<MemoryFiles['watch']> | undefined;

  constructor(order: LaunchSpec, parts: SandboxParts) {
    this.#order = order;
    this.#parts = parts;
    const pipes = order.kind === 'host' ? order.pipes + (order.lifeline ? 1 : 0) : 0;
    this.#child = start(pipes, parts.seccompFile, markOf(order.env));
    this.pipes =
      this.#child.pid === undefined
        ? []
        : (this.#streams.slice(FIRST_PIPE, FIRST_PIPE + (order.kind === 'host' ? order.pipes : 0)) as Socket[]);
    // A broken pipe means a dying process, whose exit says more.
    for (const stream of this.#streams.slice(FIRST_PIPE)) stream?.on('error', () => undefined);
    this.started = this.#info.promise.then(() => (this.#first === undefined ? new Promise<void>(() => undefined) : undefined));
    const { promise, resolve } = Promise.withResolvers<WorkerExit>();
    this.gone = promise;
    this.#child.once('error', (error) => resolve(this.#finish({ kind: 'not-started', reason: error.message })));
    if (this.#child.pid === undefined) return;
    this.#child.stderr?.on('data', (data: Buffer) => {
      if (this.#complaint.length < LONGEST_COMPLAINT) this.#complaint += data.toString('utf8');
    });
    this.#readInfo();
    this.#child.once('exit', (code, signal) => {
      endOutputLater(this.#child);
      resolve(this.#ended(code, signal));
    });
    this.#opened = this.#open();
  }

  get pid(): number | undefined {
    if (this.#pid === undefined && this.#first !== undefined) [this.#pid] = childrenOf(this.#first.pid);
    return this.#pid;
  }

  get vantage(): Vantage | undefined {
    if (this.#first === undefined || !isSame(this.#first)) return undefined;
    return { place: this.#first.pid, isAgentsUser: this.#parts.isAgentsUser };
  }

  get stdout(): Readable | undefined {
    return this.#child.stdout ?? undefined;
  }

  get stderr(): Readable | undefined {
    return this.#child.stderr ?? undefined;
  }

  listens(port: number): boolean | undefined {
    return this.#parts.listens(port);
  }

  async assign(assignment: Assignment): Promise<void> {
    // Before that it has no slot.
    await this.#opened;
    if (this.#problem !== undefined) throw new Error(this.#problem);
    await this.#parts.assign(assignment);
    this.#limit(assignment);
  }

  terminate(reason?: string): void {
    if (this.#over) return;
    this.#reason ??= reason;
    const { pid } = this;
    if (pid === undefined || this.#first === undefined) {
      this.kill();
      return;
    }
    for (const each of this.#order.kind === 'host' ? descendantsOf(this.#first.pid) : [pid]) signal(each, 'SIGTERM');
  }

  kill(reason?: string): void {
    if (this.#over) return;
    this.#reason ??= reason;
    if (this.#killed) return;
    this.#killed = true;
    if (this.#first !== undefined) this.#killFirst();
    else setTimeout(() => this.#killUnknown(), INFO_MS).unref();
  }

  get #streams(): readonly (Socket | null | undefined)[] {
    return this.#child.stdio as unknown as readonly (Socket | null | undefined)[];
  }

  async #open(): Promise<void> {
    try {
      const { bwrap, passwd, hosts, environment, before, command } = await this.#parts.prepare();
      if (this.#killed) {
        this.#shut();
        return;
      }
      this.#write(FDS.arguments, bwrap.map((word) => `${word}\0`).join(''));
      this.#write(FDS.passwd, passwd);
      this.#write(FDS.hosts, hosts);
      this.#write(FDS.environment, environment);
      this.#write(FDS.gate, [...before, `exec ${command.map(quoted).join(' ')}`].join('\n'));
      const { assignment } = this.#order;
      if (assignment !== undefined) this.#limit(assignment);
    } catch (error) {
      this.#problem = messageOf(error);
      this.#shut();
    }
  }

  /** Lets the waiting shell end. */
  #shut(): void {
    this.#write(FDS.gate, '');
  }

  #write(fd: number, text: string): void {
    (this.#streams[fd] as unknown as Writable).end(text);
  }

  #readInfo(): void {
    const parts: Buffer[] = [];
    const pipe = this.#streams[FDS.info];
    pipe?.on('data', (data: Buffer) => parts.push(data));
    pipe?.once('close', () => {
      const pid = Number(/"child-pid":\s*(\d+)/.exec(Buffer.concat(parts).toString('latin1'))?.[1]);
      // Gone already: its exit is about to be reported.
      const stat = Number.isInteger(pid) && pid > 0 ? readStat(pid) : null;
      if (stat !== null) this.#first = { pid, start: stat.start };
      if (this.#killed) this.#killFirst();
      this.#info.resolve();
    });
  }

  /** Bubblewrap has not said yet which process is the first: that one waits for it, and would wait for ever. */
  #killUnknown(): void {
    const { pid } = this.#child;
    if (this.#over || pid === undefined) return;
    for (const child of descendantsOf(pid)) signal(child, 'SIGKILL');
    this.#child.kill('SIGKILL');
  }

  #killFirst(): void {
    if (this.#first !== undefined && isSame(this.#first)) signal(this.#first.pid, 'SIGKILL');
  }

  /** Where the kernel does not limit memory, the worker's process group is watched: its leader must be known. */
  #limit(assignment: Assignment): void {
    if (this.#over) return;
    const { pid } = this;
    const { limits, memoryFiles } = this.#parts;
    const kill = (reason: string): void => this.kill(reason);
    if (limits.limitsMemory) limits.hold(assignment, pid, kill);
    else if (pid === undefined) setTimeout(() => this.#limit(assignment), POLL_MS);
    else {
      this.#files ??= memoryFiles.watch(pid, kill);
      limits.hold(assignment, pid, kill, this.#files.bytes);
    }
  }

  async #ended(code: number | null, by: NodeJS.Signals | null): Promise<WorkerExit> {
    await this.#info.promise;
    // The end of the first process waits for that of all others.
    if (by !== null) this.#killFirst();
    for (let polls = 0; this.#first !== undefined && isSame(this.#first) && polls < GONE_POLLS; polls += 1) await pause();
    const reason = this.#reason ?? this.#parts.limits.reasonOfEnd;
    const complaint = code === 1 && this.#complaint.startsWith('bwrap: ') ? this.#complaint.split('\n')[0] : undefined;
    const problem = this.#problem ?? complaint;
    if (reason === undefined && problem !== undefined)
      return this.#finish({ kind: 'not-started', reason: `the sandbox cannot be created: ${problem}` });
    return this.#finish({ kind: 'exited', ...endOf(code, by), reason });
  }

  async #finish(exit: WorkerExit): Promise<WorkerExit> {
    this.#over = true;
    this.#info.resolve();
    if (this.#order.kind === 'host' && this.#order.lifeline) this.#streams[FIRST_PIPE + this.#order.pipes]?.destroy();
    this.#files?.end();
    await this.#parts.limits.end();
    await this.#parts.release();
    return exit;
  }
}

/** `mark`: by which the next agent finds what an agent that was killed left in the middle of a start. */
function start(pipes: number, seccompFile: string | undefined, mark: Readonly<Record<string, string>>): ChildProcess {
  const filter = seccompFile === undefined ? undefined : openSync(seccompFile, 'r');
  try {
    const stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe'];
    for (let fd = FIRST_PIPE; fd < FDS.arguments; fd += 1) stdio[fd] = fd - FIRST_PIPE < pipes ? 'pipe' : 'ignore';
    for (const fd of [FDS.arguments, FDS.info, FDS.gate, FDS.passwd, FDS.hosts, FDS.environment]) stdio[fd] = 'pipe';
    stdio[FDS.seccomp] = filter ?? 'ignore';
    return withoutInherited(stdio, (all) =>
      spawn('/bin/sh', ['-c', GATE], { detached: true, env: { ...CLEAN_ENVIRONMENT, ...mark }, cwd: '/', stdio: all }),
    );
  } finally {
    if (filter !== undefined) closeSync(filter);
  }
}

/** Bubblewrap exits with the worker's code; a signal that ended the worker is added to 128, as in shells. */
function endOf(code: number | null, by: NodeJS.Signals | null): { readonly code: number | null; readonly signal: NodeJS.Signals | null } {
  if (code === null || code <= SIGNALLED) return { code, signal: by };
  const [name] = Object.entries(constants.signals).find(([, number]) => number === code - SIGNALLED) ?? [];
  return name === undefined ? { code, signal: by } : { code: null, signal: name as NodeJS.Signals };
}

function isSame({ pid, start: startedAt }: { readonly pid: number; readonly start: string }): boolean {
  const stat = readStat(pid);
  return stat?.start === startedAt && stat.state !== 'Z' && stat.state !== 'X';
}

/** Of all of its threads, in the order in which they were started. */
function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number),
    );
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ESRCH')) return [];
    throw error;
  }
}

function descendantsOf(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!isErrno(error, 'ESRCH')) throw error;
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

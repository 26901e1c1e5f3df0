/**
 * Level `none`: a process of this host with the agent's user, that leads its own process group and ends with the agent.
 * What left that group is in the worker's control group, where there is one, or is found by marks in /proc.
 */
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Readable, Stream } from 'node:stream';

import { withBuild } from '../runtimes/command-line.ts';
import { AGENT_MARK, HOST_MARK, killEscaped } from '../runtimes/escaped.ts';
import { LEASH_FD, limited, withLeash } from '../runtimes/leash.ts';
import { endGroup, killGroup, signalGroup } from '../runtimes/process-group.ts';
import { workFolderFor } from '../runtimes/work-folders.ts';
import { WorkerLimits, type WorkerLimitsOptions } from './cgroups/worker-limits.ts';
import type { Assignment, LaunchSpec, Vantage, WorkerExit, WorkerLauncher, WorkerPlace, WorkerProcess } from './launcher.ts';
import { endOutputLater } from './output-grace.ts';

/** The first descriptor after those of every program. */
const FIRST_PIPE = 3;

export class PlainLauncher implements WorkerLauncher {
  readonly level = 'none';
  readonly hasSpares = true;
  readonly #limits: WorkerLimitsOptions;

  constructor(limits: WorkerLimitsOptions = {}) {
    this.#limits = limits;
  }

  takesSpare(): boolean {
    return true;
  }

  placeOf({ folder, workFolder }: WorkerPlace): WorkerPlace {
    return { folder, workFolder };
  }

  environmentOf(base: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    return base;
  }

  refresh(): Promise<boolean> {
    // Its workers see all of the host.
    return Promise.resolve(false);
  }

  launch(order: LaunchSpec): WorkerProcess {
    return new PlainProcess(order, new WorkerLimits(this.#limits));
  }

  setGateway(): void {
    // Its workers have the host's network.
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

class PlainProcess implements WorkerProcess {
  readonly #order: LaunchSpec;
  readonly #child: ChildProcess;
  readonly #hostId = randomUUID();
  readonly #limits: WorkerLimits;
  readonly gone: Promise<WorkerExit>;
  readonly started: Promise<void>;
  readonly pipes: readonly Socket[];
  #assignment: Assignment | undefined;
  #reason: string | undefined;
  #isGone = false;

  constructor(order: LaunchSpec, limits: WorkerLimits) {
    this.#order = order;
    this.#limits = limits;
    try {
      this.#child = order.kind === 'host' ? this.#spawnHost(order) : this.#spawnProgram(order);
    } catch (error) {
      void limits.end();
      throw error;
    }
    const { promise, resolve } = Promise.withResolvers<WorkerExit>();
    this.gone = promise.then((exit) => {
      this.#isGone = true;
      return exit;
    });
    this.started = new Promise((done) => this.#child.once('spawn', done));
    this.#child.once('error', (error) => {
      void limits.end();
      resolve({ kind: 'not-started', reason: error.message });
    });
    const { pid } = this.#child;
    const extra = pid === undefined ? [] : (this.#child.stdio as readonly (Stream | null | undefined)[]).slice(FIRST_PIPE);
    const pipes = order.kind === 'host' ? order.pipes : 0;
    this.pipes = extra.slice(0, pipes) as Socket[];
    // No data is ever sent here; only the open connection matters.
    const [leash] = extra.slice(pipes) as Socket[];
    leash?.on('error', () => undefined);
    if (pid === undefined) return;
    if (order.assignment !== undefined) this.#take(order.assignment);
    this.#child.once('exit', (code, signal) => {
      this.#reason ??= limits.reasonOfEnd;
      if (order.kind === 'host') leash?.destroy();
      endOutputLater(this.#child);
      void endGroup(pid)
        .then(() => Promise.all([limits.end(), this.#killEscaped()]))
        .then(() => resolve({ kind: 'exited', code, signal, reason: this.#reason }));
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get vantage(): Vantage | undefined {
    return this.#isGone ? undefined : { place: undefined, isAgentsUser: true };
  }

  get stdout(): Readable | undefined {
    return this.#child.stdout ?? undefined;
  }

  get stderr(): Readable | undefined {
    return this.#child.stderr ?? undefined;
  }

  assign(assignment: Assignment): Promise<void> {
    this.#take(assignment);
    return Promise.resolve();
  }

  terminate(reason?: string): void {
    const { pid } = this.#child;
    if (this.#isGone || pid === undefined) return;
    this.#reason ??= reason;
    if (this.#order.kind === 'host') signalGroup(pid, 'SIGTERM');
    else this.#child.kill('SIGTERM');
  }

  kill(reason?: string): void {
    const { pid } = this.#child;
    if (this.#isGone || pid === undefined) return;
    this.#reason ??= reason;
    killGroup(pid);
  }

  #spawnHost({ command, args, env, pipes, lifeline }: Extract<LaunchSpec, { kind: 'host' }>): ChildProcess {
    const [shell, line] = limited(command, args, this.#limits.entry);
    const extra = Array.from({ length: pipes + (lifeline ? 1 : 0) }, () => 'pipe' as const);
    const stdio: StdioOptions = ['ignore', 'pipe', 'pipe', ...extra];
    return spawn(shell, line, { detached: true, env: { ...env, [HOST_MARK]: this.#hostId }, cwd: '/', stdio });
  }

  #spawnProgram({ command, args, env, assignment }: Extract<LaunchSpec, { kind: 'program' }>): ChildProcess {
    const [shell, line] = withLeash(command, args, this.#limits.entry);
    const cwd = workFolderFor(assignment);
    const stdio: StdioOptions = ['ignore', 'pipe', 'pipe'];
    stdio[LEASH_FD] = 'pipe';
    return spawn(shell, line, { detached: true, env: withBuild(env, assignment), cwd, stdio });
  }

  /** From now on, processes that it starts carry the worker's name. */
  #take(assignment: Assignment): void {
    this.#assignment = assignment;
    this.#limits.hold(assignment, this.#child.pid, (reason) => this.kill(reason));
  }

  async #killEscaped(): Promise<void> {
    if (this.#assignment === undefined) return;
    const { workerId, workFolder } = this.#assignment;
    const host = this.#order.kind === 'host' ? { hostId: this.#hostId } : {};
    await killEscaped({ agent: this.#order.env[AGENT_MARK], workerId, workFolder, ...host });
  }
}

/**
 * One process at level `user`. It is started in steps, so that nothing of a release runs as root or sees another
 * release's environment:
 *
 *     shell (root, clean environment): limits, the leash of a program
 *     prlimit, setpriv: user id, no groups, no capabilities, no new privileges
 *     shell (the worker's user): reads environment and folder from its standard input, which come once they exist
 *     the worker
 */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Readable, Stream } from 'node:stream';

import type { Logger } from 'pino';

import { messageOf } from '../../../lib/to-error.ts';
import { withBuild } from '../../runtimes/command-line.ts';
import { fillWorkFolder } from '../../runtimes/work-folder.ts';
import { LEASH_FD, limited, withLeash } from '../../runtimes/leash.ts';
import { endGroup, killGroup, signalGroup } from '../../runtimes/process-group.ts';
import { removeTree } from '../../runtimes/remove-tree.ts';
import { withoutInherited } from '../host/descriptors.ts';
import { WorkerLimits } from '../cgroups/worker-limits.ts';
import type { ControlGroups } from '../cgroups/control-groups.ts';
import type { Assignment, LaunchSpec, Vantage, WorkerExit, WorkerPlace, WorkerProcess } from '../launcher.ts';
import { endOutputLater } from '../output-grace.ts';
import type { WorkerUids } from '../worker-uids.ts';
import { CLEAN_ENVIRONMENT, exportsOf } from './clean-environment.ts';
import type { Places } from './places.ts';
import { removeRemains } from './remains.ts';

/** The first descriptor after those of every program. */
const FIRST_PIPE = 3;
/** The script on its standard input ends with the definition of `capstan_run`; one that was cut off runs nothing. */
const READ_ENVIRONMENT = 'eval "$(cat)"; capstan_run "$@"';

export interface UserProcessContext {
  readonly uids: WorkerUids;
  readonly places: Places;
  readonly placeOf: (assignment: Pick<Assignment, 'folder' | 'workFolder'>) => WorkerPlace;
  /** The environment of every host: its HOME, TMPDIR and USER are the agent's. */
  readonly hostEnv: Readonly<Record<string, string>>;
  /** Most processes and threads of a worker. */
  readonly pids: number;
  /** Absent: only memory and the number of processes are limited. */
  readonly groups: ControlGroups | undefined;
  readonly log: Pick<Logger, 'warn' | 'error'>;
}

export class UserProcess implements WorkerProcess {
  readonly #order: LaunchSpec;
  readonly #context: UserProcessContext;
  readonly #uid: number;
  readonly #home: string;
  readonly #limits: WorkerLimits;
  readonly #child: ChildProcess;
  readonly gone: Promise<WorkerExit>;
  readonly started: Promise<void>;
  readonly pipes: readonly Socket[];
  #work = '';
  #reason: string | undefined;
  #isGone = false;

  constructor(order: LaunchSpec, context: UserProcessContext) {
    this.#order = order;
    this.#context = context;
    this.#limits = new WorkerLimits(context);
    this.#uid = context.uids.take();
    try {
      this.#home = context.places.makeHome(this.#uid);
      this.#child = this.#spawn();
    } catch (error) {
      context.uids.free(this.#uid);
      void this.#limits.end();
      throw error;
    }
    const { promise, resolve } = Promise.withResolvers<WorkerExit>();
    this.gone = promise.then(async (exit) => {
      await this.#removeAll();
      this.#isGone = true;
      return exit;
    });
    this.started = new Promise((done) => this.#child.once('spawn', done));
    this.#child.once('error', (error) => resolve({ kind: 'not-started', reason: error.message }));
    const { pid, stdin } = this.#child;
    const extra = pid === undefined ? [] : (this.#child.stdio as readonly (Stream | null | undefined)[]).slice(FIRST_PIPE);
    const pipes = order.kind === 'host' ? order.pipes : 0;
    this.pipes = extra.slice(0, pipes) as Socket[];
    // No data is ever sent here; only the open connection matters.
    const [leash] = extra.slice(pipes) as Socket[];
    leash?.on('error', () => undefined);
    if (pid === undefined) return;
    // A process that ends before it has read its environment reports that by its exit.
    stdin?.on('error', () => undefined);
    this.#begin().catch((error: unknown) => this.kill(`preparing the worker's folders failed: ${messageOf(error)}`));
    this.#child.once('exit', (code, signal) => {
      this.#reason ??= this.#limits.reasonOfEnd;
      if (order.kind === 'host') leash?.destroy();
      endOutputLater(this.#child);
      void endGroup(pid).then(() => resolve({ kind: 'exited', code, signal, reason: this.#reason }));
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get vantage(): Vantage | undefined {
    return this.#isGone ? undefined : { place: undefined, isAgentsUser: false };
  }

  get stdout(): Readable | undefined {
    return this.#child.stdout ?? undefined;
  }

  get stderr(): Readable | undefined {
    return this.#child.stderr ?? undefined;
  }

  async assign(assignment: Assignment): Promise<void> {
    this.#hold(assignment);
    const place = await this.#prepare(assignment);
    if (place.workFolder !== '') await this.#context.places.give(place.workFolder, this.#uid);
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

  #spawn(): ChildProcess {
    const order = this.#order;
    const uid = String(this.#uid);
    const limits = ['--core=0:0', `--nproc=${this.#context.pids}:${this.#context.pids}`];
    const user = ['--reuid', uid, '--regid', uid, '--clear-groups', '--no-new-privs'];
    const capabilities = ['--inh-caps=-all', '--ambient-caps=-all', '--bounding-set=-all'];
    const worker = ['/bin/sh', '-c', READ_ENVIRONMENT, 'sh', order.command, ...order.args];
    const args = [...limits, 'setpriv', ...user, ...capabilities, ...worker];
    const [shell, line] =
      order.kind === 'host' ? limited('prlimit', args, this.#limits.entry) : withLeash('prlimit', args, this.#limits.entry);
    const stdio: 'pipe'[] = ['pipe', 'pipe', 'pipe'];
    if (order.kind === 'program') stdio[LEASH_FD] = 'pipe';
    else stdio.push(...Array.from({ length: order.pipes + (order.lifeline ? 1 : 0) }, () => 'pipe' as const));
    return withoutInherited(stdio, (all) => spawn(shell, line, { detached: true, env: CLEAN_ENVIRONMENT, cwd: '/', stdio: all }));
  }

  /** Sends environment and folder once all that they name is there. */
  async #begin(): Promise<void> {
    const order = this.#order;
    let env: Readonly<Record<string, string>> = this.#ownHome(order.env);
    let folder = '/';
    if (order.assignment !== undefined) {
      this.#hold(order.assignment);
      const place = await this.#prepare(order.assignment);
      if (order.kind === 'program') {
        if (place.workFolder !== '' && place.folder !== '') fillWorkFolder(place.workFolder, place.folder);
        env = withBuild(env, place);
        folder = place.workFolder || place.folder || '/';
      }
      if (place.workFolder !== '') await this.#context.places.give(place.workFolder, this.#uid);
    }
    const quoted = folder.replaceAll("'", String.raw`'\''`);
    this.#child.stdin?.end(`${exportsOf(env)}capstan_run() { cd -- '${quoted}' && exec "$@" </dev/null; exit 126; }\n`);
  }

  /** Makes the build visible and creates the working folder, which is root's until it is given away. */
  async #prepare(assignment: Assignment): Promise<WorkerPlace> {
    const { places, placeOf } = this.#context;
    const place = placeOf(assignment);
    if (assignment.folder !== '') await places.showBuild(assignment.folder);
    if (place.workFolder !== '') {
      this.#work = place.workFolder;
      await places.makeWork(place.workFolder);
    }
    return place;
  }

  /** A release may set these names itself. */
  #ownHome(env: Readonly<Record<string, string>>): Record<string, string> {
    const { hostEnv } = this.#context;
    const isOfAgent = (name: string): boolean => env[name] === undefined || env[name] === hostEnv[name];
    const { USER, ...own } = env;
    return {
      ...own,
      ...(USER === undefined || isOfAgent('USER') ? {} : { USER }),
      ...(isOfAgent('HOME') ? { HOME: this.#home } : {}),
      ...(isOfAgent('TMPDIR') ? { TMPDIR: `${this.#home}/tmp` } : {}),
    };
  }

  #hold(assignment: Assignment): void {
    this.#limits.hold(assignment, this.#child.pid, (reason) => this.kill(reason));
  }

  /** An id whose processes remain is not used again. */
  async #removeAll(): Promise<void> {
    const { uids, log } = this.#context;
    const uid = this.#uid;
    await this.#limits.end();
    try {
      const left = await removeRemains({ first: uid, last: uid });
      for (const folder of [this.#home, this.#work]) if (folder !== '') await removeTree(folder);
      if (left.length === 0) uids.free(uid);
      else log.error({ uid, pids: left }, 'processes of a worker do not end: its user id is not used again');
    } catch (error) {
      log.warn({ uid, error: messageOf(error) }, 'removing what a worker left failed: its user id is not used again');
    }
  }
}

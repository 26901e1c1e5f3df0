/** One part of the service as a process that is started again whenever it ends, as a supervisor would. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';

import { PART_NODE_ARGS, SUPERVISED } from '../../../supervisor/part-process.ts';
import type { PartMessage } from '../../../supervisor/child.ts';
import { guard } from '../../support/stack.ts';
import type { Victim } from './victim.ts';

const tool = join(import.meta.dirname, '../../../cli/main.ts');

/** A young generation of one size: by itself V8 shrinks and grows it by 30 MiB within minutes, in which a soak sees no leak. */
const STEADY_YOUNG = '--min-semi-space-size=16';

const LIVE_HEAP = new URL('./live-heap.ts', import.meta.url).href;

/** Between the end of a part and its next start, ms: the first, and the longest after it ended several times at once. */
const PAUSE_MS = { first: 200, longest: 2_000 };
/** A part that ran this long starts again without an added pause, ms. */
const STEADY_MS = 5_000;

export interface PartPlan {
  /** Unique in the stack; also the name of its log. */
  readonly name: string;
  readonly role: 'scheduler' | 'gateway' | 'agent';
  readonly folder: string;
  /** Read at each start. */
  readonly env: () => NodeJS.ProcessEnv;
  /** A command that runs the part, for example in a network namespace. */
  readonly prefix: readonly string[];
  readonly log: string;
  /** `cli/main.ts` of another checkout; this one's when left out. */
  readonly program?: string;
  /** Where it writes its live heap once a minute (live-heap.ts); it writes none when left out. */
  readonly liveHeapFile?: string;
  /** Called at each end that `close` did not cause. */
  readonly exited: (how: string) => void;
}

export class Part implements Victim {
  readonly plan: PartPlan;
  /** The program that the next start runs. */
  program: string;
  /** Starts after the first. */
  restarts = 0;
  #child: ChildProcess | undefined;
  #closing = false;
  #pauseMs = PAUSE_MS.first;
  #timer: NodeJS.Timeout | undefined;
  #address: PromiseWithResolvers<string> = Promise.withResolvers();
  #isReady = false;

  constructor(plan: PartPlan) {
    this.plan = plan;
    this.program = plan.program ?? tool;
  }

  /**
   * The address at which it serves. After an end, the promise is that of the next start that becomes ready: a part that ends again before it is
   * ready keeps the promise, so that whoever waits for it is not forgotten.
   */
  get ready(): Promise<string> {
    return this.#address.promise;
  }

  get name(): string {
    return this.plan.name;
  }

  get pids(): number[] {
    return this.pid === undefined ? [] : [this.pid];
  }

  /** Undefined while it does not run. */
  get pid(): number | undefined {
    const child = this.#child;
    return child === undefined || child.exitCode !== null || child.signalCode !== null ? undefined : child.pid;
  }

  start(): Promise<string> {
    const { plan } = this;
    const [wrapper, ...wrapperArgs] = plan.prefix;
    const observed = plan.liveHeapFile === undefined ? [] : ['--expose-gc', `--import=${LIVE_HEAP}`];
    const node = [...PART_NODE_ARGS, STEADY_YOUNG, ...observed, this.program, plan.role];
    const [command, args] = wrapper === undefined ? [process.execPath, node] : [wrapper, [...wrapperArgs, process.execPath, ...node]];
    const log = openSync(plan.log, 'a');
    const startedAt = performance.now();
    const child = spawn(command, args, {
      cwd: plan.folder,
      env: { ...plan.env(), [SUPERVISED]: '1', ...(plan.liveHeapFile === undefined ? {} : { LIVE_HEAP_FILE: plan.liveHeapFile }) },
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    this.#child = child;
    const watch = guard(child.pid ?? 0);
    child.on('message', (message: PartMessage) => {
      if (message.type !== 'ready' || this.#child !== child || this.pid === undefined) return;
      this.#isReady = true;
      this.#address.resolve(message.address ?? '');
    });
    // A message to a part that has just ended fails here; its exit follows.
    child.on('error', () => undefined);
    child.once('exit', (code, signal) => {
      watch.kill('SIGKILL');
      if (this.#isReady) this.#address = Promise.withResolvers();
      this.#isReady = false;
      if (this.#closing) return;
      this.#pauseMs = performance.now() - startedAt > STEADY_MS ? PAUSE_MS.first : Math.min(this.#pauseMs * 2, PAUSE_MS.longest);
      plan.exited(signal ?? `exit code ${String(code)}`);
      this.restarts += 1;
      this.#timer = setTimeout(() => void this.start(), this.#pauseMs);
    });
    return this.#address.promise;
  }

  /** kill -9; resolves when the process is gone, so that {@link ready} is that of its next start. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || this.pid === undefined) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  /** Ends it in order, by force after 20 s. */
  async close(): Promise<void> {
    this.#closing = true;
    clearTimeout(this.#timer);
    const child = this.#child;
    if (child === undefined || this.pid === undefined) return;
    const exited = once(child, 'exit');
    child.kill('SIGCONT');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
    await exited;
    clearTimeout(timer);
  }
}

/**
 * Worker hosts in the simulated world, in the place of the agent's runtimes: they load or fail to, run "handlers" that
 * take random time and end in random ways, ignore a stop now and then until they are stopped by force, and die.
 */
import type { AttemptKey } from '../../agent/core/state.ts';
import type { CoreEvent, HandlerResult } from '../../agent/core/events.ts';
import type { Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import { LARGE_BYTES } from './blobs.ts';
import { KILLED } from './neighbours.ts';
import type { Random } from './random.ts';

/** What a host needs of its node. */
export interface HostWorld {
  readonly random: Random;
  now(): number;
  /** Calls later, unless the agent has ended by then. */
  later(ms: number, run: () => void): void;
  feed(event: CoreEvent): void;
  /** The handler of an attempt was entered. */
  entered(job: string, token: number): void;
  /** A handler has ended, and had yielded this many chunks. */
  ended(job: string, token: number, chunks: number): void;
  /** Its host died under this attempt, which did not end it as far as anybody knows. */
  blameless(job: string, token: number): void;
  gone(host: SimHost): void;
}

/** How a start goes. */
export type Start = 'loads' | 'load-fails' | 'start-fails' | 'dies' | 'hangs';

interface Task {
  readonly key: AttemptKey;
  readonly job: string;
  readonly token: number;
  enteredAt: number | null;
  isStopped: boolean;
  chunks: number;
  credits: number;
}

/** Chunks that a generator may yield before it is given credits. */
const FIRST_CREDITS = 4;
/** Chance that a document is too large to travel inline. */
const LARGE = 0.02;
/** Longest time of most handlers, ms. */
const LONGEST_MS = 40;

export class SimHost {
  readonly workerId: string;
  readonly start: number;
  readonly devices: readonly string[];
  /** Chance that the host dies under an attempt. */
  readonly #lossRate: () => number;
  readonly #world: HostWorld;
  readonly #tasks = new Map<AttemptKey, Task>();
  #state: 'loading' | 'loaded' | 'gone' = 'loading';
  #isEnding = false;

  constructor(
    world: HostWorld,
    { workerId, start, deviceUuids }: { readonly workerId: string; readonly start: number; readonly deviceUuids: readonly string[] },
    lossRate: () => number,
  ) {
    this.#world = world;
    this.workerId = workerId;
    this.start = start;
    this.devices = deviceUuids;
    this.#lossRate = lossRate;
  }

  begin(how: Start): void {
    this.#later(this.#world.random.int(1, 60), () => {
      this.#feed({ kind: 'host-started', ...this.#id });
      if (how === 'start-fails') this.#feed({ kind: 'start-failed', ...this.#id, reason: 'START_FAILED', detail: 'simulated' });
      else if (how === 'dies') this.#exit('it died while it started', false);
      else if (how !== 'hangs') this.#load(how === 'loads');
    });
  }

  run(key: AttemptKey, { jobId, token }: Dispatch): void {
    if (this.#state !== 'loaded' || this.#isEnding) fail(`${key} was given to the worker ${this.workerId}, which cannot run it`);
    const task: Task = { key, job: jobId, token, enteredAt: null, isStopped: false, chunks: 0, credits: FIRST_CREDITS };
    this.#tasks.set(key, task);
    this.#later(this.#world.random.next(), () => this.#enter(task));
  }

  /** Stops a handler: most end soon, the others by force, with all handlers of the host. */
  cancel(key: AttemptKey): void {
    const { random } = this.#world;
    const task = this.#tasks.get(key);
    if (task === undefined || task.isStopped) return;
    task.isStopped = true;
    if (task.enteredAt === null) this.#later(random.next() * 2, () => this.#end(task, 'stopped'));
    else if (random.chance(0.6)) this.#later(random.next() * 50, () => this.#end(task, 'stopped'));
    else
      this.#later(random.int(600, 3_000), () => {
        if (this.#tasks.get(key) === task) this.#stopHard();
      });
  }

  /** Returns a task whose handler was not entered. */
  recall(key: AttemptKey): void {
    const task = this.#tasks.get(key);
    if (task?.enteredAt === null) this.#end(task, 'stopped');
  }

  credit(key: AttemptKey, count: number): void {
    const task = this.#tasks.get(key);
    if (task !== undefined) task.credits += count;
  }

  /** Ends the host; the agent has asked for it. */
  end(isForced: boolean): void {
    this.#isEnding = true;
    const { random } = this.#world;
    this.#later(isForced ? random.next() * 20 : random.int(1, 60), () => this.#exit('it was ended', false));
  }

  get #id(): { readonly workerId: string; readonly start: number } {
    return { workerId: this.workerId, start: this.start };
  }

  #load(isGood: boolean): void {
    this.#later(this.#world.random.int(1, 80), () => {
      if (!isGood) {
        this.#feed({ kind: 'load-failed', ...this.#id, detail: 'simulated' });
        return;
      }
      this.#state = 'loaded';
      this.#feed({ kind: 'loaded', ...this.#id });
    });
  }

  #enter(task: Task): void {
    if (this.#tasks.get(task.key) !== task || task.isStopped) return;
    const { random } = this.#world;
    task.enteredAt = this.#world.now();
    this.#world.entered(task.job, task.token);
    this.#feed({ kind: 'handler-entered', ...this.#id, key: task.key });
    const end = random.chance(this.#lossRate()) ? 'dies' : random.chance(0.1) ? 'failed' : 'returned';
    const duration = random.chance(0.05) ? random.int(1_000, 4_000) : random.next() * LONGEST_MS;
    const chunks = random.chance(0.3) ? random.int(1, duration > LONGEST_MS ? 30 : 6) : 0;
    this.#yield(task, chunks, duration / (chunks + 1));
    this.#later(duration, () => {
      if (end !== 'dies') this.#end(task, end);
      else if (this.#tasks.get(task.key) === task) this.#die(task);
    });
  }

  /** A generator: its chunks say where they stand. */
  #yield(task: Task, left: number, apart: number): void {
    if (left === 0 || this.#tasks.get(task.key) !== task) return;
    if (task.credits > 0) {
      task.credits--;
      this.#feed({ kind: 'chunk', ...this.#id, key: task.key, data: this.#document(`${task.token} ${task.chunks++}`) });
    }
    this.#later(this.#world.random.next() * 2 * apart, () => this.#yield(task, left - 1, apart));
  }

  #end(task: Task, how: 'returned' | 'failed' | 'stopped'): void {
    if (this.#tasks.get(task.key) !== task) return;
    this.#tasks.delete(task.key);
    this.#world.ended(task.job, task.token, task.chunks);
    const ms = task.enteredAt === null ? 0 : this.#world.now() - task.enteredAt;
    this.#feed({ kind: 'handler-ended', ...this.#id, key: task.key, result: this.#result(task, how, ms) });
  }

  #result({ job, token }: Task, how: 'returned' | 'failed' | 'stopped', ms: number): HandlerResult {
    if (how === 'stopped') return { kind: 'stopped', ms };
    if (how === 'failed') return { kind: 'failed', error: 'it failed', ms };
    return { kind: 'returned', output: this.#document(`${job} ${token}`), ms };
  }

  #document(text: string): Buffer {
    return Buffer.from(this.#world.random.chance(LARGE) ? text.padEnd(LARGE_BYTES) : text);
  }

  /** Ends all handlers to end one of them: the module is loaded again, in this host or in another. */
  #stopHard(): void {
    this.#tasks.clear();
    if (this.#isEnding || this.#world.random.chance(0.5)) {
      this.#exit('a handler did not stop', true);
      return;
    }
    this.#state = 'loading';
    this.#feed({ kind: 'reloading', ...this.#id });
    this.#load(true);
  }

  /** The handler of a task ends the process. Now and then the host can tell which one it was. */
  #die(culprit: Task): void {
    const running = [...this.#tasks.values()].filter(({ enteredAt }) => enteredAt !== null);
    const isKnown = this.#world.random.chance(0.5);
    for (const task of running) {
      const isBlameless = isKnown ? task !== culprit : running.length > 1;
      if (isBlameless && !task.isStopped && !this.#isEnding) this.#world.blameless(task.job, task.token);
    }
    this.#exit(KILLED, false, isKnown ? culprit.key : undefined);
  }

  #exit(detail: string, hardStop: boolean, culprit?: AttemptKey): void {
    this.#state = 'gone';
    this.#tasks.clear();
    this.#world.gone(this);
    this.#world.feed({ kind: 'exited', ...this.#id, detail, hardStop, culprit });
  }

  #later(ms: number, run: () => void): void {
    this.#world.later(ms, () => {
      if (this.#state !== 'gone') run();
    });
  }

  #feed(event: CoreEvent): void {
    this.#world.feed(event);
  }
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}

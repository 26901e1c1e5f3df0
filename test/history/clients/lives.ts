/**
 * The lives of jobs as clients lead them: each is one script with choices drawn from its own random numbers, so that the seed and the number of
 * a life decide what it does, whatever the timing.
 */
import { setTimeout as pause } from 'node:timers/promises';

import type { Random } from '../../simulator/random.ts';
import { isTerminal } from '../core/record.ts';
import type { CallPlan, Calls, Outcome } from './calls.ts';
import { inputOf } from './views.ts';

/** By endpoint name; how often each is chosen. */
const WEIGHTS = { run: 30, runsync: 22, cancel: 10, retry: 8, stream: 12, line: 12, purge: 3, timeout: 1 } as const;
export type LifeKind = keyof typeof WEIGHTS;
export const LIFE_KINDS = Object.keys(WEIGHTS) as LifeKind[];

/** An acknowledged job. */
export interface Acknowledged {
  readonly endpoint: string;
  readonly job: string;
}

export interface LifeWorld {
  readonly calls: Calls;
  readonly gateways: readonly string[];
  readonly endpoints: ReadonlyMap<string, string>;
  readonly handlersFile: string;
  /** Of the receiver; undefined where no webhooks are requested. */
  readonly webhook: string | undefined;
  readonly acknowledged: (job: Acknowledged) => void;
  /** Before an end is looked at again, ms. */
  readonly longestPauseMs: number;
}

export function chooseKind(random: Random): LifeKind {
  let left = random.next() * Object.values(WEIGHTS).reduce((sum, weight) => sum + weight, 0);
  for (const kind of LIFE_KINDS) {
    left -= WEIGHTS[kind];
    if (left < 0) return kind;
  }
  return 'run';
}

/** What a submission asks its handler for. */
interface Wish {
  readonly ms: number;
  readonly failing?: number;
  readonly bytes?: number;
  readonly count?: number;
  readonly timeoutMs?: number;
}

export class Life {
  readonly #world: LifeWorld;
  readonly #random: Random;
  readonly #name: string;
  #submitted = 0;

  constructor(world: LifeWorld, random: Random, name: string) {
    this.#world = world;
    this.#random = random;
    this.#name = name;
  }

  async live(kind: LifeKind): Promise<void> {
    const random = this.#random;
    switch (kind) {
      case 'run':
        return this.#watch('run', this.#anyWork(), { ms: random.int(0, 120), bytes: this.#size() });
      case 'runsync':
        return this.#watch('runsync', this.#anyWork(), { ms: random.int(0, 120), bytes: this.#size() });
      case 'cancel':
        return this.#cancel();
      case 'retry':
        return this.#retry({ ms: random.int(0, 60), failing: 0.7 });
      case 'stream':
        return this.#stream();
      case 'line':
        return this.#line();
      case 'purge':
        return this.#purge();
      case 'timeout':
        return this.#retry({ ms: 60_000, timeoutMs: 5_000 });
    }
  }

  async #watch(operation: 'run' | 'runsync', endpoint: string, wish: Wish): Promise<void> {
    const job = await this.#submit(operation, endpoint, wish);
    if (job === undefined) return;
    await this.#untilEnded(job);
    await this.#lookAgain(job);
  }

  async #cancel(): Promise<void> {
    const job = await this.#submit('run', this.#anyWork(), { ms: this.#random.int(20, 1_500) });
    if (job === undefined) return;
    await pause(this.#random.int(0, 500));
    await this.#insist({ operation: 'cancel', ...job });
    await this.#untilEnded(job);
    await this.#lookAgain(job);
  }

  async #retry(wish: Wish): Promise<void> {
    const job = await this.#submit('run', this.#anyWork(), wish);
    if (job === undefined) return;
    for (let retries = this.#random.int(1, 3); ; retries -= 1) {
      const status = await this.#untilEnded(job);
      if (retries === 0 || (status !== 'FAILED' && status !== 'TIMED_OUT')) break;
      await this.#insist({ operation: 'retry', ...job });
      if (wish.timeoutMs !== undefined) break;
    }
    await this.#untilEnded(job);
    await this.#lookAgain(job);
  }

  /** Reads until the end, with the cursor or without. */
  async #stream(): Promise<void> {
    const random = this.#random;
    const wish = { ms: random.int(0, 60), failing: random.chance(0.1) ? 0.05 : 0, bytes: random.int(0, 100), count: random.int(1, 40) };
    const job = await this.#submit('run', random.chance(0.7) ? 'series' : 'series-py', wish);
    if (job === undefined) return;
    const byCursor = random.chance(0.6);
    let cursor = '0.0';
    for (;;) {
      const plan = { operation: 'stream', ...job, waitMs: random.int(0, 3_000), ...(byCursor ? { after: cursor } : {}) } as const;
      const outcome = await this.#insist(plan);
      if (outcome === undefined) return;
      cursor = outcome.cursor ?? cursor;
      if (outcome.status !== 200 || isTerminal(outcome.job?.status ?? '')) break;
      if (outcome.chunks?.length === 0) await pause(50);
    }
    await this.#untilEnded(job);
    await this.#lookAgain(job);
  }

  /** Several jobs of the endpoint that promises order, each submitted when the one before is acknowledged. */
  async #line(): Promise<void> {
    const jobs = [];
    for (let i = this.#random.int(1, 4); i > 0; i -= 1) {
      const job = await this.#submit('run', 'line', { ms: this.#random.int(0, 20) });
      if (job !== undefined) jobs.push(job);
    }
    for (const job of jobs) await this.#untilEnded(job);
  }

  async #purge(): Promise<void> {
    const jobs = [];
    for (let i = 0; i < 3; i += 1) {
      const job = await this.#submit('run', 'purged', { ms: this.#random.int(0, 300) });
      if (job !== undefined) jobs.push(job);
    }
    await this.#insist({ operation: 'purge', endpoint: this.#endpoint('purged') });
    for (const job of jobs) await this.#untilEnded(job);
    for (const job of jobs) await this.#lookAgain(job);
  }

  /** Undefined for a submission without a key whose answer got lost: it is a job or is none. */
  async #submit(operation: 'run' | 'runsync', endpoint: string, wish: Wish): Promise<{ endpoint: string; job: string } | undefined> {
    const random = this.#random;
    this.#submitted += 1;
    const name = `${this.#name}.${this.#submitted}`;
    const key = random.chance(0.75) ? name : undefined;
    const plan = this.#plan(operation, endpoint, name, key, wish);
    const repeats = key !== undefined && random.chance(0.15);
    const waits = random.chance(0.5) ? 0 : random.int(0, 300);
    const first = key === undefined ? this.#world.calls.once(plan, this.#gateway()) : this.#insist(plan);
    // The same submission at the same time, or a little later.
    const second = repeats ? pause(waits).then(() => this.#insist(plan)) : undefined;
    const [outcome] = await Promise.all([first, second]);
    const job = outcome?.status === 200 ? outcome.job?.id : undefined;
    if (job === undefined) return undefined;
    this.#world.acknowledged({ endpoint: plan.endpoint, job });
    if (key !== undefined && random.chance(0.05)) {
      const { ms, ...others } = wish;
      const other = this.#plan(operation, endpoint, `${name}!`, key, { ms: ms + 1, ...others });
      await this.#insist({ ...other, conflicting: true });
    }
    return { endpoint: plan.endpoint, job };
  }

  #plan(operation: 'run' | 'runsync', endpoint: string, name: string, key: string | undefined, wish: Wish): CallPlan {
    const { ms, failing = 0, bytes = 0, count, timeoutMs } = wish;
    const input = inputOf(name, bytes);
    const webhook = this.#random.chance(0.25) ? this.#world.webhook : undefined;
    return {
      operation,
      endpoint: this.#endpoint(endpoint),
      input,
      ...(key === undefined ? {} : { key }),
      ...(webhook === undefined ? {} : { webhook: true }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(operation === 'runsync' ? { waitMs: this.#random.int(1_000, 6_000) } : {}),
      body: {
        input: { input, record: this.#world.handlersFile, ms, failing, bytes, ...(count === undefined ? {} : { count }) },
        ...(webhook === undefined ? {} : { webhook }),
        ...(timeoutMs === undefined ? {} : { policy: { executionTimeout: timeoutMs } }),
      },
    };
  }

  /** Polls or waits until the job has ended; its status, undefined when the run is over first or the job is gone. */
  async #untilEnded(job: { endpoint: string; job: string }): Promise<string | undefined> {
    const waits = this.#random.chance(0.5);
    for (let ms = 20; ; ms = Math.min(ms * 1.5, 1_000)) {
      const outcome = await this.#insist({ operation: 'status', ...job, ...(waits ? { waitMs: 3_000 } : {}) });
      if (outcome?.status !== 200) return undefined;
      const status = outcome.job?.status ?? '';
      if (isTerminal(status)) return status;
      await pause(waits ? 20 : ms);
    }
  }

  /** An end that has been seen stays. */
  async #lookAgain(job: { endpoint: string; job: string }): Promise<void> {
    if (!this.#random.chance(0.4)) return;
    const longest = this.#world.longestPauseMs;
    await pause(this.#random.int(0, this.#random.chance(0.2) ? longest : Math.min(longest, 1_000)));
    await this.#insist({ operation: 'status', ...job });
  }

  #insist(plan: CallPlan): Promise<Outcome | undefined> {
    return this.#world.calls.insist(plan, () => this.#gateway());
  }

  #gateway(): string {
    return this.#random.pick(this.#world.gateways);
  }

  #endpoint(name: string): string {
    const id = this.#world.endpoints.get(name);
    if (id === undefined) throw new Error(`no endpoint ${name}`);
    return id;
  }

  #anyWork(): string {
    return this.#random.chance(0.7) ? 'work' : 'work-py';
  }

  /** Mostly small; some go through the blob store. */
  #size(): number {
    return this.#random.chance(0.03) ? this.#random.int(66_000, 200_000) : this.#random.int(0, 200);
  }
}

/** Starts lives so that the clients make a steady number of requests a second, and waits for the end of all of them. */
import { setTimeout as pause } from 'node:timers/promises';

import { Random } from '../../simulator/random.ts';
import type { Calls } from './calls.ts';
import { chooseKind, Life, type Acknowledged, type LifeWorld } from './lives.ts';

const TICK_MS = 20;
/** While nothing is answered no more than these wait. */
const MAX_LIVES = 200;
const LAST_LOOKS = { readers: 8, most: 5_000 };

export class Load {
  readonly #world: LifeWorld;
  readonly #calls: Calls;
  readonly #seed: number;
  readonly #rate: number;
  readonly acknowledged: Acknowledged[] = [];
  readonly #underWay = new Set<Promise<void>>();
  #lives = 0;
  #ticker: NodeJS.Timeout | undefined;
  #failure: Error | undefined;

  constructor(world: Omit<LifeWorld, 'acknowledged'>, { seed, rate }: { readonly seed: number; readonly rate: number }) {
    this.#world = { ...world, acknowledged: (job) => this.acknowledged.push(job) };
    this.#calls = world.calls;
    this.#seed = seed;
    this.#rate = rate;
  }

  start(): void {
    let due = this.#calls.count;
    this.#ticker = setInterval(() => {
      // What an outage kept back is not made up for.
      due = Math.min(due + (this.#rate * TICK_MS) / 1_000, this.#calls.count + this.#rate / 10);
      for (let missing = due - this.#calls.count; missing > 0 && this.#underWay.size < MAX_LIVES; missing -= 1) this.#startLife();
    }, TICK_MS);
  }

  /** Starts no further life, and waits up to `limitMs` for those under way. Whether all of them are over. */
  async stop(limitMs: number): Promise<boolean> {
    clearInterval(this.#ticker);
    const all = Promise.all(this.#underWay).then(() => true);
    const over = await Promise.race([all, pause(limitMs, false, { ref: false })]);
    if (this.#failure !== undefined) throw this.#failure;
    return over;
  }

  /**
   * Looks at acknowledged jobs once more, the newest first: retention may have taken the oldest. A service that does not respond would take hours:
   * whether all were looked at within `limitMs`.
   */
  async lookAtAll(gateway: string, limitMs: number): Promise<boolean> {
    const latest = performance.now() + limitMs;
    const step = Math.max(1, Math.ceil(this.acknowledged.length / LAST_LOOKS.most));
    const jobs = this.acknowledged
      .filter((_, i) => i % step === 0)
      .toReversed()
      .values();
    await Promise.all(
      Array.from({ length: LAST_LOOKS.readers }, async () => {
        for (const job of jobs) {
          if (performance.now() > latest) return;
          await this.#calls.once({ operation: 'status', ...job }, gateway);
        }
      }),
    );
    return performance.now() <= latest;
  }

  #startLife(): void {
    this.#lives += 1;
    const random = new Random(Math.imul(this.#seed, 0x9e3779b1) ^ Math.imul(this.#lives, 0x85ebca6b));
    const life = new Life(this.#world, random, `s${this.#seed}-${this.#lives}`);
    const over = life
      .live(chooseKind(random))
      .catch((error: unknown) => {
        this.#failure ??= error instanceof Error ? error : new Error(String(error));
      })
      .finally(() => this.#underWay.delete(over));
    this.#underWay.add(over);
  }
}

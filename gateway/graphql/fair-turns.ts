/**
 * Shares the gateway's event loop among the callers of GraphQL. A query is parsed, validated and begun in one piece, in which no other
 * request of the gateway proceeds: each turn of the loop begins one query, of the accounts in rotation, and a key that has used
 * its share of processor time is refused.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import { FairQueue } from '../../lib/fair-queue.ts';
import { Rate } from '../../lib/rate.ts';

/** Processor time of a key and of an account, ms per second and at once. */
const OF_KEY = { perSecond: 200, burst: 400 };
const OF_ACCOUNT = { perSecond: 300, burst: 600 };
/** Queries of an account that wait for their turn. */
const MAX_WAITING = 256;
/** How long a reader waits for its share, and how often it looks, ms. */
const MAX_WAIT_MS = 2_000;
const LOOK_MS = 50;
/** Keys and accounts whose use is remembered. */
const MAX_PARTIES = 10_000;

export interface TurnCaller {
  readonly key: string;
  readonly account: string;
}

export class FairTurns {
  readonly #now: () => number;
  readonly #shares = new LRUCache<string, Rate>({ max: MAX_PARTIES });
  readonly #waiting = new FairQueue<() => void>();
  /** Readers that wait for their share, by account. */
  readonly #readers = new Map<string, number>();
  #isDue = false;

  /** @param now - monotonic, ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Waits until the caller has some of its share, for what is cheaper to delay than to refuse.
   * @throws CapstanError RATE_LIMITED when it has none for {@link MAX_WAIT_MS}.
   */
  async ready({ key, account }: TurnCaller): Promise<void> {
    const shares = this.#sharesOf(key, account);
    if (!this.#areUsed(shares)) return;
    const readers = this.#readers.get(account) ?? 0;
    if (readers >= MAX_WAITING) throw shareUsed();
    this.#readers.set(account, readers + 1);
    try {
      const end = this.#now() + MAX_WAIT_MS;
      while (this.#areUsed(shares)) {
        if (this.#now() >= end) throw shareUsed();
        await pause(LOOK_MS);
      }
    } finally {
      const left = (this.#readers.get(account) ?? 1) - 1;
      if (left === 0) this.#readers.delete(account);
      else this.#readers.set(account, left);
    }
  }

  /**
   * Calls `begin` in a turn of the loop and returns its result. What it does before its first await is charged to the caller,
   * `times` over where other parts do as much for it.
   * @throws CapstanError RATE_LIMITED for a caller that has used its share.
   */
  run<T>({ key, account }: TurnCaller, begin: () => Promise<T>, times = 1): Promise<T> {
    const shares = this.#sharesOf(key, account);
    if (this.#waiting.sizeOf(account) >= MAX_WAITING) throw shareUsed();
    if (this.#areUsed(shares)) throw shareUsed();
    return new Promise((resolve, reject) => {
      this.#waiting.push(account, () => {
        // Others of the caller may have used it while this one waited.
        if (this.#areUsed(shares)) {
          reject(shareUsed());
          return;
        }
        const before = process.threadCpuUsage();
        resolve(begin());
        const { user, system } = process.threadCpuUsage(before);
        for (const share of shares) share.charge((times * (user + system)) / 1_000, this.#now());
      });
      this.#schedule();
    });
  }

  #areUsed(shares: readonly Rate[]): boolean {
    const now = this.#now();
    return shares.some((share) => !share.has(now));
  }

  #schedule(): void {
    if (this.#isDue || this.#waiting.isEmpty) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.#waiting.shift()?.();
      this.#schedule();
    });
  }

  #sharesOf(key: string, account: string): readonly Rate[] {
    return [this.#share(`key ${key}`, OF_KEY), this.#share(`account ${account}`, OF_ACCOUNT)];
  }

  #share(party: string, { perSecond, burst }: { readonly perSecond: number; readonly burst: number }): Rate {
    let share = this.#shares.get(party);
    if (share === undefined) {
      share = new Rate(perSecond, burst);
      this.#shares.set(party, share);
    }
    return share;
  }
}

function shareUsed(): CapstanError {
  const why = 'the queries and log pages of this key, or of its account, have used their share of the processor time of the gateway';
  return new CapstanError('RATE_LIMITED', why, { retryAfterMs: 1_000 });
}

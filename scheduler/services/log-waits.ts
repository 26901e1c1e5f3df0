/**
 * Limits the requests of an account for log lines: how many wait for lines, since each is an open call, whose number is limited for all
 * calls together, and how many search at once.
 */
import { CapstanError } from '../../lib/errors.ts';

/** Requests of an account that wait at once; a further one does not wait. */
const MAX_WAITS = 16;
const MAX_WAIT_MS = 30_000;

export class LogWaitLimit {
  readonly #waiting = new Map<string, number>();

  /** Runs a request with the time that it may wait, ms. */
  async run<T>(account: string, waitMs: number, request: (allowedMs: number) => Promise<T>): Promise<T> {
    const waiting = this.#waiting.get(account) ?? 0;
    if (waiting >= MAX_WAITS) return request(0);
    this.#waiting.set(account, waiting + 1);
    try {
      return await request(Math.min(waitMs, MAX_WAIT_MS));
    } finally {
      const left = (this.#waiting.get(account) ?? 1) - 1;
      if (left === 0) this.#waiting.delete(account);
      else this.#waiting.set(account, left);
    }
  }
}

/** Searches of an account that run at once; further ones wait, and those that are too many are refused. */
const MAX_SEARCHES = 2;
const MAX_WAITING = 64;

/**
 * Lets few searches of an account run at once: each page is up to two million characters, which the scheduler reads, merges and
 * writes between the calls of everyone else.
 */
export class LogSearchLimit {
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();

  /** @throws CapstanError RATE_LIMITED when too many searches of the account wait. */
  async run<T>(account: string, search: () => Promise<T>): Promise<T> {
    const running = this.#running.get(account) ?? 0;
    if (running < MAX_SEARCHES) this.#running.set(account, running + 1);
    else {
      const waiting = this.#waiting.get(account) ?? [];
      if (waiting.length >= MAX_WAITING)
        throw new CapstanError('RATE_LIMITED', `more than ${MAX_WAITING} log searches of the account are waiting`, { retryAfterMs: 1_000 });
      this.#waiting.set(account, waiting);
      await new Promise<void>((resolve) => waiting.push(resolve));
    }
    try {
      return await search();
    } finally {
      this.#end(account);
    }
  }

  /** The place of a search that has ended is the next one's. */
  #end(account: string): void {
    const waiting = this.#waiting.get(account);
    const next = waiting?.shift();
    if (waiting?.length === 0) this.#waiting.delete(account);
    if (next !== undefined) {
      next();
      return;
    }
    const left = (this.#running.get(account) ?? 1) - 1;
    if (left === 0) this.#running.delete(account);
    else this.#running.set(account, left);
  }
}

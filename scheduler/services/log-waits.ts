/** Limits how many requests of an account wait for log lines: each is an open call, whose number is limited for all calls together. */

/** Requests of an account that wait at once; a further one does not wait. */
const MOST_WAITS = 16;
const MAX_WAIT_MS = 30_000;

export class LogWaitLimit {
  readonly #waiting = new Map<string, number>();

  /** Runs a request with the time that it may wait, ms. */
  async run<T>(account: string, waitMs: number, request: (allowedMs: number) => Promise<T>): Promise<T> {
    const waiting = this.#waiting.get(account) ?? 0;
    if (waiting >= MOST_WAITS) return request(0);
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

/**
 * Rate limits: per endpoint and operation, at most so many requests in any
 * 10 seconds and so many open at once. The effective limit is the higher of the base limit and
 * running workers × requests per worker; the concurrent one grows in proportion.
 *
 * The window slides and is exact: the times of the accepted requests are kept until they leave it.
 */
import type { LIMITED_OPERATIONS } from '../../../lib/endpoint-settings.ts';
import { CapstanError } from '../../../lib/errors.ts';

/** Length of the window, ms. */
export const WINDOW_MS = 10_000;

export type LimitedOperation = (typeof LIMITED_OPERATIONS)[number];

/** A limit; 0 stands for none. */
export interface Limit {
  /** Requests in any window. */
  readonly requests: number;
  /** Requests open at once. */
  readonly concurrent: number;
}

export type Limits = Readonly<Record<LimitedOperation, Limit>>;

export const defaultLimits: Limits = {
  runsync: { requests: 2_000, concurrent: 400 },
  run: { requests: 1_000, concurrent: 200 },
  status: { requests: 2_000, concurrent: 400 },
  stream: { requests: 2_000, concurrent: 400 },
  cancel: { requests: 100, concurrent: 20 },
  'purge-queue': { requests: 2, concurrent: 0 },
  openai: { requests: 2_000, concurrent: 400 },
  requests: { requests: 10, concurrent: 2 },
};

/** Requests per window that one running worker adds. */
export const DEFAULT_REQUESTS_PER_WORKER = 100;

/** What one operation of one endpoint has accepted. */
export class Usage {
  #open = 0;
  #times: Float64Array = new Float64Array(16);
  #first = 0;
  #count = 0;

  /** Requests that are open now. */
  get open(): number {
    return this.#open;
  }

  /** One more request is open. */
  hold(): void {
    this.#open++;
  }

  /** A request is open no more. */
  release(): void {
    this.#open--;
  }

  /** Accepted requests that are still in the window. */
  inWindow(now: number): number {
    while (this.#count > 0 && (this.#times[this.#first] as number) <= now - WINDOW_MS) {
      this.#first = (this.#first + 1) % this.#times.length;
      this.#count--;
    }
    return this.#count;
  }

  /** When the oldest accepted request leaves the window. */
  oldest(): number {
    return this.#times[this.#first] ?? 0;
  }

  accept(now: number): void {
    if (this.#count === this.#times.length) this.#grow();
    this.#times[(this.#first + this.#count) % this.#times.length] = now;
    this.#count++;
  }

  #grow(): void {
    const larger = new Float64Array(this.#times.length * 2);
    for (let i = 0; i < this.#count; i++) larger[i] = this.#times[(this.#first + i) % this.#times.length] as number;
    this.#times = larger;
    this.#first = 0;
  }
}

/** The limit that holds with so many running workers. */
export function effectiveLimit(base: Limit, runningWorkers: number, requestsPerWorker: number): Limit {
  if (base.requests === 0) return base;
  const requests = Math.max(base.requests, runningWorkers * requestsPerWorker);
  return { requests, concurrent: Math.floor((base.concurrent * requests) / base.requests) };
}

/** A request that asks for its place. */
export interface Asking {
  readonly operation: LimitedOperation;
  /** Monotonic, ms. */
  readonly now: number;
  readonly resent: boolean;
}

/**
 * Accepts a request, or says why not. An accepted one counts as open until it is released.
 * One that was sent again after a broken stream was accepted before and is not counted anew.
 */
export function tryAcquire(usage: Usage, limit: Limit, { operation, now, resent }: Asking): CapstanError | null {
  if (!resent) {
    if (limit.requests > 0 && usage.inWindow(now) >= limit.requests) {
      const retryAfterMs = Math.max(1, Math.ceil(usage.oldest() + WINDOW_MS - now));
      return new CapstanError('RATE_LIMITED', `${operation}: more than ${limit.requests} requests in 10 seconds`, { retryAfterMs });
    }
    if (limit.concurrent > 0 && usage.open >= limit.concurrent) {
      return new CapstanError('RATE_LIMITED', `${operation}: more than ${limit.concurrent} requests at once`, { retryAfterMs: 1_000 });
    }
    if (limit.requests > 0) usage.accept(now);
  }
  usage.hold();
  return null;
}

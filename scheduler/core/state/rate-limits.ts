/**
 * Rate limits: per endpoint and operation, a maximum of requests in any 10 seconds and of requests open at once. The
 * effective limit is the higher of the base limit and running workers × requests per worker; the concurrent limit grows
 * in proportion.
 *
 * The window slides and is exact: the times of the accepted requests are kept until they leave it.
 */
import type { LIMITED_OPERATIONS } from '../../../lib/endpoint-settings.ts';
import { CapstanError } from '../../../lib/errors.ts';
import { invariant, present } from '../../../lib/invariant.ts';

/** Length of the window, ms. */
export const WINDOW_MS = 10_000;

export type LimitedOperation = (typeof LIMITED_OPERATIONS)[number];

/** A limit; 0 means no limit. */
export interface Limit {
  /** Maximum of requests in any window. */
  readonly requests: number;
  /** Maximum of requests open at once. */
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

/** The accepted requests of one operation of one endpoint. */
export class Usage {
  #open = 0;
  #times: Float64Array = new Float64Array(16);
  #first = 0;
  #count = 0;

  /** Number of open requests. */
  get open(): number {
    return this.#open;
  }

  /** Counts one more open request. */
  hold(): void {
    this.#open++;
  }

  /** Counts one open request less. */
  release(): void {
    invariant(this.#open > 0, 'a request that is released was open', { open: this.#open });
    this.#open--;
  }

  /** Returns the number of accepted requests that are still in the window. */
  inWindow(now: number): number {
    while (this.#count > 0 && (this.#times[this.#first] as number) <= now - WINDOW_MS) {
      this.#first = (this.#first + 1) % this.#times.length;
      this.#count--;
    }
    return this.#count;
  }

  /** Returns when the oldest request in the window was accepted. There must be one. */
  oldest(): number {
    invariant(this.#count > 0, 'a window that is full has an oldest request');
    return present(this.#times[this.#first], 'the window is within its buffer', { first: this.#first });
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

/** Returns the limit for this number of running workers. */
export function effectiveLimit(base: Limit, runningWorkers: number, requestsPerWorker: number): Limit {
  if (base.requests === 0) return base;
  const requests = Math.max(base.requests, runningWorkers * requestsPerWorker);
  return { requests, concurrent: Math.floor((base.concurrent * requests) / base.requests) };
}

/** A request to be admitted. */
export interface AdmissionRequest {
  readonly operation: LimitedOperation;
  /** Monotonic, ms. */
  readonly now: number;
  readonly resent: boolean;
}

/**
 * Accepts a request, or returns why not. An accepted request counts as open until it is released. A request that was
 * sent again after a broken stream was accepted before and is not counted again.
 */
export function tryAcquire(usage: Usage, limit: Limit, { operation, now, resent }: AdmissionRequest): CapstanError | null {
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

/**
 * The main thread's end of the thread that reads for searches.
 *
 *   idle ──first search──▶ reading ──close()──▶ closed
 *     ▲                       │
 *     └─ thread has ended ── ending ◀── a read beyond its time, no memory left, the thread fails
 *
 * Nothing depends on it: when it fails, the searches under way are refused, and the next one starts another thread.
 */
import { Worker } from 'node:worker_threads';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf, toError } from '../../../lib/to-error.ts';
import type { PayloadKeySet } from '../../secrets/payload-keys.ts';
import { fromFailure, isFailure, type StoreReply } from './protocol.ts';
import type { SearchRequest, SearchThreadData } from './search-protocol.ts';

export interface SearchLimits {
  /** How long one read may take, ms. */
  readonly readMs: number;
  /** Memory of the thread's own objects, MiB. */
  readonly memoryMb: number;
}

export const SEARCH_LIMITS: SearchLimits = { readMs: 5_000, memoryMb: 128 };

/** How long the thread may take to start, ms: longer than a read, because a busy host starts threads slowly. */
const START_MS = 30_000;
const YOUNG_MB = 16;

interface Pending {
  readonly limitMs: number;
  settle(answer: StoreReply): void;
  reject(error: Error): void;
}

export class SearchReader {
  readonly #file: string;
  readonly #limits: SearchLimits;
  readonly #onDamage: (error: CapstanError) => void;
  #keys: PayloadKeySet | null;
  #worker: Worker | null = null;
  /** Settled once the last thread that failed has ended. */
  #ending: Promise<void> = Promise.resolve();
  #pending: Pending[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `onDamage` is called when a search finds the database damaged. */
  constructor(
    file: string,
    keys: PayloadKeySet | null,
    { limits = SEARCH_LIMITS, onDamage }: { readonly limits?: SearchLimits | undefined; readonly onDamage: (error: CapstanError) => void },
  ) {
    this.#file = file;
    this.#keys = keys;
    this.#limits = limits;
    this.#onDamage = onDamage;
  }

  /** @throws CapstanError UNAVAILABLE if the read takes too long or the thread fails, DATA_LOST if the database is damaged. */
  async ask<T>(question: SearchRequest, read: (answer: StoreReply) => T): Promise<T> {
    await this.#ending;
    if (this.#isClosed) throw this.#unavailable('it is closed');
    const worker = this.#worker ?? this.#start();
    worker.postMessage(question);
    return this.#expect(this.#limits.readMs, read);
  }

  usePayloadKeys(keys: PayloadKeySet): void {
    this.#keys = keys;
    if (this.#worker !== null) void this.ask({ ask: 'payload-keys', keys }, () => undefined).catch(() => undefined);
  }

  /** The writing connection must be the last one to close: it removes the log. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    if (worker !== null) {
      const exited = new Promise<void>((resolve) => void worker.once('exit', () => resolve()));
      worker.postMessage({ ask: 'close' } satisfies SearchRequest);
      await exited;
    }
    await this.#ending;
  }

  #start(): Worker {
    const workerData: SearchThreadData = { file: this.#file, payloadKeys: this.#keys };
    const worker = new Worker(new URL('./search-thread.ts', import.meta.url), {
      workerData,
      name: 'capstan-search',
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.memoryMb, maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.#worker = worker;
    const ended = (reason: string): void => {
      if (this.#worker === worker) this.#drop(this.#unavailable(reason));
    };
    worker.on('message', (answer: StoreReply) => this.#answered(worker, answer));
    worker.on('messageerror', (error) => ended(error.message));
    worker.on('error', (error) => ended(messageOf(error)));
    worker.on('exit', () => ended('its thread for searches ended'));
    // The first message is the result of the opening; who searches is told of a failure by its own request.
    this.#expect(START_MS, () => undefined).catch(() => undefined);
    return worker;
  }

  #expect<T>(limitMs: number, read: (answer: StoreReply) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({
        limitMs,
        settle(answer) {
          try {
            resolve(read(answer));
          } catch (error) {
            reject(toError(error));
          }
        },
        reject,
      });
      if (this.#pending.length === 1) this.#watch();
    });
  }

  #answered(worker: Worker, answer: StoreReply): void {
    if (this.#worker !== worker) return;
    const pending = this.#pending.shift();
    this.#watch();
    if (pending === undefined) return;
    if (!isFailure(answer)) {
      pending.settle(answer);
      return;
    }
    const error = fromFailure(answer.failure, null);
    pending.reject(error);
    if (error instanceof CapstanError && error.code === 'DATA_LOST') this.#onDamage(error);
  }

  /** Watches the time of the read that the thread is at. */
  #watch(): void {
    clearTimeout(this.#timer);
    const next = this.#pending[0];
    if (next === undefined) return;
    this.#timer = setTimeout(() => this.#drop(this.#unavailable(`a search took longer than ${next.limitMs} ms`)), next.limitMs);
    this.#timer.unref();
  }

  /** Ends the thread. It stops at the end of the statement that it runs, and every statement has a bound. */
  #drop(refusal: CapstanError): void {
    const worker = this.#worker;
    this.#worker = null;
    clearTimeout(this.#timer);
    for (const pending of this.#pending.splice(0)) pending.reject(refusal);
    if (worker === null) return;
    this.#ending = Promise.all([this.#ending, worker.terminate()]).then(() => undefined);
  }

  #unavailable(reason: string): CapstanError {
    return new CapstanError('UNAVAILABLE', `store ${this.#file}: ${reason}`, { retryAfterMs: 1_000 });
  }
}

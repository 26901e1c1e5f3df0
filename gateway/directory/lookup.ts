/**
 * Finds keys and endpoints in the directory, else at the scheduler, so that new ones are found at once. Look-ups are
 * rate limited, and a negative result is cached for a second. A failed look-up is UNAVAILABLE, never "does not exist".
 */
import type { Metadata } from '@grpc/grpc-js';
import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import type { ControlServiceClient, EndpointEntry } from '../../proto/gen/capstan/v1/control.ts';
import { schedulerRefusal } from '../grpc/refusals.ts';
import { callUnary } from '../jobs/unary.ts';
import { keyOf, type Directory, type Key } from './directory.ts';
import { LookupBudget, type LookupKind } from './lookup-budget.ts';
import type { DirectoryWatch } from './watch.ts';

const NEGATIVE_MS = 1000;
const NEGATIVE_ENTRIES = 10_000;
/** Cached worker tokens that were valid before. */
const GOOD_TOKENS = 10_000;

/** The budget that a look-up uses. `caller`: a peer or an account. */
interface From {
  readonly kind: LookupKind;
  readonly caller: string;
}

export interface LookupOptions {
  readonly directory: Directory;
  readonly watch: DirectoryWatch;
  readonly client: ControlServiceClient;
  readonly metadata: Metadata;
  /** How long a look-up waits for the owner of the queue, ms. */
  readonly timeoutMs: number;
  /** Look-ups per second. */
  readonly perSecond: number;
  /** Monotonic clock, ms. */
  readonly now: () => number;
}

export class Lookup {
  readonly #directory: Directory;
  readonly #watch: DirectoryWatch;
  readonly #client: ControlServiceClient;
  readonly #metadata: Metadata;
  readonly #timeoutMs: number;
  readonly #budget: LookupBudget;
  readonly #now: () => number;
  readonly #absent = new LRUCache<string, true>({ max: NEGATIVE_ENTRIES, ttl: NEGATIVE_MS });
  /** Hashes of worker tokens that were valid at their last look-up. */
  readonly #good = new LRUCache<string, true>({ max: GOOD_TOKENS });
  readonly #asking = new Map<string, Promise<unknown>>();

  constructor({ directory, watch, client, metadata, timeoutMs, perSecond, now }: LookupOptions) {
    this.#directory = directory;
    this.#watch = watch;
    this.#client = client;
    this.#metadata = metadata;
    this.#timeoutMs = timeoutMs;
    this.#budget = new LookupBudget(perSecond);
    this.#now = now;
  }

  /** Returns what the directory holds, without a look-up. */
  knownKey(hash: string): Key | undefined {
    return this.#directory.key(hash);
  }

  knownEndpoint(id: string): EndpointEntry | undefined {
    return this.#directory.endpoint(id);
  }

  /**
   * Returns the key with this SHA-256 (hex), or undefined when there is none. `caller`: shares a budget of look-ups.
   * @throws CapstanError UNAVAILABLE when the look-up fails.
   */
  async key(hash: string, caller: string): Promise<Key | undefined> {
    const known = this.#directory.key(hash);
    if (known !== undefined) return known;
    return this.#lookUp(`key/${hash}`, { kind: 'key', caller }, async () => {
      const removals = this.#directory.removals;
      const entry = await callUnary(
        this.#client.lookupKey.bind(this.#client),
        { hash: Buffer.from(hash, 'hex'), workerToken: '' },
        this.#metadata,
        this.#timeoutMs,
      );
      if (removals === this.#directory.removals) return this.#directory.addKey(entry);
      return keyOf(entry);
    });
  }

  /**
   * Returns the key that a worker token stands for, or undefined when the token is invalid or its worker has ended.
   * `hash` is its SHA-256 (hex). `caller`: shares a budget of look-ups.
   * @throws CapstanError UNAVAILABLE when the look-up fails.
   */
  async worker(token: string, hash: string, caller: string): Promise<Key | undefined> {
    const kind = this.#good.has(hash) ? 'renewal' : 'worker';
    const key = await this.#lookUp(`worker/${hash}`, { kind, caller }, async () => {
      const request = { hash: Buffer.alloc(0), workerToken: token };
      return keyOf(await callUnary(this.#client.lookupKey.bind(this.#client), request, this.#metadata, this.#timeoutMs));
    });
    if (key === undefined) this.#good.delete(hash);
    else this.#good.set(hash, true);
    return key;
  }

  /**
   * Returns the endpoint with this id, or undefined when there is none. `caller`: shares a budget of look-ups.
   * @throws CapstanError UNAVAILABLE when the look-up fails.
   */
  async endpoint(id: string, caller: string): Promise<EndpointEntry | undefined> {
    const known = this.#directory.endpoint(id);
    if (known !== undefined) return known;
    return this.#lookUp(`endpoint/${id}`, { kind: 'endpoint', caller }, async () => {
      const removals = this.#directory.removals;
      const entry = await callUnary(this.#client.lookupEndpoint.bind(this.#client), { endpointId: id }, this.#metadata, this.#timeoutMs);
      if (removals === this.#directory.removals) this.#directory.addEndpoint(entry);
      return entry;
    });
  }

  async #lookUp<T>(name: string, from: From, question: () => Promise<T>): Promise<T | undefined> {
    if (this.#absent.has(name)) return undefined;
    const asked = this.#asking.get(name) as Promise<T | undefined> | undefined;
    if (asked !== undefined) return asked;
    if (!this.#watch.reached) throw unreachable();
    if (!this.#budget.take(from.kind, from.caller, this.#now()))
      throw new CapstanError('UNAVAILABLE', 'too many unknown keys and endpoints are being looked up', { retryAfterMs: 1000 });
    const answer = this.#once(name, question);
    this.#asking.set(name, answer);
    try {
      return await answer;
    } finally {
      this.#asking.delete(name);
    }
  }

  async #once<T>(name: string, question: () => Promise<T>): Promise<T | undefined> {
    try {
      return await question();
    } catch (thrown) {
      const error = schedulerRefusal(thrown);
      if (error.code !== 'NOT_FOUND') {
        throw new CapstanError('UNAVAILABLE', 'the scheduler is unreachable', { retryAfterMs: 1000, cause: error });
      }
      this.#absent.set(name, true);
      return undefined;
    }
  }
}

function unreachable(): CapstanError {
  return new CapstanError('UNAVAILABLE', 'the scheduler is unreachable', { retryAfterMs: 1000 });
}

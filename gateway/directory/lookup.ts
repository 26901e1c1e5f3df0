/**
 * Finds keys and endpoints: in the directory, else by asking the scheduler once, so that what was
 * made a moment ago is found. Asking is bounded in rate, and a "no" is remembered for a second.
 */
import type { Metadata } from '@grpc/grpc-js';
import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../proto/errors.ts';
import type { ControlServiceClient, EndpointEntry } from '../../proto/gen/capstan/v1/control.ts';
import { schedulerRefusal } from '../grpc/refusals.ts';
import { callUnary } from '../jobs/unary.ts';
import { Rate } from '../../proto/rate.ts';
import { keyOf, type Directory, type Key } from './directory.ts';
import type { DirectoryWatch } from './watch.ts';

const NEGATIVE_MS = 1000;
const NEGATIVE_ENTRIES = 10_000;
const TIMEOUT_MS = 2000;

export class Lookup {
  readonly #directory: Directory;
  readonly #watch: DirectoryWatch;
  readonly #client: ControlServiceClient;
  readonly #metadata: Metadata;
  readonly #rate: Rate;
  readonly #now: () => number;
  readonly #absent = new LRUCache<string, true>({ max: NEGATIVE_ENTRIES, ttl: NEGATIVE_MS });
  readonly #asking = new Map<string, Promise<unknown>>();

  /** `metadata` must not wait for readiness: a scheduler that is away is answered 503 at once. */
  constructor(
    directory: Directory,
    watch: DirectoryWatch,
    client: ControlServiceClient,
    metadata: Metadata,
    perSecond: number,
    now: () => number,
  ) {
    this.#directory = directory;
    this.#watch = watch;
    this.#client = client;
    this.#metadata = metadata;
    this.#rate = new Rate(perSecond);
    this.#now = now;
  }

  /** What the directory holds, without asking. */
  knownKey(hash: string): Key | undefined {
    return this.#directory.key(hash);
  }

  knownEndpoint(id: string): EndpointEntry | undefined {
    return this.#directory.endpoint(id);
  }

  /**
   * The key with this SHA-256 (hex), or undefined when there is none.
   * @throws CapstanError UNAVAILABLE when nobody can tell.
   */
  async key(hash: string): Promise<Key | undefined> {
    const known = this.#directory.key(hash);
    if (known !== undefined) return known;
    return this.#ask(`key/${hash}`, async () => {
      const removals = this.#directory.removals;
      const entry = await callUnary(
        this.#client.lookupKey.bind(this.#client),
        { hash: Buffer.from(hash, 'hex'), workerToken: '' },
        this.#metadata,
        TIMEOUT_MS,
      );
      if (removals === this.#directory.removals) return this.#directory.addKey(entry);
      return keyOf(entry);
    });
  }

  /**
   * What a worker's token is good for, or undefined when it is none or its worker is gone. `hash` is
   * its SHA-256 (hex).
   * @throws CapstanError UNAVAILABLE when nobody can tell.
   */
  async worker(token: string, hash: string): Promise<Key | undefined> {
    return this.#ask(`worker/${hash}`, async () => {
      const request = { hash: Buffer.alloc(0), workerToken: token };
      return keyOf(await callUnary(this.#client.lookupKey.bind(this.#client), request, this.#metadata, TIMEOUT_MS));
    });
  }

  /**
   * The endpoint with this id, or undefined when there is none.
   * @throws CapstanError UNAVAILABLE when nobody can tell.
   */
  async endpoint(id: string): Promise<EndpointEntry | undefined> {
    const known = this.#directory.endpoint(id);
    if (known !== undefined) return known;
    return this.#ask(`endpoint/${id}`, async () => {
      const removals = this.#directory.removals;
      const entry = await callUnary(this.#client.lookupEndpoint.bind(this.#client), { endpointId: id }, this.#metadata, TIMEOUT_MS);
      if (removals === this.#directory.removals) this.#directory.addEndpoint(entry);
      return entry;
    });
  }

  async #ask<T>(name: string, question: () => Promise<T>): Promise<T | undefined> {
    if (this.#absent.has(name)) return undefined;
    const asked = this.#asking.get(name) as Promise<T | undefined> | undefined;
    if (asked !== undefined) return asked;
    if (!this.#watch.reached) throw unreachable();
    if (!this.#rate.take(this.#now())) {
      // The stream would have told us within moments: "no" is right but for what is being made just now.
      if (this.#watch.current) return undefined;
      throw unreachable();
    }
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
        throw new CapstanError('UNAVAILABLE', 'the scheduler cannot be reached', { retryAfterMs: 1000, cause: error });
      }
      this.#absent.set(name, true);
      return undefined;
    }
  }
}

function unreachable(): CapstanError {
  return new CapstanError('UNAVAILABLE', 'the scheduler cannot be reached', { retryAfterMs: 1000 });
}

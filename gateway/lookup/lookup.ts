/**
 * Finds keys and endpoints in the directory, else at the scheduler, so that new ones are found at once. With several
 * cells all of their owners are asked at once, and the first that knows it has it. Look-ups are rate limited, and a
 * negative result is cached for a second. A failed look-up is UNAVAILABLE, never "does not exist": an owner that does not
 * answer may have what the others do not know.
 *
 * An account moves from one cell to another under new terms of both. While it does, neither owner may know it: the one has
 * read its state after the move, the other not yet. So what no owner knows does not exist only if all of them answered
 * under the terms that their cells had afterwards, too; else they are asked again.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { status, type Metadata } from '@grpc/grpc-js';
import { LRUCache } from 'lru-cache';

import { backoffMs } from '../../lib/backoff.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isGrpcStatus } from '../../lib/grpc-errors.ts';
import type { ControlServiceClient, LookupEndpointNameResponse } from '../../proto/gen/capstan/v1/control.ts';
import { coveredBy, endpointMeant } from '../directory/named-endpoint.ts';
import { schedulerRefusal } from '../grpc/refusals.ts';
import { isId, isName } from '../directory/ids.ts';
import { callUnary } from '../jobs/unary.ts';
import { keyOf, type Directory, type Endpoint, type Key } from '../directory/directory.ts';
import { LookupBudget, type LookupKind } from './lookup-budget.ts';
import type { CellList, Terms } from '../cells/cell-list.ts';
import type { DirectoryWatch } from '../directory/watch.ts';

const NEGATIVE_MS = 1000;
const NEGATIVE_ENTRIES = 10_000;
/** Requests that may wait for the first reading of the directory. */
const MAX_STARTING = 10_000;
/** Cached worker tokens that were valid before. */
const GOOD_TOKENS = 10_000;

/** The budget that a look-up uses. `caller`: a peer or an account. */
interface From {
  readonly kind: LookupKind;
  readonly caller: string;
}

/** The owner of a cell, as far as look-ups need it. */
export interface LookupCell {
  readonly name: string;
  readonly watch: Pick<DirectoryWatch, 'reached' | 'firstRead'>;
  readonly control: ControlServiceClient;
  readonly metadata: Metadata;
  /** The highest term that its owners showed; undefined while none did. */
  readonly term: bigint | undefined;
}

export interface LookupOptions {
  readonly directory: Directory;
  readonly cells: () => readonly LookupCell[];
  /** The list that shows which cells there are beside `default`. */
  readonly cellList: () => Pick<CellList, 'reached' | 'firstRead' | 'now'>;
  /** How long a look-up waits for the owners, ms. */
  readonly timeoutMs: number;
  /** Look-ups per second. */
  readonly perSecond: number;
  /** Monotonic clock, ms. */
  readonly now: () => number;
}

export class Lookup {
  readonly #directory: Directory;
  readonly #cells: () => readonly LookupCell[];
  readonly #cellList: LookupOptions['cellList'];
  readonly #timeoutMs: number;
  readonly #budget: LookupBudget;
  readonly #now: () => number;
  readonly #absent = new LRUCache<string, true>({ max: NEGATIVE_ENTRIES, ttl: NEGATIVE_MS });
  /** Hashes of worker tokens that were valid at their last look-up. */
  readonly #good = new LRUCache<string, true>({ max: GOOD_TOKENS });
  #starting = 0;
  readonly #asking = new Map<string, Promise<unknown>>();
  /** Cells of endpoints that were looked up and that the directory may not hold yet. */
  readonly #cellOf = new LRUCache<string, string>({ max: NEGATIVE_ENTRIES });

  constructor({ directory, cells, cellList, timeoutMs, perSecond, now }: LookupOptions) {
    this.#directory = directory;
    this.#cells = cells;
    this.#cellList = cellList;
    this.#timeoutMs = timeoutMs;
    this.#budget = new LookupBudget(perSecond);
    this.#now = now;
  }

  /** Returns what the directory holds, without a look-up. */
  knownKey(hash: string): Key | undefined {
    return this.#directory.key(hash);
  }

  knownEndpoint(id: string): Endpoint | undefined {
    return this.#directory.endpoint(id);
  }

  /** The same as `endpointOf` without a look-up; undefined also for an ambiguous name. */
  knownEndpointOf(key: Key, wanted: string): Endpoint | undefined {
    const byId = this.#directory.endpoint(wanted);
    if (byId?.accountId === key.accountId) return byId;
    const named = coveredBy(key, this.#directory.endpointsNamed(key.accountId, wanted));
    return named.length === 1 ? named[0] : undefined;
  }

  /** The cell in which an account lives, if a key of it is known. */
  cellOfAccount(account: string): string | undefined {
    return this.#directory.cellOfAccount(account);
  }

  /** The cell of an endpoint that was found; undefined for others. */
  cellOf(endpointId: string): string | undefined {
    return this.#directory.endpoint(endpointId)?.cell ?? this.#cellOf.get(endpointId);
  }

  /**
   * Returns the key with this SHA-256 (hex), or undefined when there is none. `caller`: shares a budget of look-ups.
   * @throws CapstanError UNAVAILABLE when the look-up fails.
   */
  async key(hash: string, caller: string): Promise<Key | undefined> {
    const known = this.#directory.key(hash) ?? (await this.#afterStart(() => this.#directory.key(hash)));
    if (known !== undefined) return known;
    return this.#askForKey(hash, caller);
  }

  /**
   * Returns the key that a worker token stands for, or undefined when the token is invalid or its worker has ended.
   * `hash` is its SHA-256 (hex). `caller`: shares a budget of look-ups.
   * @throws CapstanError UNAVAILABLE when the look-up fails.
   */
  async worker(token: string, hash: string, caller: string): Promise<Key | undefined> {
    await this.#afterStart(() => undefined);
    const kind = this.#good.has(hash) ? 'renewal' : 'worker';
    const key = await this.#lookUp(`worker/${hash}`, { kind, caller }, async ({ name, control, metadata }) => {
      const request = { hash: Buffer.alloc(0), workerToken: token };
      return keyOf(await callUnary(control.lookupKey.bind(control), request, metadata, this.#timeoutMs), name);
    });
    if (key === undefined) this.#good.delete(hash);
    else this.#good.set(hash, true);
    return key;
  }

  /**
   * Returns the endpoint with this id, or undefined when there is none. `caller`: shares a budget of look-ups.
   * @throws CapstanError UNAVAILABLE when the look-up fails.
   */
  async endpoint(id: string, caller: string): Promise<Endpoint | undefined> {
    const known = this.#directory.endpoint(id) ?? (await this.#afterStart(() => this.#directory.endpoint(id)));
    if (known !== undefined) return known;
    return this.#askForEndpoint(id, caller);
  }

  /**
   * Returns a key whose account may have left a cell: that cell's owner does not know the key that the directory has. Undefined
   * if no other cell has it. `caller`: as above.
   * @throws CapstanError UNAVAILABLE when the look-up fails.
   */
  async keyElsewhere(hash: string, from: string, caller: string): Promise<Key | undefined> {
    if (this.#cells().length === 1) return undefined;
    const known = this.#directory.key(hash);
    const key = known !== undefined && known.cell !== from ? known : await this.#askForKey(hash, caller);
    if (key === undefined || key.cell === from) return undefined;
    // Cached keys name the cell of before.
    this.#directory.onKeysChanged();
    return key;
  }

  /** The same for an endpoint: returns the name of the cell that has it by now. */
  async endpointElsewhere(id: string, from: string, caller: string): Promise<string | undefined> {
    if (this.#cells().length === 1) return undefined;
    const known = this.#directory.endpoint(id);
    const endpoint = known !== undefined && known.cell !== from ? known : await this.#askForEndpoint(id, caller);
    return endpoint === undefined || endpoint.cell === from ? undefined : endpoint.cell;
  }

  #askForKey(hash: string, caller: string): Promise<Key | undefined> {
    return this.#lookUp(`key/${hash}`, { kind: 'key', caller }, async ({ name, control, metadata }) => {
      const removals = this.#directory.removals;
      const request = { hash: Buffer.from(hash, 'hex'), workerToken: '' };
      const entry = await callUnary(control.lookupKey.bind(control), request, metadata, this.#timeoutMs);
      return removals === this.#directory.removals ? this.#directory.addKey(entry, name) : keyOf(entry, name);
    });
  }

  #askForEndpoint(id: string, caller: string): Promise<Endpoint | undefined> {
    return this.#lookUp(`endpoint/${id}`, { kind: 'endpoint', caller }, async ({ name, control, metadata }) => {
      const removals = this.#directory.removals;
      const entry = await callUnary(control.lookupEndpoint.bind(control), { endpointId: id }, metadata, this.#timeoutMs);
      this.#cellOf.set(id, name);
      return removals === this.#directory.removals ? this.#directory.addEndpoint(entry, name) : { ...entry, cell: name };
    });
  }

  /**
   * Returns the key's endpoint with this id, else its only one with this name, or undefined when it has none: names of
   * other accounts are not searched.
   * @throws CapstanError CONFLICT when several environments have an endpoint of this name; UNAVAILABLE when the look-up
   * fails.
   */
  async endpointOf(key: Key, wanted: string): Promise<Endpoint | undefined> {
    const known = this.knownEndpointOf(key, wanted);
    if (known !== undefined) return known;
    const byId = isId(wanted) ? await this.endpoint(wanted, key.accountId) : undefined;
    if (byId?.accountId === key.accountId || !isName(wanted)) return byId;
    const named = endpointMeant(key, wanted, this.#directory.endpointsNamed(key.accountId, wanted));
    return named ?? endpointMeant(key, wanted, await this.#named(key, wanted));
  }

  /** Requests the endpoints of a name: only the owner of the account's cell has any. */
  async #named({ accountId }: Key, name: string): Promise<readonly Endpoint[]> {
    const from: From = { kind: 'name', caller: accountId };
    const found = await this.#lookUp(`name/${accountId}/${name}`, from, async ({ name: cell, control, metadata }) => {
      const removals = this.#directory.removals;
      const lookUp = control.lookupEndpointName.bind(control);
      const { endpoints } = await callUnary(lookUp, { accountId, name }, metadata, this.#timeoutMs).catch(withoutNames);
      if (endpoints.length === 0) throw new CapstanError('NOT_FOUND', 'no endpoint has this name');
      for (const { id } of endpoints) this.#cellOf.set(id, cell);
      const isCurrent = removals === this.#directory.removals;
      return endpoints.map((entry) => (isCurrent ? this.#directory.addEndpoint(entry, cell) : { ...entry, cell }));
    });
    return found ?? [];
  }

  /**
   * Before the directory was read for the first time, waits for it and reads there; what is not there may be of a cell that
   * is not known before the list of cells is read, and waits for that. A gateway that has just started must not answer with
   * errors what another one would have answered.
   */
  async #afterStart<T>(read: () => T | undefined): Promise<T | undefined> {
    const list = this.#cellList();
    const watches = this.#cells().map(({ watch }) => watch);
    if (list.reached && watches.some(({ reached }) => reached)) return undefined;
    if (this.#starting >= MAX_STARTING) throw unreachable();
    this.#starting += 1;
    try {
      const reads = watches.map(async (watch) => (await watch.firstRead(this.#timeoutMs)) || Promise.reject(unreachable()));
      await Promise.any(reads).catch(() => Promise.reject(unreachable()));
      const found = read();
      if (found !== undefined) return found;
      if (!(await list.firstRead(this.#timeoutMs))) throw unreachable();
    } finally {
      this.#starting -= 1;
    }
    return read();
  }

  async #lookUp<T>(name: string, from: From, question: (cell: LookupCell) => Promise<T>): Promise<T | undefined> {
    if (this.#absent.has(name)) return undefined;
    const pending = this.#asking.get(name) as Promise<T | undefined> | undefined;
    if (pending !== undefined) return pending;
    if (!this.#budget.take(from.kind, from.caller, this.#now()))
      throw new CapstanError('UNAVAILABLE', 'too many unknown keys and endpoints are being looked up', { retryAfterMs: 1000 });
    const answer = this.#once(name, this.#cells(), question);
    this.#asking.set(name, answer);
    try {
      return await answer;
    } finally {
      this.#asking.delete(name);
    }
  }

  /** Resolves with the first owner's answer; without one, when none of them can have it. */
  async #once<T>(name: string, first: readonly LookupCell[], question: (cell: LookupCell) => Promise<T>): Promise<T | undefined> {
    const until = performance.now() + this.#timeoutMs;
    let cells = first;
    for (let attempt = 0; ; attempt++) {
      // An owner answers under this term or a later one.
      const terms = new Map(cells.map((cell) => [cell.name, cell.term]));
      const found = await this.#ask(cells, question);
      if (found !== undefined) return found;
      if (await this.#areCurrent(cells, terms)) {
        this.#absent.set(name, true);
        return undefined;
      }
      const waitMs = backoffMs(attempt);
      if (performance.now() + waitMs > until) throw unreachable();
      await pause(waitMs);
      cells = this.#cells();
    }
  }

  async #ask<T>(cells: readonly LookupCell[], question: (cell: LookupCell) => Promise<T>): Promise<T | undefined> {
    const answers = cells.map(async (cell) => {
      if (!(await cell.watch.firstRead(this.#timeoutMs))) throw unreachable();
      return question(cell);
    });
    try {
      return await Promise.any(answers);
    } catch (thrown) {
      const errors = thrown instanceof AggregateError ? thrown.errors.map(schedulerRefusal) : [schedulerRefusal(thrown)];
      const failure = errors.find(({ code }) => code !== 'NOT_FOUND');
      if (failure === undefined) return undefined;
      throw new CapstanError('UNAVAILABLE', 'the scheduler is unreachable', { retryAfterMs: 1000, cause: failure });
    }
  }

  /** Whether the cells are all that there are, and still have the terms that they had before their owners were asked. */
  async #areCurrent(cells: readonly LookupCell[], before: ReadonlyMap<string, bigint | undefined>): Promise<boolean> {
    if (cells.length === 1) return true;
    let present: Terms;
    try {
      present = await this.#cellList().now();
    } catch (cause) {
      throw new CapstanError('UNAVAILABLE', 'the scheduler is unreachable', { retryAfterMs: 1000, cause });
    }
    return [...present].every(([name, term]) => {
      const cell = cells.find((each) => each.name === name);
      // Owners that show no term are those of an earlier version, which moves nothing.
      return cell !== undefined && (cell.term === undefined || before.get(name) === term);
    });
  }
}

/** Schedulers of earlier versions find endpoints by id only. */
function withoutNames(error: unknown): LookupEndpointNameResponse {
  const { cause } = error instanceof CapstanError ? error : {};
  if (isGrpcStatus(cause, status.UNIMPLEMENTED)) return { endpoints: [] };
  throw error;
}

function unreachable(): CapstanError {
  return new CapstanError('UNAVAILABLE', 'the scheduler is unreachable', { retryAfterMs: 1000 });
}

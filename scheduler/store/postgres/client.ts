/**
 * The PostgreSQL store, for one cell.
 *
 * Batches go over one connection, in order, each as one call of the database's function for batches, under the cell's term. Reads go over others,
 * and wait for the batches that were called before them.
 *
 *   detached ──acquire()──▶ owning ──release(), or a batch of another term──▶ detached
 *                             └─ no answer, a broken connection, a refused batch ──▶ in doubt ──acquire()──▶ owning, under a new term
 *
 * In doubt nobody knows which of the batches under way is written, nor what it answered: the connection is destroyed, every batch
 * is refused, and only a new term and a state that is read anew settle it. Whatever the old connection still carries is fenced off
 * by that term.
 */
import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { StaleTermError, type Acquired, type Fence, type Op, type Outcome, type Reads, type Store } from '../../core/ports/store.ts';
import { DEFAULT_CELL } from '../../../lib/cells.ts';
import type { Cells } from '../cells.ts';
import type { HistoryStore } from '../history.ts';
import type { PayloadKeys } from '../../secrets/payload-keys.ts';
import { PayloadCodec } from '../payload-codec.ts';
import type { DeviceHistoryStore } from '../device-history.ts';
import type { QueueReasonStore } from '../queue-reasons.ts';
import { unwatched, type LossCause, type StoreWatcher } from '../store-watcher.ts';
import { parseAddress, type Address } from './address.ts';
import { textWithoutNul } from './sql/binary.ts';
import { batchOf, outcomesOf, type AnswerRow, type Batch } from './batch.ts';
import { cellsOf } from './cells.ts';
import { DatabaseClock } from './database-clock.ts';
import { sqlState, storeFailure } from './failures.ts';
import { findCell } from './find-cell.ts';
import { bodyReads } from './reads/bodies.ts';
import { controlReads } from './reads/control.ts';
import { deliveryReads } from './reads/deliveries.ts';
import { deviceHistoryOf } from './device-history.ts';
import { historyOf } from './history.ts';
import { queueReasonsOf } from './queue-reasons.ts';
import { jobReads } from './reads/jobs.ts';
import { LeftEdges } from './reads/left-edges.ts';
import type { AsyncReads, Query } from './reads/query.ts';
import { COMMIT, OPERATION_TYPES, STALE_TERM, typeName, type OperationType } from './sql/batch.ts';
import { Readers, SearchReaders } from './readers.ts';
import { CellTerms, type Known, type Taken } from './terms.ts';
import { Writer } from './writer.ts';
import { moverOf, type Position } from './moving.ts';

export interface PostgresOptions {
  /** `postgres://user@host:port/database`. */
  readonly url: string;
  /** Name of the setting that the address came from, for refusals. */
  readonly setting?: string;
  /** Name of the cell that the store serves; `default` when left out. */
  readonly cell?: string;
  /** Where other schedulers and agents reach this one, `host:port`; told to whoever asks for the cell's owner. */
  readonly advertised?: () => string;
  /** Wall clock, ms since 1970, for the expiry of idempotency keys; the database's when left out. */
  readonly now?: () => number;
  /** How long a batch may stay without an answer, ms. */
  readonly answerMs?: number;
  /** How often an idle owner commits an empty batch, ms. */
  readonly renewMs?: number;
  readonly watcher?: StoreWatcher;
  /** How long a search may take, ms. */
  readonly searchMs?: number;
  /** Encrypt and decrypt payloads; without them none is encrypted. */
  readonly payloadKeys?: PayloadKeys;
}

/** Without an answer for so long a batch is in doubt. */
const ANSWER_MS = 3_000;
/** An idle owner commits an empty batch as often, ms: who watches its term sees that it lives. */
const RENEW_MS = 1_000;
/** Expired rows of each kind that are removed with one batch: no commit grows with what expired. */
const SWEEP_ROWS = 50;
const SWEEP_PAUSE_MS = 60_000;
/** How long a read may take, ms; longer for one whose time grows with the queue. */
const READ_MS = 15_000;
const LONG_READ_MS = 120_000;
const LONG_READS = /^(?:counts|body-usage)/;
/** How often the database's clock is looked at, ms. */
const CLOCK_MS = 60_000;
const CLOCK = 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall';

/** Opens the store, and makes its schema in an empty database. Rejects with CONFIG, UNAVAILABLE or DATA_NEWER. */
export async function openPostgresStore(options: PostgresOptions): Promise<PostgresStore> {
  const address = parseAddress(options.url, options.setting ?? 'CAPSTAN_STORE');
  const name = options.cell ?? DEFAULT_CELL;
  const store = new PostgresStore(options, { name, number: await findCell(address, name, options.answerMs ?? ANSWER_MS) });
  try {
    await store.open();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

/** The connection that commits, and what belongs to it. */
interface Session {
  readonly writer: Writer;
  readonly terms: CellTerms;
  /** Object ids of the composite types; read with the first cell that is taken. */
  types: ReadonlyMap<OperationType, number> | null;
}

/** A cell that is owned. */
interface Owned {
  readonly owner: string;
  readonly term: bigint;
  readonly since: number;
  /** Number of the last batch that was sent. */
  batch: number;
}

export class PostgresStore implements Store {
  /** Below {@link UNCHANGED_MS}, after which a standby takes a silent owner's cell over. */
  readonly fenceMs = ANSWER_MS;
  readonly #address: Address;
  readonly #options: PostgresOptions;
  /** Number of the cell that the store serves, which its fences name. */
  readonly cell: number;
  readonly cells: Cells;
  readonly history: HistoryStore;
  readonly queueReasons: QueueReasonStore;
  readonly deviceHistory: DeviceHistoryStore;
  readonly #clock = new DatabaseClock();
  readonly #now: () => number;
  readonly #watcher: StoreWatcher;
  readonly #readers: Readers;
  readonly #searchers: SearchReaders;
  readonly #reads: AsyncReads<Reads>;
  readonly #searches: AsyncReads<Reads>;
  readonly #edges = new LeftEdges();
  readonly #codec: PayloadCodec;
  #session: Session | null = null;
  #connecting: Promise<Session> | null = null;
  /** Settled once no cell is being taken. */
  #acquiring: Promise<unknown> = Promise.resolve();
  /** The terms under which this store commits, by cell. */
  readonly #owned = new Map<number, Owned>();
  /** What was acknowledged to this process, or seen of an owner, by cell; survives every loss. */
  readonly #known = new Map<number, Known>();
  /** Why batches are refused until the cell is taken again; null while none are. */
  #doubt: CapstanError | null = null;
  /** Settled once every batch called until now is answered. */
  #committed: Promise<unknown> = Promise.resolve();
  #underWay = 0;
  #lastSentAt = 0;
  #sweepAt = Number.NEGATIVE_INFINITY;
  #clockAt = 0;
  readonly #wakes = new Set<(cell: number, term: bigint) => void>();
  #renewal: NodeJS.Timeout | null = null;
  #closed: Promise<void> | null = null;
  readonly #closing = new AbortController();

  constructor(options: PostgresOptions, cell: { readonly name: string; readonly number: number }) {
    this.#options = options;
    this.#address = parseAddress(options.url, options.setting ?? 'CAPSTAN_STORE');
    this.cell = cell.number;
    this.#codec = new PayloadCodec(options.payloadKeys?.set);
    options.payloadKeys?.onChange((keys) => this.#codec.use(keys));
    this.#now = options.now ?? (() => this.#clock.now());
    this.#watcher = options.watcher ?? unwatched;
    this.#readers = new Readers(this.#address);
    this.#searchers = new SearchReaders(this.#address, options.searchMs);
    const query: Query = async <R extends readonly unknown[]>(name: string, text: string, values: readonly unknown[]) => {
      try {
        return await this.#readers.rows<R>(name, text, values.map(withoutNul), LONG_READS.test(name) ? LONG_READ_MS : READ_MS);
      } finally {
        this.#watcher.roundTrip('read');
      }
    };
    this.cells = cellsOf({
      query: this.#classified(query),
      own: cell,
      giveUp: () => this.#giveUp(cell.number),
      move: moverOf({ address: this.#address, cell: cell.number }),
    });
    const search: Query = async <R extends readonly unknown[]>(name: string, text: string, values: readonly unknown[]) =>
      this.#searchers.search<R>(name, text, values.map(withoutNul));
    this.history = { ...historyOf(this.#classified(query), this.cell), read: historyOf(this.#classified(search), this.cell).read };
    this.deviceHistory = {
      ...deviceHistoryOf(this.#classified(query), this.cell),
      read: deviceHistoryOf(this.#classified(search), this.cell).read,
    };
    this.queueReasons = {
      ...queueReasonsOf(this.#classified(query), this.cell),
      read: queueReasonsOf(this.#classified(search), this.cell).read,
    };
    this.#reads = this.#readsWith(query);
    this.#searches = this.#readsWith(search);
  }

  #readsWith(query: Query): AsyncReads<Reads> {
    return {
      ...jobReads(query, this.cell, this.#edges, this.#codec),
      ...bodyReads(query, this.cell, this.#codec),
      ...controlReads(query, this.cell, this.#now),
      ...deliveryReads(query, this.cell, this.#edges, this.#codec),
    };
  }

  async open(): Promise<void> {
    await this.#connected();
    const renewMs = this.#options.renewMs ?? RENEW_MS;
    this.#renewal = setInterval(() => this.#renew(renewMs), renewMs / 4);
  }

  async commit(fence: Fence, ops: readonly Op[]): Promise<Outcome[]> {
    const owned = this.#mayCommit(fence);
    const batch = this.#batchOf(ops);
    owned.batch++;
    this.#edges.note(ops);
    const answered = this.#send(fence, owned.batch, batch);
    // Without its value, which would hold the outcomes of this batch and of all before.
    this.#committed = Promise.allSettled([this.#committed, answered]).then(() => undefined);
    return answered;
  }

  read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    return this.#read(this.#reads, query, args);
  }

  search<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    return this.#read(this.#searches, query, args);
  }

  async #read<K extends keyof Reads>(reads: AsyncReads<Reads>, query: K, args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    this.#requireOpen();
    await this.#committed;
    // The compiler cannot see that the method and its arguments are of the same query.
    const run = reads[query] as (...args: Parameters<Reads[K]>) => Promise<ReturnType<Reads[K]>>;
    try {
      return await run(...args);
    } catch (error) {
      throw error instanceof RangeError ? error : storeFailure(this.#address.shown, `cannot read ${query}`, error);
    }
  }

  async acquire(cell: number, owner: string, _forMs: number): Promise<Acquired> {
    this.#requireOpen();
    const acquired = this.#acquiring.then(() => this.#acquire(cell, owner));
    this.#acquiring = Promise.allSettled([acquired]);
    return acquired;
  }

  /**
   * Waits for the cell's lock in the database, so that whoever waits first has it as soon as its owner's session ends. What
   * goes wrong is told by the {@link acquire} that follows; a server that is away must not be asked without a pause.
   */
  async waitForTurn(cell: number, ms: number): Promise<void> {
    this.#requireOpen();
    if (this.#owned.has(cell)) return;
    const until = performance.now() + ms;
    try {
      const { terms } = await this.#connected();
      if (terms.mayWait) {
        await terms.waitFor(cell, ms);
        return;
      }
    } catch (error) {
      this.#requireOpen();
      if (!(error instanceof CapstanError) && sqlState(error) === '') throw error;
    }
    await pause(Math.max(0, until - performance.now()), undefined, { signal: this.#closing.signal }).catch(() => this.#requireOpen());
  }

  async release(cell: number): Promise<void> {
    this.#requireOpen();
    if (this.#disown(cell, 'released')) await this.#committed;
    // Who waited for its turn may hold the lock without owning the cell.
    const session = this.#session;
    try {
      await session?.terms.release(cell);
    } catch (error) {
      // Its locks go with it.
      session?.writer.lose(storeFailure(this.#address.shown, `cannot release cell ${cell}`, error));
    }
  }

  now(): number {
    return this.#now();
  }

  /** A query outside of {@link Reads}, with its failures as the store's. */
  #classified(query: Query): Query {
    return async (name, text, values) => {
      this.#requireOpen();
      try {
        return await query(name, text, values);
      } catch (error) {
        throw storeFailure(this.#address.shown, `cannot run ${name}`, error);
      }
    };
  }

  onHint(wake: (cell: number, term: bigint) => void): () => void {
    this.#wakes.add(wake);
    return () => this.#wakes.delete(wake);
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    if (this.#renewal !== null) clearInterval(this.#renewal);
    this.#closing.abort();
    await this.#committed;
    const session = this.#session;
    this.#session = null;
    // The advisory locks go with the connection: a standby takes over at once.
    await Promise.all([session?.writer.end(), this.#readers.close(), this.#searchers.close()]);
    await Promise.allSettled([this.#connecting, this.#acquiring]);
    for (const cell of this.#owned.keys()) this.#disown(cell, 'released');
  }

  #requireOpen(): void {
    if (this.#closed !== null) throw new CapstanError('UNAVAILABLE', `store ${this.#address.shown}: it is closed`);
  }

  async #acquire(cell: number, owner: string): Promise<Acquired> {
    await this.#committed;
    const present = this.#owned.get(cell);
    if (present?.owner === owner) return { term: present.term };
    let session: Session | null = null;
    let taken: Taken;
    try {
      session = await this.#connected();
      taken = await session.terms.take({ cell, owner, address: this.#options.advertised?.() ?? '', known: this.#known.get(cell) ?? null });
      if (!('heldBy' in taken)) session.types ??= await typeIds(session.writer);
      session.writer.mustHold();
    } catch (error) {
      const reason = storeFailure(this.#address.shown, `cannot take cell ${cell}`, error);
      if (reason.code === 'DATA_LOST') this.#watcher.behind(cell);
      // A lock that this session got meanwhile goes with it.
      session?.writer.lose(reason);
      this.#doubt = reason;
      throw reason;
    }
    if ('heldBy' in taken) return taken;
    const { term, batch, wall, cause } = taken;
    this.#disown(cell, 'stale');
    this.#owned.set(cell, { owner, term, batch, since: performance.now() });
    this.#know(cell, { term: Number(term), batch });
    this.#clock.atLeast(wall);
    this.#doubt = null;
    this.#edges.reset();
    this.#watcher.taken(cell, cause, term);
    return { term };
  }

  #mayCommit(fence: Fence): Owned {
    this.#requireOpen();
    if (this.#doubt !== null) throw this.#doubt;
    const owned = this.#owned.get(fence.cell);
    if (owned?.term !== fence.term) throw new StaleTermError(fence);
    return owned;
  }

  /** A batch that cannot be packed is a fault of ours, and what follows it was made on the assumption that it is written. */
  #batchOf(ops: readonly Op[]): Batch {
    try {
      return batchOf(ops, this.#codec);
    } catch (error) {
      const fault = new CapstanError('INTERNAL', `store ${this.#address.shown}: the batch could not be packed: ${messageOf(error)}`, {
        cause: error,
      });
      this.#session?.writer.lose(fault);
      throw fault;
    }
  }

  async #send(fence: Fence, number: number, batch: Batch): Promise<Outcome[]> {
    const session = this.#session;
    if (session === null) throw this.#doubt ?? new StaleTermError(fence);
    const now = this.#now();
    const sweep = now >= this.#sweepAt ? SWEEP_ROWS : 0;
    const arrays = OPERATION_TYPES.map((type) => batch.arrays[type].encode(session.types?.get(type) ?? 0));
    const { seq, queuePosition } = batch.highest;
    const head = [
      fence.cell,
      String(fence.term),
      number,
      Math.trunc(now),
      seq,
      queuePosition,
      batch.waves,
      batch.hasIdempotencyKeys,
      sweep,
    ];
    this.#underWay++;
    const sentAt = performance.now();
    this.#lastSentAt = sentAt;
    try {
      const rows = await session.writer.ask<[...AnswerRow]>({
        kind: 'batch',
        name: 'commit',
        text: COMMIT,
        values: [...head, ...arrays],
        rowMode: 'array',
      });
      for (const type of OPERATION_TYPES) batch.arrays[type].release();
      const { outcomes, swept } = outcomesOf(batch.size, rows);
      if (sweep > 0 && swept.every((count) => count < SWEEP_ROWS)) this.#sweepAt = now + SWEEP_PAUSE_MS;
      this.#know(fence.cell, { term: Number(fence.term), batch: number });
      this.#watcher.committed(batch.size, performance.now() - sentAt);
      return outcomes;
    } catch (error) {
      throw this.#refused(fence, session, error);
    } finally {
      this.#underWay--;
    }
  }

  /** What a batch that was not written, or whose answer is lost, means for those after it. */
  #refused(fence: Fence, session: Session, error: unknown): Error {
    if (sqlState(error) === STALE_TERM) this.#drop(session, new StaleTermError(fence));
    else session.writer.lose(storeFailure(this.#address.shown, 'the batch was not written', error));
    // The first failure is the cause of those that follow it.
    return this.#doubt ?? new StaleTermError(fence);
  }

  /** Commits nothing more under the cell's term, and keeps its lock: nobody takes it over until this store does. */
  async #giveUp(cell: number): Promise<Position> {
    this.#requireOpen();
    const owned = this.#owned.get(cell);
    if (owned === undefined) throw new CapstanError('UNAVAILABLE', 'this scheduler does not own its cell', { retryAfterMs: 1_000 });
    this.#disown(cell, 'released');
    await this.#committed;
    if (this.#doubt !== null) throw this.#doubt;
    return { term: owned.term, batch: owned.batch };
  }

  /** Another process has the cell. The session goes, with the locks that it still has: they are no longer its to hold. */
  #drop(session: Session, stale: StaleTermError): void {
    if (this.#session !== session) return;
    this.#session = null;
    session.writer.lose(new CapstanError('UNAVAILABLE', stale.message, { cause: stale }));
    this.#loseAll('stale');
  }

  /** Every batch from now on is refused, until the cell is taken again. */
  #lost(writer: Writer, reason: CapstanError): void {
    if (this.#session?.writer !== writer) return;
    this.#session = null;
    this.#doubt = reason;
    this.#renewReaders();
    this.#loseAll('doubt');
  }

  /** The server may be another one from now on. */
  #renewReaders(): void {
    this.#readers.renew();
    this.#searchers.renew();
  }

  #loseAll(cause: LossCause): void {
    for (const [cell, { term }] of [...this.#owned]) {
      this.#disown(cell, cause);
      this.#wake(cell, term);
    }
  }

  /** Whether the cell was owned. */
  #disown(cell: number, cause: LossCause): boolean {
    const owned = this.#owned.get(cell);
    if (owned === undefined) return false;
    this.#owned.delete(cell);
    this.#watcher.lost(cell, cause, performance.now() - owned.since);
    return true;
  }

  /** After whoever called the store has its own refusal, and never once the cell is owned again: that is another life. */
  #wake(cell: number, term: bigint): void {
    setImmediate(() => {
      if (this.#closed === null && !this.#owned.has(cell)) for (const wake of this.#wakes) wake(cell, term);
    });
  }

  /** Keeps the highest: a database that was restored, or failed over, shows less than before. */
  #know(cell: number, next: Known): void {
    const known = this.#known.get(cell);
    if (known !== undefined && (next.term < known.term || (next.term === known.term && next.batch <= known.batch))) return;
    this.#known.set(cell, next);
  }

  /** The session, made anew where there is none. */
  #connected(): Promise<Session> {
    if (this.#session !== null) return Promise.resolve(this.#session);
    this.#connecting ??= this.#connect().finally(() => (this.#connecting = null));
    return this.#connecting;
  }

  async #connect(): Promise<Session> {
    const writer = new Writer({
      address: this.#address,
      name: `capstan cell ${this.cell} ${randomInt(2 ** 31)}`,
      answerMs: this.#options.answerMs ?? ANSWER_MS,
      watcher: this.#watcher,
      onLost: (lost, reason) => this.#lost(lost, reason),
    });
    this.#clock.measured(await writer.open());
    if (this.#closed !== null) await writer.end();
    this.#requireOpen();
    // It may be another server than before, under the same name.
    this.#renewReaders();
    const terms = new CellTerms(writer, this.#address.shown, (cell, known) => this.#know(cell, known));
    this.#session = { writer, terms, types: null };
    return this.#session;
  }

  /**
   * Keeps the term of a store that nothing else commits to: the engine renews more often, once it has read its state. Without this a
   * standby would take the cell over during a read that is longer than its patience. Whether the term stands shows with the next
   * batch, and whether the server answers with the next read: nobody waits for these.
   */
  #renew(renewMs: number): void {
    const mono = performance.now();
    if (mono - this.#clockAt >= CLOCK_MS) {
      this.#clockAt = mono;
      this.#readers.rows<[number]>('clock', CLOCK, [], READ_MS).then(
        (rows) => rows.forEach(([wall]) => this.#clock.measured(wall)),
        () => undefined,
      );
    }
    if (this.#underWay > 0 || mono - this.#lastSentAt < renewMs) return;
    for (const [cell, { term }] of this.#owned) this.commit({ cell, term }, []).catch(() => undefined);
  }
}

/** A text of PostgreSQL holds no NUL: a value with one finds what was stored for it, see {@link CompositeArray}. */
function withoutNul(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNul);
  return typeof value === 'string' ? textWithoutNul(value) : value;
}

/** Object ids of the composite types, which a binary array names its elements by. */
async function typeIds(writer: Writer): Promise<ReadonlyMap<OperationType, number>> {
  const rows = await writer.ask<{ name: string; oid: number }>({
    kind: 'term',
    text: "SELECT typname AS name, oid::bigint AS oid FROM pg_type WHERE typnamespace = 'capstan'::regnamespace AND typtype = 'c'",
  });
  const oids = new Map(rows.map(({ name, oid }) => [name, oid]));
  return new Map(
    OPERATION_TYPES.map((type) => {
      const oid = oids.get(typeName(type));
      if (oid === undefined) throw new Error(`the schema lacks the type ${typeName(type)}`);
      return [type, oid];
    }),
  );
}

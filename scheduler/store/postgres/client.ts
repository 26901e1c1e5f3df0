/**
 * The PostgreSQL store, for one cell.
 *
 * Batches go over one connection, in order, each as one call of `capstan.commit_v1` under the cell's term. Reads go over others,
 * and wait for the batches that were called before them.
 *
 *   detached ──acquire()──▶ owning ──a batch of another term──▶ detached
 *                             └─ no answer, a broken connection, a refused batch ──▶ in doubt ──acquire()──▶ owning, under a new term
 *
 * In doubt nobody knows which of the batches under way is written, nor what it answered: the connection is destroyed, every batch
 * is refused, and only a new term and a state that is read anew settle it. Whatever the old connection still carries is fenced off
 * by that term.
 */
import { randomInt } from 'node:crypto';

import type { Pool } from 'pg';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { StaleTermError, type Fence, type Op, type Outcome, type Reads, type Store } from '../store.ts';
import { DEFAULT_CELL, type Cells } from '../cells.ts';
import { parseAddress, type Address } from './address.ts';
import { textWithoutNul } from './binary.ts';
import { batchOf, outcomesOf, type AnswerRow, type Batch } from './batch.ts';
import { cellNumber, cellsOf } from './cells.ts';
import { connect, readPool, type Connection } from './connection.ts';
import { sqlState, storeFailure } from './failures.ts';
import { migrate } from './migrate.ts';
import { bodyReads } from './reads/bodies.ts';
import { controlReads } from './reads/control.ts';
import { hookReads } from './reads/hooks.ts';
import { jobReads, type DueMark } from './reads/jobs.ts';
import type { AsyncReads, Query } from './reads/query.ts';
import { COMMIT, OPERATION_TYPES, STALE_TERM, typeName, type OperationType } from './sql/batch.ts';
import { CellTerms, type Taken } from './terms.ts';

export interface PostgresOptions {
  /** `postgres://user@host:port/database`. */
  readonly url: string;
  /** Name of the setting that the address came from, for refusals. */
  readonly setting?: string;
  /** Name of the cell that the store serves; `default` when left out. */
  readonly cell?: string;
  /** Where other schedulers and agents reach this one, `host:port`; told to whoever asks for the cell's owner. */
  readonly advertised?: string;
  /** Wall clock, ms since 1970, for the expiry of idempotency keys; the machine's when left out. */
  readonly now?: () => number;
  /** How long a batch may stay without an answer, ms. */
  readonly answerMs?: number;
  /** How often an idle owner commits an empty batch, ms. */
  readonly renewMs?: number;
}

const READ_CONNECTIONS = 2;
/** Without an answer for so long a batch is in doubt. */
const ANSWER_MS = 3_000;
/** An idle owner commits an empty batch as often, ms: who watches its term sees that it lives. */
const RENEW_MS = 1_000;
/** Expired rows of each kind that are removed with one batch: no commit grows with what expired. */
const SWEEP_ROWS = 50;
const SWEEP_PAUSE_MS = 60_000;

/** Opens the store and its schema. Rejects with CONFIG, UNAVAILABLE or DATA_NEWER. */
export async function openPostgresStore(options: PostgresOptions): Promise<PostgresStore> {
  const address = parseAddress(options.url, options.setting ?? 'CAPSTAN_STORE');
  const name = options.cell ?? DEFAULT_CELL;
  const store = new PostgresStore(options, { name, number: await findCell(address, name) });
  try {
    await store.open();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

/** Brings the schema up to date, and finds the number of a cell. */
async function findCell(address: Address, name: string): Promise<number> {
  const where = address.shown;
  const connection = await connect(address, `capstan start ${randomInt(2 ** 31)}`, () => undefined);
  try {
    await migrate(connection.client, where);
    const query: Query = async <R extends readonly unknown[]>(_name: string, text: string, values: readonly unknown[]) =>
      (await connection.client.query<R[number][]>({ text, values: [...values], rowMode: 'array' })).rows as unknown as R[];
    const number = await cellNumber(query, name);
    if (number !== undefined) return number;
  } catch (error) {
    throw storeFailure(where, 'cannot open', error);
  } finally {
    await connection.client.end();
  }
  throw new CapstanError('CONFIG', `CAPSTAN_CELL: the database has no cell ${name}; create it with: capstan cell create ${name}`, {
    field: 'CAPSTAN_CELL',
  });
}

/** What a connection that commits needs to know. */
interface Owning {
  readonly connection: Connection;
  readonly types: ReadonlyMap<OperationType, number>;
  readonly terms: CellTerms;
}

export class PostgresStore implements Store {
  readonly #address: Address;
  readonly #options: PostgresOptions;
  /** Number of the cell that the store serves: the shard of its fences. */
  readonly cell: number;
  readonly cells: Cells;
  readonly #now: () => number;
  readonly #pool: Pool;
  readonly #reads: AsyncReads<Reads>;
  readonly #dueMark: DueMark = { from: 0 };
  #writer: Owning | null = null;
  /** The term under which this store commits, by cell. */
  readonly #taken = new Map<number, { term: bigint; batch: number; owner: string }>();
  /** Why batches are refused until the cell is taken again; null while none are. */
  #doubt: CapstanError | null = null;
  /** Settled once every batch called until now is answered. */
  #committed: Promise<unknown> = Promise.resolve();
  #underWay = 0;
  #lastSentAt = 0;
  #sweepAt = Number.NEGATIVE_INFINITY;
  readonly #wakes = new Set<(shard: number) => void>();
  #renewal: NodeJS.Timeout | null = null;
  #closed: Promise<void> | null = null;

  constructor(options: PostgresOptions, cell: { readonly name: string; readonly number: number }) {
    this.#options = options;
    this.#address = parseAddress(options.url, options.setting ?? 'CAPSTAN_STORE');
    this.cell = cell.number;
    this.#now = options.now ?? Date.now;
    this.#pool = readPool(this.#address, READ_CONNECTIONS);
    const query: Query = async <R extends readonly unknown[]>(name: string, text: string, values: readonly unknown[]) => {
      const { rows } = await this.#pool.query<R[number][]>({ name, text, values: values.map(withoutNul), rowMode: 'array' });
      return rows as unknown as R[];
    };
    this.cells = cellsOf(this.#told(query), cell);
    this.#reads = {
      ...jobReads(query, this.cell, this.#dueMark),
      ...bodyReads(query, this.cell),
      ...controlReads(query, this.cell, this.#now),
      ...hookReads(query, this.cell),
    };
  }

  /** Connects and brings the schema up to date. */
  async open(): Promise<void> {
    await this.#connected();
    this.#renewal = setInterval(() => this.#renew(), this.#options.renewMs ?? RENEW_MS);
  }

  async commit(fence: Fence, ops: readonly Op[]): Promise<Outcome[]> {
    const taken = this.#mayCommit(fence);
    const batch = this.#batchOf(ops);
    taken.batch++;
    this.#noteDue(ops);
    const answered = this.#send(fence, taken.batch, batch);
    this.#committed = Promise.allSettled([this.#committed, answered]);
    return answered;
  }

  async read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    this.#mustBeOpen();
    await this.#committed;
    // The compiler cannot see that the method and its arguments are of the same query.
    const run = this.#reads[query] as (...args: Parameters<Reads[K]>) => Promise<ReturnType<Reads[K]>>;
    try {
      return await run(...args);
    } catch (error) {
      throw error instanceof RangeError ? error : storeFailure(this.#address.shown, `cannot read ${query}`, error);
    }
  }

  async acquire(cell: number, owner: string, _forMs: number): Promise<{ readonly term: bigint } | { readonly heldBy: string }> {
    this.#mustBeOpen();
    await this.#committed;
    const { terms } = await this.#connected();
    const known = this.#taken.get(cell);
    const mayKeep = this.#doubt === null && known?.owner === owner;
    if (mayKeep) return { term: known.term };
    let result: Taken;
    try {
      result = await terms.take({ cell, owner, address: this.#options.advertised ?? '' });
    } catch (error) {
      this.#lose(storeFailure(this.#address.shown, `cannot take cell ${cell}`, error));
      throw this.#doubt ?? error;
    }
    if ('heldBy' in result) return result;
    this.#taken.set(cell, { term: result.term, batch: result.batch, owner });
    this.#doubt = null;
    this.#dueMark.from = 0;
    return { term: result.term };
  }

  /** A query outside of {@link Reads}, with its failures as the store's. */
  #told(query: Query): Query {
    return async (name, text, values) => {
      this.#mustBeOpen();
      try {
        return await query(name, text, values);
      } catch (error) {
        throw storeFailure(this.#address.shown, `cannot run ${name}`, error);
      }
    };
  }

  onHint(wake: (shard: number) => void): () => void {
    this.#wakes.add(wake);
    return () => this.#wakes.delete(wake);
  }

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    if (this.#renewal !== null) clearInterval(this.#renewal);
    await this.#committed;
    // The advisory locks go with the connection: a standby takes over at once.
    const writer = this.#writer;
    this.#writer = null;
    if (writer !== null) await writer.connection.client.end();
    await this.#pool.end();
  }

  #mustBeOpen(): void {
    if (this.#closed !== null) throw new CapstanError('UNAVAILABLE', `store ${this.#address.shown}: it is closed`);
  }

  #mayCommit(fence: Fence): { term: bigint; batch: number } {
    this.#mustBeOpen();
    if (this.#doubt !== null) throw this.#doubt;
    const taken = this.#taken.get(fence.shard);
    if (taken?.term !== fence.term) throw new StaleTermError(fence);
    return taken;
  }

  /** A batch that cannot be packed is a fault of ours, and what follows it was made on the assumption that it is written. */
  #batchOf(ops: readonly Op[]): Batch {
    try {
      return batchOf(ops);
    } catch (error) {
      const fault = new CapstanError('INTERNAL', `store ${this.#address.shown}: the batch could not be packed: ${messageOf(error)}`, {
        cause: error,
      });
      this.#lose(fault);
      throw fault;
    }
  }

  async #send(fence: Fence, number: number, batch: Batch): Promise<Outcome[]> {
    const writer = this.#writer;
    if (writer === null) throw this.#doubt ?? new StaleTermError(fence);
    const now = this.#now();
    const sweep = now >= this.#sweepAt ? SWEEP_ROWS : 0;
    const arrays = OPERATION_TYPES.map((type) => batch.arrays[type].encode(writer.types.get(type) ?? 0));
    const { seq, queuePosition } = batch.highest;
    const head = [
      fence.shard,
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
    this.#lastSentAt = performance.now();
    const overdue = setTimeout(() => writer.connection.destroy(), this.#options.answerMs ?? ANSWER_MS);
    try {
      const { rows } = await writer.connection.client.query<[...AnswerRow]>({
        name: 'commit',
        text: COMMIT,
        values: [...head, ...arrays],
        rowMode: 'array',
      });
      const { outcomes, swept } = outcomesOf(batch.size, rows);
      if (sweep > 0 && swept.every((count) => count < SWEEP_ROWS)) this.#sweepAt = now + SWEEP_PAUSE_MS;
      return outcomes;
    } catch (error) {
      throw this.#refused(fence, error);
    } finally {
      clearTimeout(overdue);
      this.#underWay--;
    }
  }

  /** What a batch that was not written, or whose answer is lost, means for those after it. */
  #refused(fence: Fence, error: unknown): Error {
    // The first failure is the cause of those that follow it.
    if (this.#doubt !== null) return this.#doubt;
    if (sqlState(error) === STALE_TERM) {
      this.#taken.delete(fence.shard);
      this.#wake(fence.shard);
      return new StaleTermError(fence);
    }
    this.#lose(storeFailure(this.#address.shown, 'the batch was not written', error));
    return this.#doubt ?? new StaleTermError(fence);
  }

  /** Refuses every batch from now on, and takes the connection away: what it still carries gets no answer. */
  #lose(reason: CapstanError): void {
    this.#doubt ??= reason;
    const writer = this.#writer;
    this.#writer = null;
    writer?.connection.destroy();
    for (const shard of this.#taken.keys()) this.#wake(shard);
  }

  /** After whoever called the store has its own refusal. */
  #wake(shard: number): void {
    setImmediate(() => {
      if (this.#closed === null) for (const wake of this.#wakes) wake(shard);
    });
  }

  /** The connection that commits, made anew where there is none. */
  async #connected(): Promise<Owning> {
    if (this.#writer !== null) return this.#writer;
    const where = this.#address.shown;
    let made: Connection | null = null; // a connection may end while it is being made
    const ended = (error: Error | null): void => {
      if (made !== null && this.#writer?.connection === made && this.#closed === null)
        this.#lose(new CapstanError('UNAVAILABLE', `store ${where}: the connection ended: ${error?.message ?? 'closed by the server'}`));
    };
    const connection = await connect(this.#address, `capstan cell ${this.cell} ${randomInt(2 ** 31)}`, ended);
    made = connection;
    try {
      await migrate(connection.client, where);
      const types = await typeIds(connection);
      this.#writer = { connection, types, terms: new CellTerms(connection) };
      return this.#writer;
    } catch (error) {
      connection.destroy();
      throw storeFailure(where, 'cannot open', error);
    }
  }

  #renew(): void {
    if (this.#underWay > 0 || this.#doubt !== null || performance.now() - this.#lastSentAt < RENEW_MS) return;
    for (const [shard, { term }] of this.#taken) {
      // Whether the term stands shows with the next batch, too; nobody waits for this one.
      this.commit({ shard, term }, []).catch(() => undefined);
    }
  }

  /** Keeps the mark of jobs that are due at or below every `delete_at` that is written. */
  #noteDue(ops: readonly Op[]): void {
    for (const op of ops) {
      if (op.kind === 'submit') this.#dueMark.from = Math.min(this.#dueMark.from, Math.trunc(op.job.deleteAt));
      else if (op.kind === 'finish' || op.kind === 'retry') this.#dueMark.from = Math.min(this.#dueMark.from, Math.trunc(op.deleteAt));
    }
  }
}

/** A text of PostgreSQL holds no NUL: a value with one finds what was stored for it, see {@link CompositeArray}. */
function withoutNul(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNul);
  return typeof value === 'string' ? textWithoutNul(value) : value;
}

/** Object ids of the composite types, which a binary array names its elements by. */
async function typeIds({ client }: Connection): Promise<ReadonlyMap<OperationType, number>> {
  const { rows } = await client.query<{ name: string; oid: number }>(
    "SELECT typname AS name, oid::bigint AS oid FROM pg_type WHERE typnamespace = 'capstan'::regnamespace AND typtype = 'c'",
  );
  const oids = new Map(rows.map(({ name, oid }) => [name, oid]));
  return new Map(
    OPERATION_TYPES.map((type) => {
      const oid = oids.get(typeName(type));
      if (oid === undefined) throw new Error(`the schema lacks the type ${typeName(type)}`);
      return [type, oid];
    }),
  );
}

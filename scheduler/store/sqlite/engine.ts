/**
 * The SQLite driver's synchronous engine. A batch is one transaction: a failed guard is one operation's outcome; an
 * error of the database rolls back the whole batch and is thrown.
 *
 * The thread (`thread.ts`) runs it in production, the simulator calls it in its loop.
 */
import type { Database } from 'better-sqlite3';

import { assertNever, CapstanError } from '../../../lib/errors.ts';
import type { PayloadKeySet } from '../../secrets/payload-keys.ts';
import type { DeviceHistoryChange } from '../device-history.ts';
import type { HistoryRange, HistoryRow } from '../history.ts';
import { PayloadCodec } from '../payload-codec.ts';
import type { QueueReasonStore } from '../queue-reasons.ts';
import { StaleTermError, type Fence, type Op, type Outcome, type Reads, type StoreEngine } from '../../core/ports/store.ts';
import { CHECK_LIMITS, DatabaseCheck, type CheckLimits } from './check/database-check.ts';
import { openFailure, storeFailure } from './file/failures.ts';
import { openDatabase } from './open.ts';
import { prepareAll, readsOf } from './statements.ts';
import { MarkWriter } from './wal/mark.ts';

export interface SqliteOptions {
  /** Path of the database; it and its folder are created if missing. `:memory:` for one that ends with the engine. */
  readonly file: string;
  /** A missing or empty database is refused (DATA_LOST) instead of created. */
  readonly mustExist?: boolean;
  /** Wall clock, ms since 1970, for the expiry of idempotency keys; default: the machine's. */
  readonly now?: () => number;
  /** WAL pages (4 KiB) after which {@link SqliteEngine.committed} checkpoints. */
  readonly checkpointPages?: number;
  /** Encrypt and decrypt payloads; without them none is encrypted. */
  readonly payloadKeys?: PayloadKeySet | null;
  /** Bounds of the check for damaged pages. */
  readonly check?: CheckLimits;
}

/**
 * Limit of expired idempotency keys, and of failed deliveries, removed per batch: commits must not grow with the number
 * of expired rows.
 */
const SWEEP_ROWS = 50;
/** Pause after a sweep found no expired rows, ms. */
const SWEEP_PAUSE_MS = 60_000;
const DEFAULT_CHECKPOINT_PAGES = 4_000;
/** Pages (4 KiB) of a snapshot copied between two batches: about a millisecond. */
const SNAPSHOT_PAGES = 250;

const ok: Outcome = Object.freeze({ kind: 'ok' });
const exists: Outcome = Object.freeze({ kind: 'exists' });
const stale: Outcome = Object.freeze({ kind: 'stale' });
const gone: Outcome = Object.freeze({ kind: 'gone' });
const conflict: Outcome = Object.freeze({ kind: 'conflict' });
const idempotentOtherBody: Outcome = Object.freeze({ kind: 'idempotent-other-body' });

export class SqliteEngine implements StoreEngine {
  readonly #file: string;
  readonly #db: Database;
  readonly #now: () => number;
  readonly #checkpointPages: number;
  readonly #sql: ReturnType<typeof prepareAll>;
  readonly #reads: Reads;
  /** Null in memory. */
  readonly #mark: MarkWriter | null;
  /** Looks for damaged pages. */
  readonly check: DatabaseCheck;
  readonly #codec: PayloadCodec;
  #sweepAt = Number.NEGATIVE_INFINITY;

  /** Throws `DATA_DIR` or `DATA_NEWER`, see {@link openDatabase}. */
  constructor(options: SqliteOptions) {
    this.#file = options.file;
    this.#codec = new PayloadCodec(options.payloadKeys ?? null);
    this.#now = options.now ?? Date.now;
    this.#checkpointPages = options.checkpointPages ?? DEFAULT_CHECKPOINT_PAGES;
    this.#db = openDatabase(options.file, { mustExist: options.mustExist ?? false });
    this.check = new DatabaseCheck(this.#db, options.file, options.check ?? CHECK_LIMITS);
    try {
      this.#sql = prepareAll(this.#db, this.#codec);
      this.#reads = readsOf(this.#sql, this.#now);
      this.#mark = options.file === ':memory:' ? null : new MarkWriter(options.file, this.#reads.highest().seq);
    } catch (error) {
      this.#db.close();
      throw openFailure(options.file, error);
    }
  }

  commit(fence: Fence, ops: readonly Op[]): Outcome[] {
    const outcomes = this.#transaction('writing the batch failed', () => {
      const term = this.#sql.terms.term(fence.cell);
      if (term === null || BigInt(term) !== fence.term) throw new StaleTermError(fence);
      const removed = { seq: 0, queuePosition: 0 };
      this.#sql.inlineUsage.begin();
      const results = ops.map((op) => this.#apply(op, removed));
      if (removed.seq > 0) this.#sql.removal.mark(removed.seq, removed.queuePosition);
      this.#sweep();
      this.#sql.inlineUsage.write();
      return results;
    });
    for (const [i, op] of ops.entries()) if (op.kind === 'submit' && outcomes[i]?.kind === 'ok') this.#mark?.accepted(op.job.seq);
    return outcomes;
  }

  read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): ReturnType<Reads[K]> {
    // The compiler cannot infer that the method and its arguments belong to the same query.
    const run = this.#reads[query] as (...args: Parameters<Reads[K]>) => ReturnType<Reads[K]>;
    try {
      return run(...args);
    } catch (error) {
      throw error instanceof RangeError ? error : storeFailure(this.#file, `reading ${query} failed`, error);
    }
  }

  usePayloadKeys(keys: PayloadKeySet): void {
    this.#codec.use(keys);
  }

  /** Writes rows of the history, in a transaction of their own. */
  saveHistory(rows: readonly HistoryRow[]): void {
    this.#transaction('writing the history failed', () => this.#sql.history.save(rows));
  }

  history(range: HistoryRange): Pick<HistoryRow, 'at' | 'value'>[] {
    try {
      return this.#sql.history.read(range);
    } catch (error) {
      throw storeFailure(this.#file, 'reading the history failed', error);
    }
  }

  /** Reads or writes why queues waited; rows are written in a transaction of their own. */
  queueReasons<K extends keyof QueueReasonStore>(
    call: K,
    ...args: Parameters<QueueReasonStore[K]>
  ): Awaited<ReturnType<QueueReasonStore[K]>> {
    const run = this.#sql.queueReasons[call] as (...args: Parameters<QueueReasonStore[K]>) => Awaited<ReturnType<QueueReasonStore[K]>>;
    if (call === 'save') return this.#transaction('writing the reasons of queues failed', () => run(...args));
    try {
      return run(...args);
    } catch (error) {
      throw storeFailure(this.#file, 'reading the reasons of queues failed', error);
    }
  }

  /** Writes or removes gauges of devices, in a transaction of their own. */
  changeDeviceHistory(change: DeviceHistoryChange): void {
    this.#transaction('writing the history of devices failed', () => {
      if ('save' in change) this.#sql.deviceHistory.save(change.save);
      else this.#sql.deviceHistory.expire(change.expire);
    });
  }

  acquire(cell: number, owner: string, forMs: number): { readonly term: bigint } {
    try {
      return this.#transaction('acquiring the cell failed', () => ({ term: this.#sql.terms.acquire(cell, owner, this.#now() + forMs) }));
    } catch (error) {
      // A holder keeps its term in any case, and can read again without waiting for space.
      const term = error instanceof CapstanError && error.code === 'DISK_FULL' ? this.#sql.terms.heldTerm(cell, owner) : null;
      if (term === null) throw error;
      return { term };
    }
  }

  /**
   * Marks how far the WAL is durable, and copies it into the database once it is long enough. Called between batches, after
   * their outcomes were sent: a copy takes tens of milliseconds of disk time, which no commit should include.
   */
  committed(): void {
    try {
      const [state] = this.#sql.walState.all();
      if (state === undefined) return;
      this.#mark?.note(state.log, state.checkpointed);
      if (state.log - state.checkpointed < this.#checkpointPages) return;
      const [copied] = this.#db.pragma('wal_checkpoint(PASSIVE)') as (typeof state)[];
      if (copied !== undefined) this.#mark?.note(copied.log, copied.checkpointed);
    } catch (error) {
      const failure = storeFailure(this.#file, 'checkpointing the write-ahead log failed', error);
      // The WAL still holds everything, and is copied after a later batch. A batch that does not fit reports this
      // itself.
      if (failure.code !== 'DISK_FULL') throw failure;
    }
  }

  /**
   * Copies the database as of the end of the copy, some pages at a time, so that batches are committed in between; on
   * the same connection, so that the copy includes them.
   */
  async snapshot(file: string): Promise<void> {
    try {
      await this.#db.backup(file, { progress: () => SNAPSHOT_PAGES });
    } catch (error) {
      throw storeFailure(file, 'copying the database failed', error);
    }
  }

  close(): void {
    try {
      this.#mark?.close();
    } finally {
      this.#db.close();
    }
  }

  #transaction<T>(failure: string, work: () => T): T {
    const { begin, commit, rollback } = this.#sql;
    try {
      begin.run();
      const result = work();
      commit.run();
      return result;
    } catch (error) {
      // A full disk or an I/O error has already rolled back.
      if (this.#db.inTransaction) rollback.run();
      throw error instanceof StaleTermError ? error : storeFailure(this.#file, failure, error);
    }
  }

  #apply(op: Op, removed: { seq: number; queuePosition: number }): Outcome {
    const sql = this.#sql;
    switch (op.kind) {
      case 'submit':
        return this.#submit(op);
      case 'lease':
        return sql.transitions.lease(op) ? ok : this.#refused(op.seq);
      case 'started':
        return sql.transitions.started(op) ? ok : this.#refused(op.seq);
      case 'finish': {
        const endpoint = sql.transitions.finish(op);
        if (endpoint === null) return this.#refused(op.seq);
        if (op.chunks.length > 0) sql.bodies.addChunks(endpoint, op.seq, op.firstChunk, op.chunks);
        if (op.delivery !== null) sql.deliveries.add(op.delivery, op.seq, op.output);
        return ok;
      }
      case 'requeue':
        return sql.transitions.requeue(op) ? ok : this.#refused(op.seq);
      case 'retry': {
        const row = sql.transitions.retry(op);
        if (row === null) return this.#refused(op.seq);
        return okDropping([row.outputBlob, ...(row.chunks > 0 ? sql.bodies.dropChunks(row.endpoint, op.seq) : [])]);
      }
      case 'delete': {
        const row = sql.removal.remove(op.seq, op.dueBy ?? Number.MAX_SAFE_INTEGER);
        if (row === null) return this.#refused(op.seq);
        const input = sql.bodies.dropInput(row.endpoint, op.seq);
        const chunks = row.chunks > 0 ? sql.bodies.dropChunks(row.endpoint, op.seq) : [];
        sql.inlineUsage.add(row.endpoint, -row.inlineBytes);
        removed.seq = Math.max(removed.seq, op.seq);
        removed.queuePosition = Math.max(removed.queuePosition, row.queuePosition);
        return okDropping([input, row.outputBlob, ...chunks]);
      }
      case 'drain':
        return dropping(sql.bodies.drain(op.seq, op.below));
      case 'reencrypt':
        return plain(sql.bodies.reseal(op.seq, op.from, op.to));
      case 'delivery':
        return dropping(sql.deliveries.change(op.id, op.after, op.to));
      case 'put':
        // A row that goes may say whose the bodies of earlier operations are.
        if (op.value === null) sql.inlineUsage.write();
        return plain(sql.control.put(op.rowKind, op.key, op.version, op.value));
      default:
        return assertNever(op);
    }
  }

  /** The id is checked before the key: a submission sent again is `exists`, whatever its key. */
  #submit(op: Extract<Op, { kind: 'submit' }>): Outcome {
    const { submit, idempotency } = this.#sql;
    const key = op.idempotency;
    if (key === null) return submit.insert(op.job, op.input, op.s3) ? ok : exists;
    const taken = idempotency.find(key.key, this.#now());
    if (taken !== null) {
      if (this.#sql.pages.idTaken(op.job.id)) return exists;
      if (!sameBytes(taken.bodyHash, key.bodyHash)) return idempotentOtherBody;
      return { kind: 'idempotent-same', jobId: taken.jobId };
    }
    if (!submit.insert(op.job, op.input, op.s3)) return exists;
    idempotency.take(key.key, op.job.id, key.bodyHash, key.expiresAt);
    return ok;
  }

  #refused(seq: number): Outcome {
    return this.#sql.transitions.standing(seq) ? stale : gone;
  }

  #sweep(): void {
    const now = this.#now();
    if (now < this.#sweepAt) return;
    const keys = this.#sql.idempotency.sweep(now, SWEEP_ROWS);
    const deliveries = this.#sql.deliveries.sweep(now, SWEEP_ROWS);
    if (keys === SWEEP_ROWS || deliveries === SWEEP_ROWS) return;
    this.#sql.inlineUsage.sweep();
    this.#sweepAt = now + SWEEP_PAUSE_MS;
  }
}

/** Returns the outcome of an operation that deleted rows which may have named blobs. */
function dropping(result: readonly (string | null)[] | 'stale' | 'gone'): Outcome {
  return typeof result === 'string' ? plain(result) : okDropping(result);
}

function okDropping(blobs: readonly (string | null)[]): Outcome {
  const dropped = blobs.filter((blob) => blob !== null);
  return dropped.length === 0 ? ok : { kind: 'ok', dropped };
}

function plain(outcome: 'ok' | 'stale' | 'gone' | 'conflict'): Outcome {
  switch (outcome) {
    case 'ok':
      return ok;
    case 'stale':
      return stale;
    case 'gone':
      return gone;
    case 'conflict':
      return conflict;
    default:
      return assertNever(outcome);
  }
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

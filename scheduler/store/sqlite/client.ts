/**
 * The main thread's client of the SQLite store: sends batches to the store thread as packed buffers and receives their
 * outcomes.
 *
 *   opening ──ready──▶ serving ──close()──▶ closing ──▶ closed
 *      │                  │
 *      └─ open fails      └─ thread ends, or a batch could not be written ──▶ failed
 *
 * After a batch that found the disk full the store still serves, but refuses batches until {@link acquire}.
 * In `failed` and `closed` every call rejects at once; no call ever waits for a thread that has ended.
 */
import { MessageChannel, Worker } from 'node:worker_threads';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf, toError } from '../../../lib/to-error.ts';
import type { PayloadKeys, PayloadKeySet } from '../../secrets/payload-keys.ts';
import type { HistoryRow, HistoryStore } from '../history.ts';
import type { DeviceHistoryStore } from '../device-history.ts';
import type { QueueReasonStore } from '../queue-reasons.ts';
import type { Acquired, Fence, Op, Outcome, Reads, Store } from '../../core/ports/store.ts';
import { CHECK_LIMITS, type CheckLimits } from './check/database-check.ts';
import { SearchReader, type SearchLimits } from './search-reader.ts';
import type { SearchRequest } from './search-protocol.ts';
import { packBatch, unpackOutcomes } from './packing/batches.ts';
import { unpackResult } from './packing/results.ts';
import {
  fromFailure,
  isFailure,
  isNotice,
  type StoreReply,
  type Failure,
  type Notice,
  type StoreRequest,
  type SnapshotEnd,
  type ThreadData,
} from './protocol.ts';

export interface SqliteStoreOptions {
  /** Path of the database; it and its folder are created if missing. */
  readonly file: string;
  /** The database must exist: a missing or empty one is refused (DATA_LOST). */
  readonly mustExist?: boolean;
  /** WAL pages (4 KiB) between checkpoints; default: the engine's. */
  readonly checkpointPages?: number;
  /** Encrypt and decrypt payloads; without them none is encrypted. */
  readonly payloadKeys?: PayloadKeys;
  /** Bounds of the check for damaged pages; default: the engine's. */
  readonly check?: CheckLimits;
  /** Bounds of reads for searches. */
  readonly searchLimits?: SearchLimits;
}

/** A request without a reply yet. */
interface Pending {
  readonly fence: Fence | null;
  /** Whether its failure makes the store unusable. */
  readonly writes: boolean;
  settle(answer: StoreReply): void;
  reject(error: Error): void;
}

/** Bounds, in bytes, of the buffer that a batch is packed into; its size follows the previous batches. */
const LEAST_BUFFER = 1_024;
const MAX_BUFFER = 1_048_576;
/** Number of completed requests in the list at which it is compacted. */
const COMPACT_AT = 1_024;
/** Owner of a cell that was released. */
const NOBODY = 'nobody';

/**
 * Opens (or creates) the database and its thread. Rejects with `DATA_DIR`, `DATA_LOST`, `DATA_NEWER` or `DISK_FULL` if
 * the file cannot be used.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<SqliteClient> {
  const { file, checkpointPages = null, mustExist = false, check = CHECK_LIMITS, payloadKeys } = options;
  const data: ThreadData = { file, checkpointPages, mustExist, check, payloadKeys: payloadKeys?.set ?? null };
  const worker = new Worker(new URL('./thread.ts', import.meta.url), { workerData: data, name: 'capstan-store' });
  const client = new SqliteClient(worker, options);
  try {
    await client.opened;
  } catch (error) {
    await client.exited;
    throw error;
  }
  payloadKeys?.onChange((keys) => client.usePayloadKeys(keys));
  return client;
}

/** The main thread's end of a starting store thread. */
export class SqliteClient implements Store {
  /** The file belongs to this process alone. */
  readonly fenceMs = null;
  readonly opened: Promise<void>;
  readonly #file: string;
  readonly #worker: Worker;
  readonly exited: Promise<void>;
  #pending: Pending[] = [];
  /** Index of the oldest request without a reply. */
  #first = 0;
  /** Why calls are refused; null while serving. */
  #refusal: CapstanError | null = null;
  #closed: Promise<void> | null = null;
  #sizeHint = LEAST_BUFFER;
  readonly #wakes = new Set<(cell: number, term: bigint) => void>();
  /** The last term of each cell. */
  readonly #terms = new Map<number, bigint>();
  readonly #searches: SearchReader;
  /** Settled once everything written until now is answered. */
  #written: Promise<unknown> = Promise.resolve();

  constructor(worker: Worker, { file, payloadKeys, searchLimits }: SqliteStoreOptions) {
    this.#file = file;
    this.#worker = worker;
    this.#searches = new SearchReader(file, payloadKeys?.set ?? null, { limits: searchLimits, onDamage: (error) => this.#refuse(error) });
    const exit = Promise.withResolvers<void>();
    this.exited = exit.promise;
    worker.on('message', (message: StoreReply | Notice) => {
      if (isNotice(message)) this.#lost(message.lost);
      else this.#answered(message);
    });
    worker.on('messageerror', (error) => this.#fail(this.#ended(error.message)));
    worker.on('error', (error) => this.#fail(this.#ended(messageOf(error))));
    worker.on('exit', (code) => {
      this.#fail(this.#ended(`exit code ${code}`));
      exit.resolve();
    });
    // The thread's first message is the result of the opening.
    this.opened = this.#expect(null, true, () => undefined);
  }

  async commit(fence: Fence, ops: readonly Op[]): Promise<Outcome[]> {
    if (this.#refusal !== null) throw this.#refusal;
    const { buffer, size } = this.#pack(fence, ops);
    this.#sizeHint = Math.min(MAX_BUFFER, Math.max(LEAST_BUFFER, size + (size >> 2)));
    this.#worker.postMessage(buffer, [buffer]);
    return this.#writing(this.#expect(fence, true, (answer) => unpackOutcomes(answer as ArrayBuffer | null, ops.length)));
  }

  async read<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    return this.#ask({ ask: 'read', query, args }, false, (answer) =>
      unpackResult(query, answer as ArrayBuffer | { readonly value: ReturnType<Reads[K]> }),
    );
  }

  async search<K extends keyof Reads>(query: K, ...args: Parameters<Reads[K]>): Promise<ReturnType<Reads[K]>> {
    return this.#search({ ask: 'read', query, args }, (answer) =>
      unpackResult(query, answer as ArrayBuffer | { readonly value: ReturnType<Reads[K]> }),
    );
  }

  async #search<T>(question: SearchRequest, read: (answer: StoreReply) => T): Promise<T> {
    this.#mustServe();
    await this.#written;
    this.#mustServe();
    return this.#searches.ask(question, read);
  }

  async acquire(cell: number, owner: string, forMs: number): Promise<Acquired> {
    return this.#ask({ ask: 'acquire', cell, owner, forMs }, true, (answer) => {
      const acquired = (answer as { readonly value: { readonly term: bigint } }).value;
      this.#terms.set(cell, acquired.term);
      return acquired;
    });
  }

  /** The file belongs to this process alone: no other process holds a cell. */
  async waitForTurn(_shard: number, _ms: number): Promise<void> {
    this.#mustServe();
  }

  /** A further term, without an owner, refuses what comes under the last one. */
  async release(cell: number): Promise<void> {
    await this.acquire(cell, NOBODY, 0);
  }

  now(): number {
    return Date.now();
  }

  /** No other process changes a cell. A damaged database is found by reads, too, and while no batch is due. */
  onHint(wake: (cell: number, term: bigint) => void): () => void {
    this.#wakes.add(wake);
    return () => this.#wakes.delete(wake);
  }

  #lost(failure: Failure): void {
    this.#refuse(new CapstanError(failure.code ?? 'INTERNAL', failure.message));
  }

  #refuse(error: CapstanError): void {
    this.#refusal ??= error;
    for (const [cell, term] of this.#terms) for (const wake of this.#wakes) wake(cell, term);
  }

  /**
   * Writes a consistent copy of the database into an empty file, while batches continue.
   * @throws CapstanError DATA_DIR if the copy cannot be written; the store continues.
   */
  async snapshot(file: string): Promise<void> {
    if (this.#refusal !== null) throw this.#refusal;
    const { port1: ours, port2: theirs } = new MessageChannel();
    const ended = new Promise<SnapshotEnd | null>((resolve) => {
      ours.once('message', resolve);
      ours.once('close', () => resolve(null));
    });
    this.#worker.postMessage({ ask: 'snapshot', file, port: theirs } satisfies StoreRequest, [theirs]);
    try {
      await this.#expect(null, false, () => undefined);
      const end = await ended;
      if (end === null) throw this.#ended('while copying the database');
      if (end.ended === 'failed') throw fromFailure(end.failure, null);
    } finally {
      ours.close();
    }
  }

  /** Batches that are called from now on are written with these keys. A store that has ended needs none. */
  usePayloadKeys(keys: PayloadKeySet): void {
    if (this.#refusal !== null) return;
    void this.#ask({ ask: 'payload-keys', keys }, false, () => undefined).catch(() => undefined);
    this.#searches.usePayloadKeys(keys);
  }

  /** What happened at endpoints, written beside the batches. */
  readonly history: HistoryStore = {
    save: async (rows) => this.#writing(this.#ask({ ask: 'save-history', rows }, false, () => undefined)),
    read: async (range) =>
      this.#search({ ask: 'history', range }, (answer) => (answer as { readonly value: Pick<HistoryRow, 'at' | 'value'>[] }).value),
  };

  /** Why the queues of endpoints waited, written beside the batches. */
  readonly queueReasons: QueueReasonStore = {
    save: (rows) => this.#writing(this.#queueReasons('save', rows)),
    read: async (range) =>
      this.#search(
        { ask: 'queue-reasons', range },
        (answer) => (answer as { readonly value: Awaited<ReturnType<QueueReasonStore['read']>> }).value,
      ),
    standing: () => this.#queueReasons('standing'),
  };

  async #queueReasons<K extends keyof QueueReasonStore>(
    call: K,
    ...args: Parameters<QueueReasonStore[K]>
  ): Promise<Awaited<ReturnType<QueueReasonStore[K]>>> {
    return this.#ask(
      { ask: 'queue-reasons', call, args },
      false,
      (answer) => (answer as { readonly value: Awaited<ReturnType<QueueReasonStore[K]>> }).value,
    );
  }

  /** Gauges of devices, written beside the batches. */
  readonly deviceHistory: DeviceHistoryStore = {
    save: (rows) => this.#writing(this.#ask({ ask: 'device-history', change: { save: rows } }, false, () => undefined)),
    read: async (range) =>
      this.#search(
        { ask: 'device-history', range },
        (answer) => (answer as { readonly value: Awaited<ReturnType<DeviceHistoryStore['read']>> }).value,
      ),
    expire: (before) => this.#writing(this.#ask({ ask: 'device-history', change: { expire: before } }, false, () => undefined)),
  };

  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    // Also after a failure, so that the file is closed properly. The thread's end settles the remaining requests.
    await this.#searches.close();
    this.#worker.postMessage({ ask: 'close' } satisfies StoreRequest);
    this.#refusal ??= new CapstanError('UNAVAILABLE', `store ${this.#file}: it is closed`);
    await this.exited;
  }

  /** A batch that cannot be packed is a bug, and later batches assume that it was written. */
  #pack(fence: Fence, ops: readonly Op[]): { readonly buffer: ArrayBuffer; readonly size: number } {
    try {
      return packBatch(fence, ops, this.#sizeHint);
    } catch (error) {
      const reason = messageOf(error);
      this.#refusal = new CapstanError('INTERNAL', `store ${this.#file}: encoding the batch failed: ${reason}`, { cause: error });
      throw this.#refusal;
    }
  }

  #mustServe(): void {
    if (this.#refusal !== null) throw this.#refusal;
  }

  #ask<T>(question: StoreRequest, writes: boolean, read: (answer: StoreReply) => T): Promise<T> {
    this.#mustServe();
    this.#worker.postMessage(question);
    return this.#expect(null, writes, read);
  }

  #expect<T>(fence: Fence | null, writes: boolean, read: (answer: StoreReply) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({
        fence,
        writes,
        settle(answer) {
          try {
            resolve(read(answer));
          } catch (error) {
            reject(toError(error));
          }
        },
        reject,
      });
    });
  }

  /** A search that is called later sees it. */
  #writing<T>(written: Promise<T>): Promise<T> {
    this.#written = written.then(
      () => undefined,
      () => undefined,
    );
    return written;
  }

  #answered(answer: StoreReply): void {
    const pending = this.#pending[this.#first];
    if (pending === undefined) return;
    this.#first++;
    if (this.#first === this.#pending.length || this.#first > COMPACT_AT) {
      this.#pending.splice(0, this.#first);
      this.#first = 0;
    }
    if (!isFailure(answer)) {
      pending.settle(answer);
      return;
    }
    const error = fromFailure(answer.failure, pending.fence);
    // After a full disk the thread refuses batches until the cell is acquired again.
    if (pending.writes && error instanceof CapstanError && error.code !== 'DISK_FULL') this.#refusal ??= error;
    pending.reject(error);
  }

  #fail(error: CapstanError): void {
    this.#refusal ??= error;
    const waiting = this.#pending.slice(this.#first);
    this.#pending = [];
    this.#first = 0;
    for (const pending of waiting) pending.reject(error);
  }

  #ended(how: string): CapstanError {
    return new CapstanError('INTERNAL', `store ${this.#file}: its thread ended: ${how}`);
  }
}

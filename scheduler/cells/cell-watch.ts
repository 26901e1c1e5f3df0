/**
 * What the scheduler of one cell knows about the others, read from the database once a second: where their owners are, and
 * which keys operate the service.
 *
 * An operator's key belongs to the cell `default` and operates every cell. Each scheduler checks it against the rows of
 * that cell by itself, so that nobody in between has to be believed. A revoked key ends here with the next read; keys
 * that could not be read for {@link STALE_MS} are not accepted.
 */
import type { Metadata } from '@grpc/grpc-js';

import { cellOfCall, DEFAULT_CELL } from '../../lib/cells.ts';
import { CapstanError } from '../../lib/errors.ts';
import { keyDefaults } from '../core/control/keys.ts';
import type { KeyRow } from '../core/state/control-rows.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { Guests } from '../services/auth.ts';
import type { Cells } from '../store/cells.ts';

const READ_MS = 1_000;
const STALE_MS = 5_000;
const RETRY_MS = 1_000;

export interface CellWatchOptions {
  /** Null with SQLite: there is one cell, and nothing to read. */
  readonly cells: Cells | null;
  readonly log: EngineLog;
  /** Wall clock, ms since 1970. */
  readonly now: () => number;
}

export class CellWatch implements Guests {
  readonly #options: CellWatchOptions;
  #addresses: ReadonlyMap<string, string> = new Map();
  #keys: ReadonlyMap<string, KeyRow> = new Map();
  /** Monotonic, ms. */
  #readAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<void> | undefined;
  #hasFailed = false;
  #closed = false;

  constructor(options: CellWatchOptions) {
    this.#options = options;
  }

  /** The cell that this scheduler serves. */
  get own(): string {
    return this.#options.cells?.own ?? DEFAULT_CELL;
  }

  /** Reads once, and goes on once a second. */
  async start(): Promise<void> {
    if (this.#options.cells === null || this.#timer !== undefined) return;
    await (this.#reading = this.#read());
    this.#reading = undefined;
    if (this.#closed) return;
    this.#timer = setInterval(() => {
      this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    }, READ_MS);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#reading;
  }

  /** Why a call is refused before its credentials are read: it is for another cell. Null if it is for this one. */
  refusal(metadata: Metadata): CapstanError | null {
    const cell = cellOfCall(metadata);
    if (cell === this.own) return null;
    const owner = this.#addresses.get(cell) ?? '';
    const where = owner === '' ? '' : `; the owner of that cell is ${owner}`;
    return new CapstanError('NOT_OWNER', `this scheduler serves the cell ${this.own}, the call is for another one${where}`, {
      retryAfterMs: RETRY_MS,
      ...(owner === '' ? {} : { owner }),
    });
  }

  operatorKey(hash: string): KeyRow | undefined {
    if (this.own === DEFAULT_CELL) return undefined;
    if (performance.now() - this.#readAt > STALE_MS)
      throw new CapstanError('UNAVAILABLE', 'the operator’s keys cannot be read; try again shortly', { retryAfterMs: RETRY_MS });
    const key = this.#keys.get(hash);
    return key === undefined || (key.expiresAt !== null && key.expiresAt <= this.#options.now()) ? undefined : key;
  }

  async #read(): Promise<void> {
    const { cells, log } = this.#options;
    if (cells === null) return;
    const since = performance.now();
    try {
      const rows = await cells.list();
      const keys = cells.own === DEFAULT_CELL ? [] : await cells.operatorKeys();
      this.#addresses = new Map(rows.map(({ name, address }) => [name, address]));
      this.#keys = new Map(
        keys.map((text) => {
          const key: KeyRow = { ...keyDefaults, ...(JSON.parse(text) as KeyRow) };
          return [key.hash, key];
        }),
      );
      this.#readAt = since;
      if (this.#hasFailed) log.info({}, 'the cells are read again');
      this.#hasFailed = false;
    } catch (error) {
      // An outage of the database: what follows from it shows in the engine, too.
      if (!this.#hasFailed && !this.#closed) log.warn({ err: error }, 'the cells could not be read; trying again');
      this.#hasFailed = true;
    }
  }
}

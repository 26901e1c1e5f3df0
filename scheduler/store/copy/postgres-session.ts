/** One connection of a copy, which holds the lock of the cell: no scheduler owns it meanwhile. */
import type { Client } from 'pg';

import { CapstanError } from '../../../lib/errors.ts';
import { parseAddress, type Address } from '../postgres/address.ts';
import { openPostgresStore } from '../postgres/client.ts';
import { clientConfig } from '../postgres/connection.ts';
import { storeFailure } from '../postgres/failures.ts';
import { StoreClient } from '../postgres/store-client.ts';
import { LOCK_SPACE } from '../postgres/migrate.ts';
import { migrations } from '../postgres/migrations/all.ts';
import { BATCH_BYTES, BATCH_ROWS, bytesOf, ofCell, type Cell, type CopyTable, type Row } from './tables.ts';

/** A queue in SQLite is the cell `default`. */
export const CELL = 0;
const CONNECT_MS = 5_000;
const FIRST_FETCH = 100;

const SESSION = {
  timezone: 'UTC',
  client_min_messages: 'warning',
  synchronous_commit: 'on',
  // The cursor's transaction is idle while the other side works.
  idle_in_transaction_session_timeout: '0',
  statement_timeout: '0',
};

const CHECK = `SELECT pg_backend_pid() AS backend, pg_is_in_recovery() AS standby, pg_try_advisory_lock($1, $2) AS locked,
  (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE $3) AS schedulers`;

interface CheckRow {
  readonly backend: number;
  readonly standby: boolean;
  readonly locked: boolean;
  readonly schedulers: number;
}

export class PostgresSession {
  readonly address: Address;
  readonly #option: string;
  readonly #client: Client;
  #cursors = 0;
  /** Why the connection is gone: a statement on it fails with less than that. */
  #ended: Error | null = null;

  private constructor(address: Address, option: string) {
    this.address = address;
    this.#option = option;
    this.#client = new StoreClient(clientConfig(address, 'capstan store copy', { session: SESSION, connectMs: CONNECT_MS }));
    this.#client.on('error', (error) => {
      this.#ended ??= error;
    });
  }

  /**
   * Connects and takes the cell's lock.
   * @param option the option of the tool that names the address, for refusals.
   * @throws CapstanError CONFIG, UNAVAILABLE, or CONFLICT when a scheduler owns the cell or waits for it.
   */
  static async open(url: string, option: string): Promise<PostgresSession> {
    const session = new PostgresSession(parseAddress(url, option), option);
    try {
      await session.#start();
      return session;
    } catch (error) {
      await session.close();
      throw storeFailure(session.address.shown, 'cannot open', error);
    }
  }

  async #start(): Promise<void> {
    await this.#client.connect();
    const [row] = await this.query<CheckRow>(CHECK, [LOCK_SPACE, CELL, `capstan cell ${CELL} %`]);
    const { backend, standby, locked, schedulers } = row as CheckRow;
    const { shown } = this.address;
    const refused = (code: 'CONFIG' | 'CONFLICT', reason: string): CapstanError =>
      new CapstanError(code, `${this.#option}: ${shown}: ${reason}`, { field: this.#option });
    if ((this.#client as unknown as { readonly processID: number | null }).processID !== backend)
      throw refused('CONFIG', 'the address is that of a connection pooler; use the address of the server itself');
    if (standby) throw refused('CONFIG', 'the server is a replica');
    if (!locked || schedulers > 0) throw refused('CONFLICT', 'a scheduler owns the queue, or waits for it; stop all schedulers first');
  }

  /** Number of the newest migration that was applied; 0 in a database without the schema. */
  async schemaVersion(): Promise<number> {
    const [found] = await this.query<{ ours: boolean }>("SELECT to_regclass('capstan.migrations') IS NOT NULL AS ours");
    if (found?.ours !== true) return 0;
    const [row] = await this.query<{ version: number }>('SELECT coalesce(max(number), 0) AS version FROM capstan.migrations');
    return row?.version ?? 0;
  }

  /** Whether the cell holds an unfinished copy. */
  async isUnfinished(): Promise<boolean> {
    const [found] = await this.query<{ begun: boolean }>("SELECT to_regclass('capstan.store_copy') IS NOT NULL AS begun");
    return found?.begun === true;
  }

  /** Refuses a schema of another version than this program's, which may have other columns. */
  async mustBePresent(): Promise<void> {
    const version = await this.schemaVersion();
    const newest = migrations.at(-1)?.number ?? 0;
    const { shown } = this.address;
    if (version > newest)
      throw new CapstanError(
        'DATA_NEWER',
        `${this.#option}: ${shown}: its schema is version ${version}, this program supports up to ${newest}`,
      );
    if (version === newest) return;
    const reason =
      version === 0
        ? 'is not a database of Capstan'
        : `its schema is version ${version}, not ${newest}; start a scheduler of this version on it, and stop it`;
    throw new CapstanError(version === 0 ? 'NOT_FOUND' : 'CONFLICT', `${this.#option}: ${shown}: ${reason}`, { field: this.#option });
  }

  /** Rows as objects. */
  async query<T extends object>(text: string, values: readonly unknown[] = []): Promise<T[]> {
    try {
      return (await this.#client.query<T>(text, [...values])).rows;
    } catch (error) {
      throw storeFailure(this.address.shown, 'cannot copy', this.#ended ?? error);
    }
  }

  /** Statements in one transaction. */
  async transaction(work: () => Promise<void>): Promise<void> {
    await this.query('BEGIN');
    try {
      await work();
      await this.query('COMMIT');
    } catch (error) {
      // The failure that matters is the first one.
      await this.#client.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
  }

  /** Sends what a COPY statement reads. */
  async copyIn(statement: string, data: Buffer): Promise<void> {
    // Loaded with the first batch: no other command needs it.
    const { from } = await import('pg-copy-streams');
    try {
      await new Promise<void>((resolve, reject) => {
        const stream = this.#client.query(from(statement));
        stream.on('error', reject);
        stream.on('finish', resolve);
        stream.end(data);
      });
    } catch (error) {
      throw storeFailure(this.address.shown, 'cannot copy', this.#ended ?? error);
    }
  }

  /** Batches of the cell's rows in order; in a transaction, which the caller has begun. */
  async *read(table: CopyTable, after: readonly (number | string)[] | null): AsyncGenerator<readonly Row[]> {
    const { columns, order } = table;
    const key = order.postgres.join(', ');
    // An enumeration or JSON is read as its text.
    const names = [...columns.map(({ name, kind }) => (kind === 'text' ? `${name}::text` : name)), ...order.postgres].join(', ');
    const from = after === null ? '' : ` AND (${key}) > (${order.postgres.map((_, i) => `$${i + 2}`).join(', ')})`;
    const cursor = `copy_${this.#cursors++}`;
    await this.query(
      `DECLARE ${cursor} NO SCROLL CURSOR FOR SELECT ${names} FROM capstan.${table.postgres} WHERE ${ofCell(table)}${from} ORDER BY ${key}`,
      [CELL, ...(after ?? [])],
    );
    for (let limit = FIRST_FETCH; ;) {
      const rows = await this.#fetch(`FETCH ${limit} FROM ${cursor}`);
      if (rows.length > 0) yield rows;
      if (rows.length < limit) break;
      const bytes = rows.reduce((sum, row) => sum + bytesOf(row), 0) / rows.length;
      limit = Math.max(1, Math.min(BATCH_ROWS, limit * 2, Math.floor(BATCH_BYTES / Math.max(bytes, 1))));
    }
    await this.query(`CLOSE ${cursor}`);
  }

  async #fetch(text: string): Promise<Row[]> {
    try {
      return (await this.#client.query<Cell[]>({ text, rowMode: 'array' })).rows;
    } catch (error) {
      throw storeFailure(this.address.shown, 'cannot copy', this.#ended ?? error);
    }
  }

  /** The lock goes with the connection. */
  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }
}

/** Creates the schema in a database that has none. */
export async function createSchema(url: string, option: string): Promise<void> {
  await (await openPostgresStore({ url, setting: option })).close();
}

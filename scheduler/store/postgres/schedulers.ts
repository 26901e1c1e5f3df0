/**
 * The rows of the schedulers: each writes its own, and reads all. It has a connection of its own, so that it says what it
 * sees also while the store is in doubt. All times are the database's.
 */
import type { Pool } from 'pg';

import { parseAddress } from './address.ts';
import { readPool } from './connection.ts';
import { sqlState, storeFailure } from './failures.ts';
import { migrations } from './migrations/all.ts';

/** Rows that nobody writes any more are removed after it. */
const FORGOTTEN_AFTER = '1 hour';
/** Who was seen within it is there, ms. */
export const SEEN_MS = 10_000;
const MAX_ROWS = 2_000;
/** Whatever the database does, a beat and a list end, ms. */
const STATEMENT_MS = 2_500;
/** When the server ends them, before that. */
const SERVER_MS = 2_000;
/** The table or a column does not exist yet: an older scheduler made the schema. */
const OLDER_SCHEMA = new Set(['42P01', '42703', '3F000']);

const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
const age = (time: string): string => `greatest(0, (extract(epoch FROM clock_timestamp() - ${time}) * 1000)::bigint)`;

/** A row of the same host and address is that of a process before this one: an address belongs to one at a time. */
const BEAT = `WITH forgotten AS (
  DELETE FROM capstan.schedulers WHERE id IN (
    SELECT id FROM capstan.schedulers WHERE id <> $1 AND (seen_at < clock_timestamp() - interval '${FORGOTTEN_AFTER}'
      OR (cell = $2 AND address = $3 AND host_name = $4)) FOR UPDATE SKIP LOCKED)
), beat AS (
  INSERT INTO capstan.schedulers (id, cell, address, host_name, version, schema_version, master_keys, clock_offset_ms)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), cell = excluded.cell,
    address = excluded.address, master_keys = excluded.master_keys, clock_offset_ms = excluded.clock_offset_ms,
    started_at = CASE WHEN $9 THEN clock_timestamp() ELSE capstan.schedulers.started_at END
)
SELECT ${NOW_MS} AS now`;
const LEAVE = 'DELETE FROM capstan.schedulers WHERE id = $1';
const CELLS = `SELECT c.name, coalesce(c.owner, '') AS owner, c.address, c.term, c.batch, ${age('c.taken_at')} AS "termAgeMs", c.take_overs AS "takeOvers",
  c.previous_address AS "previousAddress",
  coalesce((SELECT k.value ->> 'id' FROM capstan.control k WHERE k.cell = c.cell AND k.kind = 'setting' AND k.key = 'master-key'), '') AS "masterKey",
  (SELECT max(number) FROM capstan.migrations) AS "schemaVersion"
FROM capstan.cells c ORDER BY c.name COLLATE "C" LIMIT ${MAX_ROWS}`;
const SCHEDULERS = `SELECT s.id, s.cell, s.address, s.host_name AS "hostName", s.version, s.schema_version AS "schemaVersion",
  s.master_keys AS "masterKeys", s.clock_offset_ms AS "clockOffsetMs", ${age('s.started_at')} AS "ageMs", ${age('s.seen_at')} AS "seenMs",
  c.owner IS NOT NULL AS "isOwner"
FROM capstan.schedulers s LEFT JOIN capstan.cells c ON c.name = s.cell AND c.owner = s.id
ORDER BY s.cell, c.owner IS NULL, s.address, s.started_at LIMIT ${MAX_ROWS}`;
const DATABASE = `SELECT current_setting('server_version') AS version, current_setting('fsync') = 'on' AS fsync,
  current_setting('synchronous_standby_names') <> '' AS synchronous,
  (SELECT max(number) FROM capstan.migrations) AS "schemaVersion",
  CASE WHEN pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
    THEN (SELECT count(*)::int FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) END AS "synchronousStandbys"`;

/** A scheduler as its own row says. */
export interface SchedulerRow {
  readonly id: string;
  readonly cell: string;
  readonly address: string;
  readonly hostName: string;
  readonly version: string;
  readonly masterKeys: readonly string[];
  readonly clockOffsetMs: number;
}

export interface SeenScheduler extends SchedulerRow {
  readonly schemaVersion: number;
  readonly isOwner: boolean;
  /** Since it started, or was the owner last. */
  readonly ageMs: number;
  readonly seenMs: number;
}

export interface CellRow {
  readonly name: string;
  /** Empty before the first. */
  readonly owner: string;
  readonly address: string;
  readonly term: number;
  readonly batch: number;
  readonly termAgeMs: number;
  readonly takeOvers: number;
  readonly previousAddress: string;
  readonly masterKey: string;
  /** That is applied to the database. */
  readonly schemaVersion: number;
}

export interface DatabaseRow {
  readonly version: string;
  readonly schemaVersion: number;
  readonly fsync: boolean;
  readonly synchronous: boolean;
  /** Null where the role may not see them. */
  readonly synchronousStandbys: number | null;
}

/** The newest schema that this program knows. */
export const KNOWN_SCHEMA = migrations.at(-1)?.number ?? 0;

export class SchedulerRows {
  readonly #pool: Pool;
  /** The database's address, without a password. */
  readonly shown: string;

  constructor(url: string) {
    const address = parseAddress(url, 'CAPSTAN_STORE');
    this.shown = address.shown;
    // A row that a crash of the database loses is written again; none waits for another host.
    // What this client no longer waits for must not be written later: a row that was removed would come back.
    const settings = { synchronous_commit: 'off', statement_timeout: String(SERVER_MS) };
    this.#pool = readPool(address, 1, { settings, waitMs: STATEMENT_MS });
  }

  /**
   * Writes the own row, and removes those of schedulers that are gone. `isNewRole`: it was the owner until now. Returns the database's clock, ms since 1970; null where the
   * schema is too old for it.
   */
  async beat(
    { id, cell, address, hostName, version, masterKeys, clockOffsetMs }: SchedulerRow,
    isNewRole: boolean,
  ): Promise<number | null> {
    const values = [id, cell, address, hostName, version, KNOWN_SCHEMA, masterKeys, Math.trunc(clockOffsetMs), isNewRole];
    const [row] = await this.#query<{ now: number }>('cannot write the row of this scheduler', 'beat', BEAT, values);
    return row?.now ?? null;
  }

  async leave(id: string): Promise<void> {
    await this.#query('cannot remove the row of this scheduler', 'leave', LEAVE, [id]);
  }

  cells(): Promise<CellRow[]> {
    return this.#query<CellRow>('cannot list cells', 'cells', CELLS);
  }

  schedulers(): Promise<SeenScheduler[]> {
    return this.#query<SeenScheduler>('cannot list schedulers', 'schedulers', SCHEDULERS);
  }

  async database(): Promise<DatabaseRow | null> {
    const [row] = await this.#query<DatabaseRow>('cannot read its settings', 'database', DATABASE);
    return row ?? null;
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #query<R extends object>(what: string, name: string, text: string, values: readonly unknown[] = []): Promise<R[]> {
    try {
      const query = { name, text, values: [...values], query_timeout: STATEMENT_MS };
      return (await this.#pool.query<R & Record<string, unknown>>(query)).rows;
    } catch (error) {
      if (OLDER_SCHEMA.has(sqlState(error))) return [];
      throw storeFailure(this.shown, what, error);
    }
  }
}

/**
 * Who owns a cell. The owner holds a session's advisory lock on the connection that commits, and a term that every batch names.
 *
 * - Who gets the lock takes the cell at once: its last owner's connection is gone.
 * - Otherwise the owner may be a host that is lost or paused with its connection open: whoever sees neither term nor batch change
 *   for {@link UNCHANGED_MS} of its own monotonic clock takes the cell, if both still are what it saw. No clocks are compared.
 *
 * A term is never given out twice, also after the database was restored or failed over to a replica that was behind: it is at least
 * the seconds since 1970.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { LOCK_SPACE } from './migrate.ts';
import type { Connection } from './connection.ts';
import { sqlState } from './failures.ts';

export type Taken = { readonly term: bigint; readonly batch: number } | { readonly heldBy: string };

/** An owner that is alive commits at least once a second. */
const UNCHANGED_MS = 4_000;
/** How long a row may stay locked before the connections that hold it are ended, ms. */
const LOCK_MS = 500;
const LOCK_NOT_AVAILABLE = '55P03';

const TRY_LOCK = 'SELECT pg_try_advisory_lock($1, $2) AS locked';
const OWNER = 'SELECT owner, address, term, batch FROM capstan.cells WHERE cell = $1';
/** Also from oneself: a batch in doubt is behind the row's lock, so it is written, or refused, before this is. */
const NEXT = `UPDATE capstan.cells SET owner = $2, address = $3, term = greatest(term + 1, floor(extract(epoch FROM clock_timestamp()))::bigint)
WHERE cell = $1 AND ($4::bigint IS NULL OR (term = $4 AND batch = $5)) RETURNING term, batch`;
/** Ends the connections of this role that hold the cell's lock, or its row. */
const END_HOLDERS = `SELECT pg_terminate_backend(pid) FROM (
  SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) holders WHERE pid <> pg_backend_pid()`;

/** Who wants which cell. */
export interface Claim {
  readonly cell: number;
  readonly owner: string;
  /** Where others reach the owner, `host:port`. */
  readonly address: string;
}

const missing = (cell: number): CapstanError => new CapstanError('CONFIG', `the database has no cell ${cell}`);

interface Seen {
  readonly term: number;
  readonly batch: number;
  readonly since: number;
}

export class CellTerms {
  readonly #connection: Connection;
  readonly #seen = new Map<number, Seen>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Takes the cell under a new term, or says who holds it. */
  async take(claim: Claim): Promise<Taken> {
    const { cell } = claim;
    if (await this.#lock(cell)) return this.#next(claim, null);
    const { rows } = await this.#connection.client.query<{ owner: string | null; address: string; term: number; batch: number }>(OWNER, [
      cell,
    ]);
    const held = rows[0];
    if (held === undefined) throw missing(cell);
    const { term } = held;
    const heldBy = held.address || (held.owner ?? 'a scheduler that is starting');
    const seen = this.#seen.get(cell);
    if (seen?.term !== term || seen.batch !== held.batch) {
      this.#seen.set(cell, { term, batch: held.batch, since: performance.now() });
      return { heldBy };
    }
    if (performance.now() - seen.since < UNCHANGED_MS) return { heldBy };
    const taken = await this.#next(claim, seen);
    if ('heldBy' in taken) return taken;
    await this.#connection.client.query(END_HOLDERS, [LOCK_SPACE, cell]);
    await this.#connection.client.query('SELECT pg_advisory_lock($1, $2)', [LOCK_SPACE, cell]);
    return taken;
  }

  async #lock(cell: number): Promise<boolean> {
    const { rows } = await this.#connection.client.query<{ locked: boolean }>(TRY_LOCK, [LOCK_SPACE, cell]);
    return rows[0]?.locked === true;
  }

  async #next({ cell, owner, address }: Claim, seen: Seen | null): Promise<Taken> {
    const { client } = this.#connection;
    await client.query(`SET lock_timeout = ${LOCK_MS}`);
    try {
      for (;;) {
        try {
          const next = await client.query<{ term: number; batch: number }>(NEXT, [
            cell,
            owner,
            address,
            seen?.term ?? null,
            seen?.batch ?? null,
          ]);
          const row = next.rows[0];
          if (row !== undefined) return { term: BigInt(row.term), batch: row.batch };
          if (seen === null) throw missing(cell);
          return { heldBy: 'another scheduler' };
        } catch (error) {
          if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
          await this.#endRowHolders(cell);
        }
      }
    } finally {
      await client.query('SET lock_timeout = 0');
    }
  }

  /** Ends the cell's other connections that have a transaction open: one of them holds the row. */
  async #endRowHolders(cell: number): Promise<void> {
    await this.#connection.client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() AND application_name LIKE $1 AND xact_start IS NOT NULL`,
      [`capstan cell ${cell} %`],
    );
  }
}

/**
 * Who owns a cell. The owner holds a session's advisory lock on the connection that commits, and a term that every batch names.
 *
 * - Who gets the lock takes the cell at once: its last owner's connection is gone, or it released the cell. A standby waits
 *   for the lock in the database, so that it learns of this when it happens.
 * - Otherwise the owner may be a host that is lost or paused with its connection open: whoever sees neither term nor batch change
 *   for {@link UNCHANGED_MS} of its own monotonic clock takes the cell, if both still are what it saw. No clocks are compared.
 *
 * A term is never given out twice, also after the database was restored or failed over to a replica that was behind: it is at least
 * the milliseconds since 1970. A database that lacks what was acknowledged to this process, or what it saw of an owner, is not taken
 * over: somebody has to look.
 */
import { CapstanError } from '../../../lib/errors.ts';
import type { TakeOverCause } from '../store-watcher.ts';
import { sqlState } from './failures.ts';
import { LOCK_SPACE, LONGER_MS, migrate, newer, newestKnown, SCHEMA_IS_LOCKED, schemaVersion } from './migrate.ts';
import type { Writer } from './writer.ts';

export interface Grant {
  readonly term: bigint;
  readonly batch: number;
  readonly cause: TakeOverCause;
  /** The database's wall clock, ms since 1970, and not before what former owners wrote. */
  readonly wall: number;
}

export type Taken = Grant | { readonly heldBy: string; readonly address?: string };

/** An owner that is alive commits at least once a second. */
const UNCHANGED_MS = 4_000;
/** How long a row or lock may stay held by a former owner before its connections are ended, ms. */
const LOCK_MS = 500;
/** How often they are ended before this is given up. */
const ENDINGS = 6;
const LOCK_NOT_AVAILABLE = '55P03';

const TRY_LOCK = 'SELECT pg_try_advisory_lock($1, $2) AS locked';
const UNLOCK = 'SELECT pg_advisory_unlock($1, $2)';
const WAIT = 'SELECT capstan.wait_for_lock_v1($1, $2, $3) AS locked';
const OWNER = `SELECT owner, address, term, batch, ${SCHEMA_IS_LOCKED} AS "isMigrating" FROM capstan.cells WHERE cell = $1`;
const TAKE = 'SELECT outcome, former, term, batch, wall FROM capstan.take_v1($1, $2, $3, $4, $5, $6, $7, $8)';
/** Counts the bytes of payloads in the cell's rows, where its last owner did not. */
const COUNT_USAGE = 'SELECT capstan.count_usage_v1($1, $2::bigint)';
/** Ends the connections that hold the cell's lock, unless there is a further term by now. */
const END_LOCK_HOLDERS = `SELECT pg_terminate_backend(pid) FROM (
  SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) holders WHERE pid <> pg_backend_pid() AND EXISTS (SELECT FROM capstan.cells WHERE cell = $2 AND term = $3)`;
/** Ends the cell's other connections that have a transaction open: one of them holds the row. */
const END_ROW_HOLDERS = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() AND application_name LIKE $1 AND xact_start IS NOT NULL`;

/** What the database acknowledged, to this process or to an owner that it looked at: the highest term, and the highest batch under it. */
export interface Known {
  readonly term: number;
  readonly batch: number;
}

/** Who wants which cell. */
export interface Claim {
  readonly cell: number;
  readonly owner: string;
  /** Where others reach the owner, `host:port`; empty if unknown. */
  readonly address: string;
  readonly known: Known | null;
}

const missing = (cell: number): CapstanError => new CapstanError('CONFIG', `the database has no cell ${cell}`);

interface Row {
  /** Null before the first. */
  readonly owner: string | null;
  readonly address: string;
  readonly term: number;
  readonly batch: number;
  readonly isMigrating: boolean;
}

interface Seen extends Known {
  readonly since: number;
}

interface TakeRow {
  readonly outcome: 'taken' | 'changed' | 'behind' | 'missing';
  readonly former: string | null;
  readonly term: number;
  readonly batch: number;
  readonly wall: number;
}

export class CellTerms {
  readonly #writer: Writer;
  readonly #where: string;
  readonly #onSeen: (cell: number, known: Known) => void;
  readonly #seen = new Map<number, Seen>();
  /** Cells whose lock this session holds; the database counts how often it was taken. */
  readonly #locked = new Set<number>();
  #isNewer = false;

  /** `onSeen` is told of every look at a cell: what it saw outlives this session. */
  constructor(writer: Writer, where: string, onSeen: (cell: number, known: Known) => void) {
    this.#writer = writer;
    this.#where = where;
    this.#onSeen = onSeen;
  }

  /**
   * Takes the cell under a new term, or says who holds it.
   * @throws CapstanError DATA_LOST when the database lacks what was acknowledged, DATA_NEWER when only a newer program may own.
   */
  async take(claim: Claim): Promise<Taken> {
    const { cell } = claim;
    const version = await schemaVersion(this.#writer, this.#where);
    this.#isNewer = version > newestKnown;
    if (this.#isNewer) {
      // It may have waited for the lock, which a newer program needs.
      await this.release(cell);
      return this.#leaveToNewer(cell, version);
    }
    if (await this.#lock(cell)) return this.#next(claim, null);
    const held = await this.#ownerOf(cell);
    if (held === undefined) throw missing(cell);
    const seen = this.#unchanged(cell, held);
    if (seen === null || performance.now() - seen.since < UNCHANGED_MS) return heldBy(held);
    const taken = await this.#next(claim, seen);
    return 'heldBy' in taken ? taken : ((await this.#lockAfterEnding(cell, taken.term)) ?? taken);
  }

  /** Resolves when this session has the cell's lock, or after `ms`. */
  async waitFor(cell: number, ms: number): Promise<void> {
    if (this.#locked.has(cell) || this.#isNewer) return;
    const values = [LOCK_SPACE, cell, ms];
    const [row] = await this.#writer.ask<{ locked: boolean }>({ kind: 'term', text: WAIT, values, longerMs: ms });
    if (row?.locked === true) this.#locked.add(cell);
  }

  get mayWait(): boolean {
    return !this.#isNewer;
  }

  async release(cell: number): Promise<void> {
    if (!this.#locked.delete(cell)) return;
    await this.#writer.ask({ kind: 'term', text: UNLOCK, values: [LOCK_SPACE, cell] });
  }

  /** An older program stays a standby of a newer one, and takes nothing over. */
  async #leaveToNewer(cell: number, version: number): Promise<Taken> {
    const held = await this.#ownerOf(cell);
    if (held === undefined) throw newer(this.#where, version);
    return { ...heldBy(held), heldBy: `${heldBy(held).heldBy}, of a newer version` };
  }

  async #ownerOf(cell: number): Promise<Row | undefined> {
    const [row] = await this.#writer.ask<Row>({ kind: 'term', text: OWNER, values: [cell] });
    if (row !== undefined) this.#onSeen(cell, { term: row.term, batch: row.batch });
    return row;
  }

  /** What was seen before, if nothing has changed since; null otherwise. Who migrates is alive, though it commits no batch. */
  #unchanged(cell: number, { term, batch, isMigrating }: Row): Seen | null {
    const seen = this.#seen.get(cell);
    if (!isMigrating && seen?.term === term && seen.batch === batch) return seen;
    this.#seen.set(cell, { term, batch, since: performance.now() });
    return null;
  }

  async #lock(cell: number): Promise<boolean> {
    if (this.#locked.has(cell)) return true;
    const [row] = await this.#writer.ask<{ locked: boolean }>({ kind: 'term', text: TRY_LOCK, values: [LOCK_SPACE, cell] });
    if (row?.locked === true) this.#locked.add(cell);
    return this.#locked.has(cell);
  }

  /**
   * The former owner's session goes; another standby that waits for the lock may get it first, and goes as well. Returns that one
   * if it took the cell before.
   */
  async #lockAfterEnding(cell: number, term: bigint): Promise<Taken | null> {
    for (let i = 0; i < ENDINGS; i++) {
      await this.#writer.ask({ kind: 'term', text: END_LOCK_HOLDERS, values: [LOCK_SPACE, cell, String(term)] });
      await this.waitFor(cell, LOCK_MS);
      if (this.#locked.has(cell)) return null;
      const held = await this.#ownerOf(cell);
      if (held !== undefined && BigInt(held.term) !== term) return heldBy(held);
    }
    throw this.#stuck(cell, 'the connection of its former owner cannot be ended');
  }

  async #next(claim: Claim, seen: Seen | null): Promise<Taken> {
    await migrate(this.#writer, this.#where);
    const { cell, owner, address, known } = claim;
    const values = [cell, owner, address, seen?.term ?? null, seen?.batch ?? null, known?.term ?? 0, known?.batch ?? 0, LOCK_MS];
    const row = await this.#untilUnlocked(
      cell,
      async () => (await this.#writer.ask<TakeRow>({ kind: 'term', text: TAKE, values, longerMs: LOCK_MS }))[0],
    );
    if (row === undefined || row.outcome === 'missing') throw missing(cell);
    if (row.outcome === 'behind') throw this.#behind(claim, row);
    if (row.outcome !== 'taken') return { heldBy: 'another scheduler' };
    await this.#writer.ask({ kind: 'term', text: COUNT_USAGE, values: [cell, String(row.term)], longerMs: LONGER_MS });
    const cause = row.former === null ? 'first' : row.former === owner ? 'itself' : seen === null ? 'lock' : 'unchanged';
    return { term: BigInt(row.term), batch: row.batch, wall: row.wall, cause };
  }

  /** Again while the row is locked, after the connections that may hold it were ended. */
  async #untilUnlocked<T>(cell: number, take: () => Promise<T>): Promise<T> {
    for (let i = 0; i < ENDINGS; i++) {
      try {
        return await take();
      } catch (error) {
        if (sqlState(error) !== LOCK_NOT_AVAILABLE) throw error;
      }
      await this.#writer.ask({ kind: 'term', text: END_ROW_HOLDERS, values: [`capstan cell ${cell} %`] });
    }
    throw this.#stuck(cell, 'its row stays locked by a connection that cannot be ended');
  }

  #stuck(cell: number, reason: string): CapstanError {
    return new CapstanError('UNAVAILABLE', `store ${this.#where}: cell ${cell} cannot be taken: ${reason}`);
  }

  #behind({ cell, known }: Claim, { term, batch }: TakeRow): CapstanError {
    return new CapstanError(
      'DATA_LOST',
      `store ${this.#where}: cell ${cell} is at term ${term}, batch ${batch}, but term ${known?.term ?? 0}, batch ${known?.batch ?? 0} was acknowledged:` +
        ' the database was restored, or failed over to a replica that was behind; acknowledged jobs are missing',
    );
  }
}

function heldBy({ owner, address }: Row): { readonly heldBy: string; readonly address?: string } {
  return address === ''
    ? { heldBy: owner === null ? 'a scheduler that is starting' : `another scheduler (${owner})` }
    : { heldBy: address, address };
}

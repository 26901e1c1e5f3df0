/**
 * PostgreSQL as the target of a copy. A trigger refuses every scheduler that would own the cell until the copy is whole;
 * it stays when the copy is interrupted.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { UNFINISHED_COPY } from '../postgres/failures.ts';
import { CELL, createSchema, PostgresSession } from './postgres-session.ts';
import { otherCopy, ownerMark, type CopyPosition, type CopyState, type CopyTarget, type Head } from './sides.ts';
import { COPY_TABLES, isView, ofCell, type Cell, type CopyTable, type Row } from './tables.ts';

const BEGIN = `CREATE TABLE capstan.store_copy (one int PRIMARY KEY CHECK (one = 1), fingerprint text NOT NULL, position text);
CREATE FUNCTION capstan.store_copy() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN
  RAISE EXCEPTION 'the queue is an unfinished copy; finish it with: capstan store copy' USING ERRCODE = '${UNFINISHED_COPY}';
END $trigger$;
CREATE TRIGGER store_copy BEFORE INSERT OR UPDATE ON capstan.cells FOR EACH ROW WHEN (NEW.cell = ${CELL}) EXECUTE FUNCTION capstan.store_copy();`;
const END = 'DROP TRIGGER store_copy ON capstan.cells; DROP FUNCTION capstan.store_copy(); DROP TABLE capstan.store_copy;';
/** The highest term and numbers of both: neither database gives out one that the other gave out before. */
const OWN = `INSERT INTO capstan.cells AS c (cell, name, owner, address, term, batch, wall, highest_seq, highest_queue_position)
VALUES ($1, 'default', $2, '', $3, 0, 0, $4, $5)
ON CONFLICT (cell) DO UPDATE SET owner = excluded.owner, address = '', term = greatest(c.term, excluded.term),
  highest_seq = greatest(c.highest_seq, excluded.highest_seq),
  highest_queue_position = greatest(c.highest_queue_position, excluded.highest_queue_position)`;
/** Ids of accounts are of one cell. The operator's has no row. */
const ACCOUNTS = `SELECT key AS id FROM capstan.control WHERE cell = $1 AND kind = 'account'
UNION SELECT value->>'account' FROM capstan.control WHERE cell = $1 AND kind = 'key'`;
const CLAIM = `INSERT INTO capstan.accounts (id, cell) SELECT id, $1::int FROM (${ACCOUNTS}) own WHERE id IS NOT NULL ON CONFLICT DO NOTHING`;
const CLAIMED = `SELECT id FROM capstan.accounts WHERE cell <> $1 AND id IN (${ACCOUNTS}) ORDER BY id LIMIT 1`;

export class PostgresTarget implements CopyTarget {
  readonly shown: string;
  readonly #session: PostgresSession;
  #fingerprint = '';
  #isWhole = false;

  private constructor(session: PostgresSession) {
    this.#session = session;
    this.shown = session.address.shown;
  }

  static async open(url: string): Promise<PostgresTarget> {
    const session = await PostgresSession.open(url, '--to');
    try {
      if ((await session.schemaVersion()) === 0) await createSchema(url, '--to');
      await session.mustBePresent();
    } catch (error) {
      await session.close();
      throw error;
    }
    return new PostgresTarget(session);
  }

  async open(fingerprint: string, startOver: boolean): Promise<CopyState> {
    this.#fingerprint = fingerprint;
    const session = this.#session;
    if (await session.isUnfinished()) {
      if (startOver) await this.#discard();
      const [held] = await session.query<{ fingerprint: string; position: string | null }>(
        'SELECT fingerprint, position FROM capstan.store_copy',
      );
      if (held !== undefined && held.fingerprint !== fingerprint) throw otherCopy(this.shown);
      const position = held?.position ?? null;
      if (held !== undefined)
        return position === null ? { kind: 'empty' } : { kind: 'unfinished', position: JSON.parse(position) as CopyPosition };
    } else {
      const [cell] = await session.query<{ owner: string | null }>('SELECT owner FROM capstan.cells WHERE cell = $1', [CELL]);
      if (cell?.owner === ownerMark(fingerprint)) {
        this.#isWhole = true;
        return { kind: 'whole' };
      }
      await this.#mustBeEmpty();
      await session.transaction(async () => {
        await session.query(BEGIN);
      });
    }
    await session.query('INSERT INTO capstan.store_copy (one, fingerprint) VALUES (1, $1)', [fingerprint]);
    return { kind: 'empty' };
  }

  async #mustBeEmpty(): Promise<void> {
    for (const table of COPY_TABLES) {
      const { name } = table;
      const [row] = await this.#session.query<{ held: boolean }>(
        `SELECT EXISTS (SELECT FROM capstan.${table.postgres} WHERE ${ofCell(table)}) AS held`,
        [CELL],
      );
      if (row?.held !== true) continue;
      throw new CapstanError(
        'ALREADY_EXISTS',
        `--to: ${this.shown} contains another queue (rows in capstan.${name}); use an empty database`,
        {
          field: '--to',
        },
      );
    }
  }

  /** Nothing but the rows of the unfinished copy is in the cell: it was empty before. */
  async #discard(): Promise<void> {
    await this.#session.transaction(async () => {
      // What belongs to endpoints goes before them.
      for (const table of COPY_TABLES.toReversed().filter((each) => !isView(each)))
        await this.#session.query(`DELETE FROM capstan.${table.name} WHERE ${ofCell(table)}`, [CELL]);
      await this.#session.query('DELETE FROM capstan.bodies WHERE cell = $1', [CELL]);
      await this.#session.query('DELETE FROM capstan.body_usage WHERE cell = $1', [CELL]);
      await this.#session.query('DELETE FROM capstan.store_copy');
    });
  }

  async write(table: CopyTable, rows: readonly Row[], position: CopyPosition): Promise<void> {
    const own = table.columns.map(({ name }) => name);
    const names = [...(table.isOfEndpoints ? [] : ['cell']), ...own, ...(table.name === 'control' ? ['account'] : [])];
    await this.#session.transaction(async () => {
      if (table.isCounted && rows.length === 0) {
        await this.#session.query(`DELETE FROM capstan.${table.name} WHERE cell = $1`, [CELL]);
        await this.#session.query('DELETE FROM capstan.body_usage WHERE cell = $1', [CELL]);
      }
      if (rows.length > 0 && !isView(table))
        await this.#session.copyIn(
          `COPY capstan.${table.name} (${names.join(', ')}) FROM STDIN`,
          Buffer.from(rows.map((row) => lineOf(table, row)).join('')),
        );
      if (table.name === 'control') await this.#mustBeFree();
      await this.#session.query('UPDATE capstan.store_copy SET position = $1', [JSON.stringify(position)]);
    });
  }

  async #mustBeFree(): Promise<void> {
    const [claimed] = await this.#session.query<{ id: string }>(CLAIMED, [CELL]);
    if (claimed === undefined) return;
    throw new CapstanError('ALREADY_EXISTS', `--to: ${this.shown}: the account ${claimed.id} belongs to another cell there`, {
      field: '--to',
    });
  }

  async *read(table: CopyTable): AsyncGenerator<readonly Row[]> {
    await this.#session.query('BEGIN READ ONLY');
    try {
      yield* this.#session.read(table, null);
    } finally {
      await this.#session.query('COMMIT');
    }
  }

  async finish({ term, seq, queuePosition }: Head): Promise<void> {
    if (this.#isWhole) return;
    await this.#session.transaction(async () => {
      await this.#session.query(END);
      await this.#session.query(OWN, [CELL, ownerMark(this.#fingerprint), Math.max(term, 1), seq, queuePosition]);
      await this.#session.query(CLAIM, [CELL]);
    });
  }

  async close(): Promise<void> {
    await this.#session.close();
  }
}

/** A row in COPY's text format. */
function lineOf({ name, columns, isOfEndpoints }: CopyTable, row: Row): string {
  const values: Cell[] = [...(isOfEndpoints ? [] : [CELL]), ...row.slice(0, columns.length)];
  if (name === 'control') values.push(accountOf(row));
  return `${values.map(fieldOf).join('\t')}\n`;
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

function fieldOf(value: Cell): string {
  if (value === null) return '\\N';
  if (typeof value === 'string') return value.replaceAll(/[\\\t\n\r]/g, (sign) => ESCAPES[sign] ?? sign);
  if (typeof value === 'boolean') return value ? 't' : 'f';
  return typeof value === 'number'
    ? String(value)
    : `\\\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}`;
}

/** The account of an endpoint, which its jobs' bodies count for. */
function accountOf([kind, , , value]: Row): string | null {
  if (kind !== 'endpoint' || typeof value !== 'string') return null;
  const { account } = JSON.parse(value) as { readonly account?: unknown };
  return typeof account === 'string' ? account : null;
}

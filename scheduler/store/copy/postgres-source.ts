import { CapstanError } from '../../../lib/errors.ts';
import { CELL, PostgresSession } from './postgres-session.ts';
import { unfinishedSource, type CopySource, type Head } from './sides.ts';
import { ofCell, type CopyTable, type Row } from './tables.ts';

interface CellRow extends Head {
  readonly batch: number;
}

const HEAD = 'SELECT term, batch, highest_seq AS seq, highest_queue_position AS "queuePosition" FROM capstan.cells WHERE cell = $1';

/** PostgreSQL as the source of a copy: read in one transaction, from a cell that no scheduler owns. */
export class PostgresSource implements CopySource {
  readonly shown: string;
  readonly #session: PostgresSession;
  #version = '';

  private constructor(session: PostgresSession) {
    this.#session = session;
    this.shown = session.address.shown;
  }

  static async open(url: string): Promise<PostgresSource> {
    const session = await PostgresSession.open(url, '--from');
    const source = new PostgresSource(session);
    try {
      await session.mustBePresent();
      if (await session.isUnfinished()) throw unfinishedSource(source.shown);
      await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
      source.#version = await source.version();
    } catch (error) {
      await session.close();
      throw error;
    }
    return source;
  }

  async head(): Promise<Head> {
    const { term, seq, queuePosition } = await this.#cell();
    return { term, seq, queuePosition };
  }

  async version(): Promise<string> {
    const { term, batch } = await this.#cell();
    return `${term} ${batch}`;
  }

  async count(table: CopyTable): Promise<number> {
    const [row] = await this.#session.query<{ count: number }>(
      `SELECT count(*) AS count FROM capstan.${table.postgres} WHERE ${ofCell(table)}`,
      [CELL],
    );
    return row?.count ?? 0;
  }

  read(table: CopyTable, after: readonly (number | string)[] | null): AsyncIterable<readonly Row[]> {
    return this.#session.read(table, after);
  }

  /** A scheduler that starts meanwhile ends this connection after a few seconds; one that ended before that shows here. */
  async mustBeUnchanged(): Promise<void> {
    await this.#session.query('COMMIT');
    if ((await this.version()) === this.#version) return;
    throw new CapstanError('CONFLICT', `--from: ${this.shown}: a scheduler took the queue over during the copy; stop all, and copy again`, {
      field: '--from',
    });
  }

  async close(): Promise<void> {
    await this.#session.close();
  }

  async #cell(): Promise<CellRow> {
    const [row] = await this.#session.query<CellRow>(HEAD, [CELL]);
    return row ?? { term: 0, batch: 0, seq: 0, queuePosition: 0 };
  }
}

/** SQLite as a side of a copy. The file stays locked for this process, so no scheduler can open it meanwhile. */
import { existsSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';

import Database from 'better-sqlite3';

import { renameDurably } from '../../../lib/durable.ts';
import { CapstanError } from '../../../lib/errors.ts';
import { textWithoutNul } from '../postgres/sql/binary.ts';
import { storeFailure } from '../sqlite/file/failures.ts';
import { openDatabase } from '../sqlite/open.ts';
import { removalStatements } from '../sqlite/sql/removal.ts';
import { markPath } from '../sqlite/wal/mark.ts';
import {
  otherCopy,
  ownerMark,
  unfinishedSource,
  type CopyPosition,
  type CopySource,
  type CopyState,
  type CopyTarget,
  type Head,
} from './sides.ts';
import { storableJson } from '../../core/stored-json.ts';
import { BATCH_BYTES, BATCH_ROWS, bytesOf, COPY_TABLES, type Cell, type CopyTable, type Row } from './tables.ts';

const CELL = 0;

export function openSqliteSource(file: string): CopySource {
  if (!existsSync(file)) throw new CapstanError('NOT_FOUND', `--from: the database ${file} does not exist`, { field: '--from' });
  mustBeOwn(file, '--from');
  return new SqliteSource(file);
}

/** What root leaves in the folder of another user, that user's scheduler cannot open: above all the log of a copy that was killed. */
function mustBeOwn(path: string, option: string): void {
  const { uid } = statSync(path);
  if (process.getuid?.() !== 0 || uid === 0) return;
  throw new CapstanError('DATA_DIR', `${option}: ${path} belongs to the user ${uid}; run the command as that user (sudo -u '#${uid}')`, {
    field: option,
  });
}

class SqliteSource implements CopySource {
  readonly shown: string;
  readonly #db: Database.Database;
  /** A file that others use is refused here. */
  constructor(file: string) {
    this.shown = `sqlite:${file}`;
    this.#db = openDatabase(file, { mustExist: true });
    if (!hasTable(this.#db, 'store_copy')) return;
    this.#db.close();
    throw unfinishedSource(this.shown);
  }

  async head(): Promise<Head> {
    const term = this.#db.prepare<[number], number>('SELECT term FROM shards WHERE shard = ?').pluck().get(CELL) ?? 0;
    return { term, ...removalStatements(this.#db).highest() };
  }

  /** Each start of a scheduler is a new term. */
  async version(): Promise<string> {
    return String((await this.head()).term);
  }

  async count({ name }: CopyTable): Promise<number> {
    return this.#db.prepare<[], number>(`SELECT count(*) FROM ${name}`).pluck().get() ?? 0;
  }

  read(table: CopyTable, after: readonly (number | string)[] | null): AsyncIterable<readonly Row[]> {
    return batches(this.#db, this.shown, table, { after, map: isDocuments(table) ? storable : withoutNul });
  }

  async mustBeUnchanged(): Promise<void> {
    // The lock on the file keeps it as it is.
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}

/** PostgreSQL's texts hold no NUL; the driver replaces it in the same way. */
function withoutNul(value: Cell): Cell {
  return typeof value === 'string' ? textWithoutNul(value) : value;
}

/** Tables whose values PostgreSQL stores as documents: rows of earlier versions may have escapes in them that it refuses. */
function isDocuments({ name }: CopyTable): boolean {
  return name === 'control' || name === 'audit';
}

function storable(value: Cell): Cell {
  return typeof value === 'string' ? storableJson(textWithoutNul(value)) : value;
}

interface Reading {
  readonly after: readonly (number | string)[] | null;
  readonly map: (value: Cell) => Cell;
}

async function* batches(db: Database.Database, where: string, table: CopyTable, { after, map }: Reading): AsyncGenerator<readonly Row[]> {
  const { columns, order } = table;
  const key = order.sqlite.join(', ');
  const names = [...columns.map(({ name }) => name), ...order.sqlite].join(', ');
  const from = after === null ? '' : ` WHERE (${key}) > (${order.sqlite.map(() => '?').join(', ')})`;
  let rows: Row[] = [];
  let bytes = 0;
  try {
    for (const values of db
      .prepare<unknown[], Cell[]>(`SELECT ${names} FROM ${table.name}${from} ORDER BY ${key}`)
      .raw()
      .iterate(...(after ?? []))) {
      const row = values.map((value, i) => (columns[i]?.kind === 'boolean' ? value === 1 : map(value)));
      rows.push(row);
      bytes += bytesOf(row);
      if (bytes < BATCH_BYTES && rows.length < BATCH_ROWS) continue;
      yield rows;
      [rows, bytes] = [[], 0];
    }
  } catch (error) {
    throw storeFailure(where, `reading ${table.name} failed`, error);
  }
  if (rows.length > 0) yield rows;
}

/** The copy is written beside the file's place, and moved there when it is whole. */
export class SqliteTarget implements CopyTarget {
  readonly shown: string;
  readonly #file: string;
  readonly #part: string;
  #db: Database.Database | null = null;
  #fingerprint = '';

  constructor(file: string) {
    this.shown = `sqlite:${file}`;
    this.#file = file;
    this.#part = `${file}.copying`;
  }

  async open(fingerprint: string, startOver: boolean): Promise<CopyState> {
    this.#fingerprint = fingerprint;
    mustBeOwn(nearest(this.#file), '--to');
    if (existsSync(this.#file)) return this.#present(fingerprint);
    // A log without its database would be applied to the one that takes its place.
    for (const log of [`${this.#file}-wal`, `${this.#file}-journal`])
      if (existsSync(log))
        throw new CapstanError('ALREADY_EXISTS', `--to: ${log} is left over from a deleted database; move it away`, { field: '--to' });
    if (startOver) await this.#discard();
    const isNew = !existsSync(this.#part);
    const db = openDatabase(this.#part);
    this.#db = db;
    if (ownerOf(db) === ownerMark(fingerprint)) return { kind: 'whole' };
    db.exec(
      'CREATE TABLE IF NOT EXISTS store_copy (one INTEGER PRIMARY KEY CHECK (one = 1), fingerprint TEXT NOT NULL, position TEXT) STRICT',
    );
    const held = db.prepare<[], { fingerprint: string; position: string | null }>('SELECT fingerprint, position FROM store_copy').get();
    if (held === undefined) {
      if (!isNew && !isEmpty(db)) throw otherCopy(this.shown);
      db.prepare('INSERT INTO store_copy (one, fingerprint) VALUES (1, ?)').run(fingerprint);
      return { kind: 'empty' };
    }
    if (held.fingerprint !== fingerprint) throw otherCopy(this.shown);
    return held.position === null ? { kind: 'empty' } : { kind: 'unfinished', position: JSON.parse(held.position) as CopyPosition };
  }

  /** A file in the place of the target: a whole copy, or somebody's queue. */
  #present(fingerprint: string): CopyState {
    if (this.#presentOwner() === ownerMark(fingerprint)) {
      this.#db = openDatabase(this.#file);
      return { kind: 'whole' };
    }
    throw new CapstanError('ALREADY_EXISTS', `--to: ${this.#file} already exists; move it away, or choose another place`, {
      field: '--to',
    });
  }

  #presentOwner(): string | undefined {
    const db = new Database(this.#file, { fileMustExist: true });
    try {
      return ownerOf(db);
    } catch (error) {
      throw storeFailure(this.shown, 'cannot open', error);
    } finally {
      db.close();
    }
  }

  async write(table: CopyTable, rows: readonly Row[], position: CopyPosition): Promise<void> {
    const db = this.#open();
    const names = table.columns.map(({ name }) => name);
    const insert = db.prepare(`INSERT INTO ${table.name} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`);
    const apply = db.transaction(() => {
      if (table.isCounted && rows.length === 0) db.exec(`DELETE FROM ${table.name}; DELETE FROM body_usage`);
      for (const row of rows)
        insert.run(...row.slice(0, names.length).map((value) => (typeof value === 'boolean' ? Number(value) : value)));
      db.prepare('UPDATE store_copy SET position = ?').run(JSON.stringify(position));
    });
    try {
      apply.immediate();
    } catch (error) {
      throw storeFailure(this.shown, `writing ${table.name} failed`, error);
    }
  }

  read(table: CopyTable): AsyncIterable<readonly Row[]> {
    return batches(this.#open(), this.shown, table, { after: null, map: (value) => value });
  }

  async finish({ term, seq, queuePosition }: Head): Promise<void> {
    const db = this.#open();
    if (ownerOf(db) !== ownerMark(this.#fingerprint)) {
      const apply = db.transaction(() => {
        db.prepare('INSERT OR REPLACE INTO shards (shard, owner, term, until) VALUES (?, ?, ?, 0)').run(
          CELL,
          ownerMark(this.#fingerprint),
          Math.max(term, 1),
        );
        const mark = db.prepare('UPDATE marks SET value = max(value, ?) WHERE name = ?');
        mark.run(seq, 'seq');
        mark.run(queuePosition, 'queue_position');
        db.exec('DROP TABLE store_copy');
      });
      apply.immediate();
    }
    await this.close();
    if (!existsSync(this.#part)) return;
    // It would speak of the database that was here before.
    await rm(markPath(this.#file), { force: true });
    await renameDurably(this.#part, this.#file);
  }

  /** Closing brings the log into the file and removes it. */
  async close(): Promise<void> {
    this.#db?.close();
    this.#db = null;
  }

  async #discard(): Promise<void> {
    for (const end of ['', '-wal', '-journal', '-shm', '-mark']) await rm(`${this.#part}${end}`, { force: true });
  }

  #open(): Database.Database {
    if (this.#db === null) throw new Error('the target is not open');
    return this.#db;
  }
}

function ownerOf(db: Database.Database): string | undefined {
  return hasTable(db, 'shards') ? db.prepare<[number], string>('SELECT owner FROM shards WHERE shard = ?').pluck().get(CELL) : undefined;
}

function hasTable(db: Database.Database, name: string): boolean {
  return db.prepare<[string], number>("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?").pluck().get(name) === 1;
}

/** The path, or the first folder above it that exists. */
function nearest(path: string): string {
  return existsSync(path) ? path : nearest(dirname(path));
}

function isEmpty(db: Database.Database): boolean {
  return COPY_TABLES.every(({ name }) => db.prepare<[], number>(`SELECT EXISTS (SELECT 1 FROM ${name})`).pluck().get() === 0);
}

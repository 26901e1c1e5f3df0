import { chmodSync, existsSync } from 'node:fs';
import { dirname } from 'node:path';

import type Database from 'better-sqlite3';

import { makeFolderSync } from '../../../lib/durable.ts';
import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { openFailure } from './file/failures.ts';
import { lockDatabase, OwnedDatabase } from './file/owned-database.ts';
import { migrations as known } from './migrations/all.ts';
import type { Migration } from './migrations/migration.ts';
import { removalStatements } from './sql/removal.ts';
import { findLogLoss } from './wal/loss.ts';
import { readMark, type Mark } from './wal/mark.ts';

/** Marks a database file as Capstan's ('CAPS'), so that tables are not created in another program's file. */
const APPLICATION_ID = 0x43415053;

export interface OpenOptions {
  /** In order of their numbers. */
  readonly migrations?: readonly Migration[];
  /** The database must exist. */
  readonly mustExist?: boolean;
}

/**
 * Opens the database, migrates it and locks it for this process alone. `:memory:` creates an empty one in memory.
 *
 * Throws `DATA_DIR` if the file or its folder cannot be used, `DATA_LOST` if it or its log is damaged (or missing or empty, with
 * `mustExist`), `DATA_NEWER` if a newer version wrote it, `DISK_FULL`; each with one line that names the file.
 */
export function openDatabase(file: string, { migrations = known, mustExist = false }: OpenOptions = {}): Database.Database {
  // An empty service in place of the lost one would accept new jobs that conflict with those in a backup.
  if (mustExist && !existsSync(file)) throw lost(file, 'missing');
  if (file !== ':memory:') makeFolderOf(file);
  const lock = lockDatabase(file);
  let db: Database.Database;
  let mark: Mark | null;
  try {
    // SQLite reads the log up to its first wrong page and removes the rest: what is missing is to be found before.
    const loss = existsSync(file) ? findLogLoss(file) : null;
    if (loss !== null) throw missingBatches(file, loss.what);
    mark = readMark(file);
    db = new OwnedDatabase(file, lock);
  } catch (error) {
    lock.release();
    throw openFailure(file, error);
  }
  try {
    // The files that SQLite creates beside the file take its mode.
    if (file !== ':memory:') chmodSync(file, 0o600);
    prepareConnection(db);
    refuseForeign(db, file);
    if (mustExist && isEmpty(db)) throw lost(file, 'empty');
    migrate(db, file, migrations);
    if (mark !== null && removalStatements(db).highest().seq < mark.seq)
      throw missingBatches(file, `the database is older than its last use: job number ${mark.seq} was accepted`);
    return db;
  } catch (error) {
    db.close();
    throw openFailure(file, error);
  }
}

function isEmpty(db: Database.Database): boolean {
  return db.prepare<[], number>('SELECT count(*) FROM sqlite_schema').pluck().get() === 0;
}

function lost(file: string, how: string): CapstanError {
  return new CapstanError(
    'DATA_LOST',
    `store ${file}: cannot open: the database is ${how}, but its data folder has been used before; restore it from a backup`,
  );
}

function missingBatches(file: string, what: string): CapstanError {
  return new CapstanError(
    'DATA_LOST',
    `store ${file}: cannot open: ${what}; acknowledged jobs or results are missing: restore a backup, or run \`capstan store accept-loss\` to go on without them`,
  );
}

function makeFolderOf(file: string): void {
  try {
    makeFolderSync(dirname(file), 0o700);
  } catch (error) {
    const reason = messageOf(error);
    throw new CapstanError('DATA_DIR', `store ${file}: cannot open: creating its folder failed: ${reason}`, { cause: error });
  }
}

function prepareConnection(db: Database.Database): void {
  db.pragma('journal_mode = WAL');
  // Acknowledged means durable (invariant 1): the WAL is synced at each commit.
  db.pragma('synchronous = FULL');
  db.pragma('fullfsync = ON');
  // The engine checkpoints between commits (SqliteEngine.committed); this is only a fallback.
  db.pragma('wal_autocheckpoint = 100000');
  db.pragma('cache_size = -49152');
  db.pragma('temp_store = MEMORY');
  db.pragma('foreign_keys = OFF');
  db.pragma('trusted_schema = OFF');
}

function refuseForeign(db: Database.Database, file: string): void {
  const found = db.pragma('application_id', { simple: true });
  const hasOurs = db.prepare<[], number>("SELECT count(*) FROM sqlite_schema WHERE name = 'migrations'").pluck().get() === 1;
  const isOurs = found === APPLICATION_ID;
  // Fields of the file's header that this program never sets otherwise, and that SQLite believes.
  if (hasOurs && (!isOurs || db.pragma('encoding', { simple: true }) !== 'UTF-8'))
    throw new CapstanError('DATA_LOST', `store ${file}: cannot open: the file is damaged: its header has a wrong field`);
  if (isOurs || (found === 0 && isEmpty(db))) return;
  throw new CapstanError('DATA_DIR', `store ${file}: cannot open: the file is a database of another program`);
}

function migrate(db: Database.Database, file: string, migrations: readonly Migration[]): void {
  const apply = db.transaction((): boolean => {
    db.pragma(`application_id = ${APPLICATION_ID}`);
    db.exec('CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT');
    const done = db.prepare<[], number | null>('SELECT max(number) FROM migrations').pluck().get() ?? 0;
    const newest = migrations.at(-1)?.number ?? 0;
    if (done > newest) {
      throw new CapstanError(
        'DATA_NEWER',
        `store ${file}: cannot open: its layout has version ${done}, this program supports up to ${newest}`,
      );
    }
    const record = db.prepare<[number, string]>('INSERT INTO migrations (number, name) VALUES (?, ?)');
    for (const migration of migrations) {
      if (migration.number <= done) continue;
      db.exec(migration.sql);
      record.run(migration.number, migration.name);
    }
    return done < newest;
  });
  // Damage to the log must not cost the tables.
  if (apply.exclusive()) db.pragma('wal_checkpoint(PASSIVE)');
}

/** Goes on without the batches that are missing from a write-ahead log. */
import { constants, copyFileSync, rmSync, truncateSync } from 'node:fs';
import { dirname } from 'node:path';

import Database from 'better-sqlite3';

import { syncPathSync } from '../../../lib/durable.ts';
import { CapstanError } from '../../../lib/errors.ts';
import { storeFailure } from './file/failures.ts';
import { openDatabase } from './open.ts';
import { lockDatabase } from './file/owned-database.ts';
import { findLogLoss } from './wal/loss.ts';
import { logPath, markPath, readMark } from './wal/mark.ts';

export interface AcceptedLoss {
  /** What was missing. */
  readonly what: string;
  /** Copy of the damaged log; null where there is none. */
  readonly kept: string | null;
  /** What is wrong with the database without the missing batches; empty if nothing is. */
  readonly problems: readonly string[];
}

const MAX_PROBLEMS = 20;

/**
 * Keeps a copy of the damaged log, cuts the log off behind its last whole commit, and forgets what was durable. Whoever
 * is interrupted does it again. Returns null if nothing is missing.
 * @throws CapstanError DATA_DIR while another process uses the database, DATA_LOST if it cannot be opened without the
 * missing batches either.
 */
export function acceptLoss(database: string, stamp: string): AcceptedLoss | null {
  mustBeUnused(database);
  const loss = findLogLoss(database);
  if (loss === null && !isBehindMark(database)) return null;
  let kept: string | null = null;
  if (loss?.hasLog === true) {
    kept = `${logPath(database)}.damaged-${stamp}`;
    copyFileSync(logPath(database), kept, constants.COPYFILE_EXCL);
    syncPathSync(kept);
    truncateSync(logPath(database), loss.readableBytes);
    syncPathSync(logPath(database));
  }
  rmSync(markPath(database), { force: true });
  syncPathSync(dirname(database));
  return { what: loss?.what ?? 'the database is older than its last use', kept, problems: problemsOf(database) };
}

/**
 * No scheduler may have the file, also none of a version that locked the database itself: a reader gets no lock then.
 * Changes neither the file nor its log.
 */
function mustBeUnused(file: string): void {
  const lock = lockDatabase(file, 0);
  try {
    const db = new Database(file, { readonly: true, timeout: 0 });
    try {
      db.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get();
    } finally {
      db.close();
      rmSync(`${file}-shm`, { force: true });
    }
  } catch (error) {
    const failure = storeFailure(file, 'cannot open', error);
    if (failure.message.includes('SQLITE_BUSY')) throw failure;
  } finally {
    lock.release();
  }
}

function isBehindMark(database: string): boolean {
  if (readMark(database) === null) return false;
  try {
    openDatabase(database, { mustExist: true }).close();
    return false;
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'DATA_LOST') return true;
    throw error;
  }
}

function problemsOf(database: string): string[] {
  const db = openDatabase(database, { mustExist: true });
  try {
    const rows = db.pragma(`integrity_check(${MAX_PROBLEMS})`) as { readonly integrity_check: string }[];
    return rows.map((row) => row.integrity_check).filter((text) => text !== 'ok');
  } catch (error) {
    throw storeFailure(database, 'checking failed', error);
  } finally {
    db.close();
  }
}

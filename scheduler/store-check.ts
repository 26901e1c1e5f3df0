/** Examines the SQLite queue of a data folder whose scheduler is stopped: what `capstan doctor` and `capstan store accept-loss` load. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { CapstanError } from '../lib/errors.ts';
import { acceptLoss, type AcceptedLoss } from './store/sqlite/accept-loss.ts';
import { findLogLoss } from './store/sqlite/wal/loss.ts';

export type { AcceptedLoss };

/** Returns what is missing from the write-ahead log; null if nothing is, or if there is no database. Changes nothing. */
export function findStoreLoss(dataDir: string): string | null {
  const database = databaseOf(dataDir);
  return existsSync(database) ? (findLogLoss(database)?.what ?? null) : null;
}

/**
 * Goes on without the acknowledged batches that are missing. Returns null if nothing is missing.
 * @throws CapstanError NOT_FOUND without a database, DATA_DIR while a scheduler uses it, DATA_LOST if it is damaged, too.
 */
export function acceptStoreLoss(dataDir: string): AcceptedLoss | null {
  const database = databaseOf(dataDir);
  if (!existsSync(database))
    throw new CapstanError('NOT_FOUND', `--data-dir: the database ${database} does not exist`, { field: 'data-dir' });
  return acceptLoss(database, new Date().toISOString().replaceAll(/[:.]/g, '-'));
}

function databaseOf(dataDir: string): string {
  return join(dataDir, 'scheduler', 'capstan.db');
}

/** Copies the queue from SQLite to PostgreSQL or back, while no scheduler runs: what `capstan store copy` loads. */
import { CapstanError } from '../lib/errors.ts';
import { copyRows, type CopyOptions, type CopyReport } from './store/copy/copy.ts';
import { placeOf, type Place } from './store/copy/place.ts';
import { PostgresSource } from './store/copy/postgres-source.ts';
import { PostgresTarget } from './store/copy/postgres-target.ts';
import type { CopySource, CopyTarget } from './store/copy/sides.ts';
import { openSqliteSource, SqliteTarget } from './store/copy/sqlite.ts';

export type { CopyProgress, CopyReport } from './store/copy/copy.ts';

export interface StoreCopy extends CopyOptions {
  /** `sqlite:<database file or data folder>` or `postgres://user@host:port/database`. */
  readonly from: string;
  readonly to: string;
  /** Where relative paths begin. */
  readonly folder: string;
}

/**
 * @throws CapstanError INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, CONFLICT, CONFIG, UNAVAILABLE, or what the store throws
 * when it is opened. After any of them the copy is continued by the same call.
 */
export async function copyStore({ from, to, folder, startOver, onProgress }: StoreCopy): Promise<CopyReport> {
  const [source, target] = [placeOf(from, '--from', folder), placeOf(to, '--to', folder)];
  if (source.kind === target.kind)
    throw new CapstanError('INVALID_ARGUMENT', '--to: one store must be in SQLite and the other in PostgreSQL', { field: '--to' });
  const opened = await openSource(source);
  try {
    const into = await openTarget(target);
    try {
      return await copyRows(opened, into, { startOver, onProgress });
    } finally {
      await into.close();
    }
  } finally {
    await opened.close();
  }
}

async function openSource(place: Place): Promise<CopySource> {
  return place.kind === 'sqlite' ? openSqliteSource(place.file) : PostgresSource.open(place.url);
}

async function openTarget(place: Place): Promise<CopyTarget> {
  return place.kind === 'sqlite' ? new SqliteTarget(place.file) : PostgresTarget.open(place.url);
}

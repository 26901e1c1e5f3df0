/**
 * A database file that one process has for itself, and in it several connections: one that writes, and one that reads for
 * searches beside it. SQLite's exclusive locking mode would keep other processes away, but other connections, too. So an empty
 * file beside the database, `<database>-lock`, is locked instead; the kernel releases it when the process ends, in any way.
 */
import { chmodSync } from 'node:fs';

import Database from 'better-sqlite3';

import { CapstanError } from '../../../../lib/errors.ts';
import { openFailure } from './failures.ts';

/** Time to wait for a process that is ending to release the file, ms. */
export const BUSY_MS = 2_000;

export interface FileLock {
  release(): void;
}

const NO_LOCK: FileLock = { release: () => undefined };

/**
 * Locks a database for this process; a database in memory needs no lock. Nothing is written, so there is no journal.
 * @throws CapstanError DATA_DIR while another process has it, also after `waitMs`.
 */
export function lockDatabase(file: string, waitMs = BUSY_MS): FileLock {
  if (file === ':memory:') return NO_LOCK;
  const path = `${file}-lock`;
  let lock: Database.Database | null = null;
  try {
    lock = new Database(path, { timeout: waitMs });
    chmodSync(path, 0o600);
    lock.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    lock?.close();
    const failure = openFailure(file, error);
    if (failure.code !== 'DATA_LOST') throw failure;
    // The database itself is not damaged.
    throw new CapstanError('DATA_DIR', `store ${file}: cannot open: its lock file ${path} must be empty; remove it`, { cause: error });
  }
  const held = lock;
  return { release: () => void held.close() };
}

/** The connection that writes. The lock lasts as long as it does. */
export class OwnedDatabase extends Database {
  readonly #lock: FileLock;

  constructor(file: string, lock: FileLock) {
    super(file, { timeout: BUSY_MS });
    this.#lock = lock;
  }

  override close(): this {
    try {
      super.close();
    } finally {
      this.#lock.release();
    }
    return this;
  }
}

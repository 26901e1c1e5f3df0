/**
 * One process a data folder. SQLite locks its file; with the queue in PostgreSQL nothing else would keep two schedulers of
 * one host from writing the same keys and unfinished builds.
 */
import { join } from 'node:path';

import { makeFolder } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { acquireLock } from '../../lib/lock.mjs';

export interface FolderLock {
  release(): void;
}

/** @throws CapstanError DATA_DIR while another process has the folder. */
export async function lockDataFolder(path: string): Promise<FolderLock> {
  const folder = join(path, 'scheduler');
  await makeFolder(folder, 0o700);
  const lock = acquireLock(join(folder, 'lock'));
  if (!('heldBy' in lock)) return lock;
  throw new CapstanError(
    'DATA_DIR',
    `cannot use the data folder ${path}: the scheduler with process id ${lock.heldBy} is using it; give each scheduler a folder of its own (CAPSTAN_DATA_DIR) with a copy of secrets/`,
    { field: 'CAPSTAN_DATA_DIR' },
  );
}

import { accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';

import { CapstanError } from '../../../../lib/errors.ts';
import { errnoOf, isErrno, messageOf } from '../../../../lib/to-error.ts';

/** Returns the extended result code of an SQLite error (`SQLITE_FULL`, …), or null for any other error. */
function sqliteCode(error: unknown): string | null {
  if (!(error instanceof Error) || error.name !== 'SqliteError' || !('code' in error)) return null;
  return typeof error.code === 'string' ? error.code : null;
}

/** Describes a failure to open or use the database in one line. `what` is the operation. */
export function storeFailure(file: string, what: string, error: unknown): CapstanError {
  if (error instanceof CapstanError) return error;
  const code = sqliteCode(error);
  const text = messageOf(error);
  if (isErrno(error, 'ENOSPC', 'EDQUOT'))
    return new CapstanError('DISK_FULL', `store ${file}: ${what}: the disk is full (${error.code ?? 'ENOSPC'})`, { cause: error });
  if (code === null) {
    const isSystem = error instanceof Error && 'syscall' in error;
    return new CapstanError(isSystem ? 'DATA_DIR' : 'INTERNAL', `store ${file}: ${what}: ${text}`, { cause: error });
  }
  // The shared index of the log could not be extended: each of its pages is written once, so that space for it exists.
  if (code.startsWith('SQLITE_FULL') || code === 'SQLITE_IOERR_SHMSIZE')
    return new CapstanError('DISK_FULL', `store ${file}: ${what}: the disk is full (${code})`, { cause: error });
  const damage = damageOf(code, text);
  if (damage !== null) return new CapstanError('DATA_LOST', `store ${file}: ${what}: ${damage} (${code})`, { cause: error });
  const reason = plainReason(code);
  if (reason === null) return new CapstanError('INTERNAL', `store ${file}: ${what}: ${text} (${code})`, { cause: error });
  return new CapstanError('DATA_DIR', `store ${file}: ${what}: ${reason} (${code})`, { cause: error });
}

/** Describes a failure to open the database. better-sqlite3 reports some invalid paths as a TypeError. */
export function openFailure(file: string, error: unknown): CapstanError {
  if (error instanceof TypeError) return new CapstanError('DATA_DIR', `store ${file}: cannot open: ${error.message}`, { cause: error });
  if (sqliteCode(error) === 'SQLITE_READONLY' && isWritable(file))
    return new CapstanError('DATA_LOST', `store ${file}: cannot open: the file is damaged: its header says that it is read-only`, {
      cause: error,
    });
  return storeFailure(file, 'cannot open', error);
}

function isWritable(file: string): boolean {
  try {
    for (const path of [file, dirname(file)]) accessSync(path, constants.W_OK);
    return true;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}

/** Returns a description for failures of a file that only a backup can replace; null for all others. */
function damageOf(code: string, text: string): string | null {
  if (code === 'SQLITE_NOTADB') return 'the file is not a database';
  if (code.startsWith('SQLITE_CORRUPT')) return 'the file is damaged';
  // The program's own statements are right: the file says something else than it was told.
  return code === 'SQLITE_ERROR' && /^unsupported file format|^no such (?:table|column|index):/.test(text)
    ? `the file is damaged: ${text}`
    : null;
}

/** Returns a description for codes caused by the folder or the disk; null for bugs. */
function plainReason(code: string): string | null {
  if (code === 'SQLITE_BUSY' || code.startsWith('SQLITE_BUSY_') || code === 'SQLITE_LOCKED') return 'another process is using it';
  if (code.startsWith('SQLITE_CANTOPEN')) return 'the file cannot be opened';
  if (code.startsWith('SQLITE_READONLY')) return 'the file or its folder is not writable';
  if (code.startsWith('SQLITE_IOERR')) return 'reading or writing the disk failed';
  if (code === 'SQLITE_PERM' || code === 'SQLITE_AUTH') return 'access is denied';
  return null;
}

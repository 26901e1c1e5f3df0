import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';

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
  if (code === null) return new CapstanError('INTERNAL', `store ${file}: ${what}: ${text}`, { cause: error });
  if (code.startsWith('SQLITE_FULL'))
    return new CapstanError('DISK_FULL', `store ${file}: ${what}: the disk is full (${code})`, { cause: error });
  const damage = damageOf(code);
  if (damage !== null) return new CapstanError('DATA_LOST', `store ${file}: ${what}: ${damage} (${code})`, { cause: error });
  const reason = plainReason(code);
  if (reason === null) return new CapstanError('INTERNAL', `store ${file}: ${what}: ${text} (${code})`, { cause: error });
  return new CapstanError('DATA_DIR', `store ${file}: ${what}: ${reason} (${code})`, { cause: error });
}

/** Returns a description for codes of a file that only a backup can replace; null for all others. */
function damageOf(code: string): string | null {
  if (code === 'SQLITE_NOTADB') return 'the file is not a database';
  return code.startsWith('SQLITE_CORRUPT') ? 'the file is damaged' : null;
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

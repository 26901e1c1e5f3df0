/** Errors of PostgreSQL and of its connections as errors of the store. */
import { DatabaseError } from 'pg';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';

/** Classes and codes of SQLSTATE that say that the server cannot serve now and may serve later. */
const TRANSIENT = /^(?:08|57P0[1-3]|53(?:000|200|300|400)|55P03|40|25006|57014|25P0)/;

/** SQLSTATE of a cell that holds an unfinished copy of another store. */
export const UNFINISHED_COPY = 'CT002';

/** `what` says what was being done; `where` is the address of the database, without its password. */
export function storeFailure(where: string, what: string, error: unknown): CapstanError {
  if (error instanceof CapstanError) return error;
  const failure = (code: 'UNAVAILABLE' | 'DISK_FULL' | 'DATA_LOST' | 'CONFIG' | 'INTERNAL', reason: string): CapstanError =>
    new CapstanError(code, `store ${where}: ${what}: ${reason}`, { cause: error });
  if (!(error instanceof DatabaseError)) return failure('UNAVAILABLE', messageOf(error) || 'the connection ended');
  const code = error.code ?? '';
  const reason = `${error.message} (${code})`;
  if (code === '53100') return failure('DISK_FULL', `the database's disk is full (${code})`);
  if (code.startsWith('XX00')) return failure('DATA_LOST', reason);
  if (TRANSIENT.test(code)) return failure('UNAVAILABLE', reason);
  if (/^(?:28|3D000|42501|CT002)/.test(code)) return failure('CONFIG', reason);
  return failure('INTERNAL', reason);
}

/** The SQLSTATE of an error that the server reported, else ''. */
export function sqlState(error: unknown): string {
  return error instanceof DatabaseError ? (error.code ?? '') : '';
}

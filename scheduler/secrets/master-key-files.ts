/**
 * The files of a rotation. `master-key` holds the present key, and exactly while something may
 * still be encrypted with earlier ones, `master-key.old` holds those, one a line. A key is in one of
 * the two before anything is encrypted with it, and leaves them after the last such thing is gone.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { removeDurably, replaceDurably } from '../files/durable.ts';

const PRESENT = 'master-key';
const OLDER = 'master-key.old';

/** The earlier keys that are still needed; none where no rotation is under way. DATA_DIR when they cannot be read. */
export async function readOlderKeys(secrets: string): Promise<Buffer[]> {
  let text: string;
  try {
    text = await readFile(join(secrets, OLDER), 'utf8');
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return [];
    throw error;
  }
  const lines = text.split('\n').filter((line) => line !== '');
  if (lines.some((line) => !/^[0-9a-f]{64}$/.test(line)))
    throw new CapstanError('DATA_DIR', `cannot use the secrets in ${secrets}: each line of ${OLDER} must be 64 hex digits`);
  return lines.map((line) => Buffer.from(line, 'hex'));
}

/** Makes `next` the present key. Whenever it is cut off, all keys that may be needed are there. */
export async function replaceMasterKey(secrets: string, next: Buffer, older: readonly Buffer[]): Promise<void> {
  await replaceDurably(join(secrets, OLDER), keyLines(older));
  await replaceDurably(join(secrets, PRESENT), keyLines([next]));
}

/** Nothing is encrypted with the earlier keys any more. */
export async function forgetOlderKeys(secrets: string): Promise<void> {
  await removeDurably(join(secrets, OLDER));
}

/** Keys as they stand in a file. Secret. */
export function keyLines(keys: readonly Buffer[]): string {
  return keys.map((key) => `${key.toString('hex')}\n`).join('');
}

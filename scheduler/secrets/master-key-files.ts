/**
 * The files of a rotation. `master-key` holds the present key. `master-key.old` exists exactly while values may still
 * be encrypted with earlier keys, and holds those keys, one per line. A key is in one of the two files before any value
 * is encrypted with it, and is removed after the last such value is gone.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { removeDurably, replaceDurably } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';

const PRESENT = 'master-key';
const OLDER = 'master-key.old';

/** Reads the earlier keys that are still needed; none outside a rotation. DATA_DIR if they cannot be read. */
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

/** Makes `next` the present key. At every interruption all keys that may be needed are in the files. */
export async function replaceMasterKey(secrets: string, next: Buffer, older: readonly Buffer[]): Promise<void> {
  await replaceDurably(join(secrets, OLDER), keyLines(older));
  await replaceDurably(join(secrets, PRESENT), keyLines([next]));
}

/** Deletes the earlier keys: no value is encrypted with them any more. */
export async function forgetOlderKeys(secrets: string): Promise<void> {
  await removeDurably(join(secrets, OLDER));
}

/** Formats keys as the lines of a file. Secret. */
export function keyLines(keys: readonly Buffer[]): string {
  return keys.map((key) => `${key.toString('hex')}\n`).join('');
}

/** Small files that exist completely or not at all, even after a crash of the machine. */
import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readdir, rename, rm, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { isErrno } from '../../lib/to-error.ts';
import { syncPath } from '../../lib/sync-path.ts';

/** Prefix of files that are being written. */
const TEMPORARY = '.new-';

/**
 * Creates the file with mode 0600 unless it exists. Durable when it resolves. Returns true to exactly one of several
 * concurrent processes.
 */
export async function createDurably(path: string, text: string): Promise<boolean> {
  const temporary = await writeTemporary(dirname(path), text);
  const created = await linked(temporary, path);
  await syncPath(dirname(path));
  return created;
}

/** Writes a file with mode 0600, replacing an existing one. Durable when it resolves. */
export async function replaceDurably(path: string, text: string): Promise<void> {
  const temporary = await writeTemporary(dirname(path), text);
  try {
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncPath(dirname(path));
}

/** Removes a file if it exists. Durable when it resolves. */
export async function removeDurably(path: string): Promise<void> {
  await rm(path, { force: true });
  await syncPath(dirname(path));
}

/** Removes the files that killed writers left in a folder. Must be called by the folder's only writer. */
export async function sweepTemporary(folder: string): Promise<void> {
  for (const name of await readdir(folder)) if (name.startsWith(TEMPORARY)) await rm(join(folder, name), { force: true });
}

/** Writes the text to a new file with a random name in this folder, durably, and returns its path. */
async function writeTemporary(folder: string, text: string): Promise<string> {
  const temporary = join(folder, `${TEMPORARY}${randomBytes(8).toString('hex')}`);
  const file = await open(temporary, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } catch (error) {
    await file.close();
    await unlink(temporary);
    throw error;
  }
  await file.close();
  return temporary;
}

/** Returns false if the name is taken. Removes the temporary name in either case. */
async function linked(temporary: string, path: string): Promise<boolean> {
  try {
    await link(temporary, path);
    return true;
  } catch (error) {
    if (isErrno(error, 'EEXIST')) return false;
    throw error;
  } finally {
    await unlink(temporary);
  }
}

/**
 * Creates a folder and its missing parents. Does not use `recursive`, which never returns on a file system that refuses
 * new folders by reporting a missing parent (as /proc does).
 */
export async function makeFolder(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    if (isErrno(error, 'EEXIST')) return;
    if (!isErrno(error, 'ENOENT') || dirname(path) === path) throw error;
    await makeFolder(dirname(path), mode);
    await mkdir(path, { mode });
  }
}

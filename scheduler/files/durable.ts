/** Small files that are there whole or not at all, whenever the machine stops. */
import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readdir, rename, rm, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { isErrno } from '../../lib/to-error.ts';
import { syncPath } from '../../lib/sync-path.ts';

/** How the names of files begin that are being written. */
const TEMPORARY = '.new-';

/**
 * Creates the file with mode 0600 unless it is there. Durable when it resolves; of several
 * processes that try at once exactly one is answered true.
 */
export async function createDurably(path: string, text: string): Promise<boolean> {
  const temporary = await writeTemporary(dirname(path), text);
  const created = await linked(temporary, path);
  await syncPath(dirname(path));
  return created;
}

/** Writes a file with mode 0600 in the place of the one that is there, if any. Durable when it resolves. */
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

/** Removes a file, if it is there. Durable when it resolves. */
export async function removeDurably(path: string): Promise<void> {
  await rm(path, { force: true });
  await syncPath(dirname(path));
}

/** Removes what writers that were killed left in a folder. To be called by its only writer. */
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

/** False when the name is taken; the temporary name is gone in either case. */
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
 * Makes a folder and those above it that are missing. Not by `recursive`: that never returns where
 * a file system refuses new folders by saying the parent is missing (as /proc does).
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

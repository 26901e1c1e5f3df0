/**
 * Files, names and folders that survive a power failure. Bytes survive once the file is synced; a name survives once the
 * folder that holds it is synced, whatever was synced before. Every rename of our sources goes through this file
 * (.oxlintrc.json): a rename is either durable, or says that it need not be ({@link moveUnsynced}).
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { link, mkdir, open, readdir, rename, rm, stat, unlink, type FileHandle } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { isErrno } from './to-error.ts';

/** Prefix of files that are being written. */
const TEMPORARY = '.new-';

/** Syncs one file, or the names in one folder, to disk. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Does what {@link syncPath} does. */
export function syncPathSync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Syncs a folder and its contents to disk. Rejects when aborted. */
export async function syncTree(folder: string, aborted: AbortSignal): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    aborted.throwIfAborted();
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(path, aborted);
    else if (entry.isFile()) await syncPath(path);
  }
  await syncPath(folder);
}

/**
 * Creates a file with mode 0600, passes it to `write`, and syncs its bytes. Its name is not durable yet. The file stays
 * when `write` fails. Fails with EEXIST if the path exists.
 */
export async function createSynced<T>(path: string, write: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, 'wx', 0o600);
  try {
    const result = await write(file);
    await file.sync();
    return result;
  } finally {
    await file.close();
  }
}

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
    await renameDurably(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Does what {@link replaceDurably} does. */
export function replaceDurablySync(path: string, content: string | Uint8Array): void {
  const temporary = temporaryIn(dirname(path));
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: 'wx', flush: true });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncPathSync(dirname(path));
}

/**
 * Renames a file or folder whose contents are synced. Durable when it resolves. After a power failure the old name may
 * exist, too, where it is in another folder.
 */
export async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncPath(dirname(to));
}

/**
 * Renames what a power failure may undo: caches that are made again, drafts, files that are being removed, and logs.
 * Whoever calls it can do without the file.
 */
export async function moveUnsynced(from: string, to: string): Promise<void> {
  await rename(from, to);
}

/** Does what {@link moveUnsynced} does. */
export function moveUnsyncedSync(from: string, to: string): void {
  renameSync(from, to);
}

/** Removes a file if it exists. Durable when it resolves. */
export async function removeDurably(path: string): Promise<void> {
  await rm(path, { force: true });
  await syncPath(dirname(path));
}

/** Whether the name is of a file that a killed writer left, or that is being written. */
export function isTemporary(name: string): boolean {
  return name.startsWith(TEMPORARY);
}

/** Removes the files that killed writers left in a folder. Must be called by the folder's only writer. */
export async function sweepTemporary(folder: string): Promise<void> {
  for (const name of await readdir(folder)) if (isTemporary(name)) await rm(join(folder, name), { force: true });
}

/**
 * Creates a folder and its missing parents. Fails with EEXIST where a file has the path. The names of all folders that it creates, and the folder's own name if it
 * exists, are durable when it resolves: a process that was killed may have created it a moment ago. Does not use
 * `recursive`, which never returns on a file system that refuses new folders by reporting a missing parent (as /proc
 * does).
 */
export async function makeFolder(path: string, mode: number): Promise<void> {
  const folder = resolve(path);
  const parent = dirname(folder);
  try {
    await mkdir(folder, { mode });
  } catch (error) {
    if (isErrno(error, 'EEXIST') && (await stat(folder)).isDirectory()) return syncIfReadable(parent);
    if (!isErrno(error, 'ENOENT') || parent === folder) throw error;
    await makeFolder(parent, mode);
    await mkdir(folder, { mode });
  }
  await syncPath(parent);
}

/** Does what {@link makeFolder} does. */
export function makeFolderSync(path: string, mode: number): void {
  const folder = resolve(path);
  const parent = dirname(folder);
  try {
    mkdirSync(folder, { mode });
  } catch (error) {
    if (isErrno(error, 'EEXIST') && statSync(folder).isDirectory()) return syncIfReadableSync(parent);
    if (!isErrno(error, 'ENOENT') || parent === folder) throw error;
    makeFolderSync(parent, mode);
    mkdirSync(folder, { mode });
  }
  syncPathSync(parent);
}

/** Whoever may not read a folder did not create the ones in it. */
async function syncIfReadable(folder: string): Promise<void> {
  try {
    await syncPath(folder);
  } catch (error) {
    if (!isErrno(error, 'EACCES', 'EPERM')) throw error;
  }
}

function syncIfReadableSync(folder: string): void {
  try {
    syncPathSync(folder);
  } catch (error) {
    if (!isErrno(error, 'EACCES', 'EPERM')) throw error;
  }
}

function temporaryIn(folder: string): string {
  return join(folder, `${TEMPORARY}${randomBytes(8).toString('hex')}`);
}

/** Writes the text to a new file with a random name in this folder, durably, and returns its path. */
async function writeTemporary(folder: string, text: string): Promise<string> {
  const temporary = temporaryIn(folder);
  try {
    await createSynced(temporary, (file) => file.writeFile(text));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
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

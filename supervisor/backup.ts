/**
 * Copies the data folder of a running scheduler into a folder that a scheduler can start from.
 *
 * The order makes the copy complete. The blobs that the database names (builds, large bodies) are copied before the
 * database, and those added meanwhile after it. Every blob that the copied database names existed at one of the two
 * times: blobs never change, and a young blob is never removed. Blobs removed between the two belonged to expired jobs,
 * which a restored scheduler deletes at once.
 */
import { constants } from 'node:fs';
import { chmod, copyFile, lstat, open, readdir, readFile, realpath, rm } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';

import { createSynced, makeFolder, renameDurably, syncPath } from '../lib/durable.ts';
import { CapstanError } from '../lib/errors.ts';
import { isErrno, messageOf } from '../lib/to-error.ts';
import { ToolError } from '../terminal/tool-error.ts';

export interface BackupOptions {
  /** Data folder of the running scheduler, absolute. */
  readonly dataDir: string;
  /** Path of the copy, absolute; it must not exist. */
  readonly target: string;
  /** Makes the scheduler write a copy of its database; returns the absolute path of the copy. */
  readonly snapshot: () => Promise<string>;
}

export interface Backup {
  readonly files: number;
  readonly bytes: number;
}

/** Copied parts of the data folder. An agent's files, logs and the stack's addresses are not copied. */
const SECRETS = 'secrets';
const DATABASE = join('scheduler', 'capstan.db');
const BLOBS = join('scheduler', 'blobs');
/** Copied last: a folder without it counts as one whose first start has not finished. */
const VERSION = 'version';

/**
 * @throws CapstanError INVALID_ARGUMENT, ALREADY_EXISTS, DATA_DIR or what `snapshot` throws; on failure the target does
 * not exist.
 */
export async function backUp({ dataDir, target, snapshot }: BackupOptions): Promise<Backup> {
  await mustBeDataFolder(dataDir);
  await mustBeNew(target, dataDir);
  const unfinished = join(dirname(target), `.${basename(target)}.unfinished`);
  await rm(unfinished, { recursive: true, force: true });
  try {
    await makeFolder(join(unfinished, 'scheduler'), 0o700);
    const copy = new FolderCopy(dataDir, unfinished);
    await copy.blobs();
    const database = await snapshot();
    await copy.database(database);
    await copy.blobs();
    await copy.folder(SECRETS);
    await copy.masterKeys(`${database}.keys`);
    await copy.file(VERSION);
    await copy.syncFolders();
    await renameDurably(unfinished, target);
    return copy.done;
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw error instanceof CapstanError ? error : failed(target, error);
  }
}

class FolderCopy {
  readonly #from: string;
  readonly #to: string;
  readonly #copied = new Set<string>();
  /** Folders that got a file. */
  readonly #folders = new Set<string>();
  #bytes = 0;

  constructor(from: string, to: string) {
    this.#from = from;
    this.#to = to;
  }

  get done(): Backup {
    return { files: this.#copied.size, bytes: this.#bytes };
  }

  /** Copies the blobs that were not copied yet. Unfinished uploads are skipped. */
  async blobs(): Promise<void> {
    for (const kind of await names(join(this.#from, BLOBS))) if (kind !== 'incoming') await this.folder(join(BLOBS, kind));
  }

  async folder(path: string): Promise<void> {
    for (const name of await names(join(this.#from, path))) {
      const inside = join(path, name);
      const found = await lstat(join(this.#from, inside)).catch(unlessGone);
      if (found?.isDirectory() === true) await this.folder(inside);
      else if (found?.isFile() === true && !this.#copied.has(inside)) await this.file(inside);
    }
  }

  /** Deletes the scheduler's own copy, which only uses space. */
  async database(snapshot: string): Promise<void> {
    const expected = await realpath(join(this.#from, 'scheduler'));
    if ((await realpath(dirname(snapshot)).catch(unlessGone)) !== expected)
      throw new ToolError(
        'INVALID_ARGUMENT',
        `--data-dir: the scheduler has its data in ${dirname(dirname(snapshot))}, not in ${this.#from}`,
        "Run it on the scheduler's host, as a user who may read its data folder, with --data-dir and --scheduler of the same scheduler.",
        { field: 'data-dir' },
      );
    await this.#copy(snapshot, DATABASE);
    await rm(snapshot, { force: true });
  }

  /**
   * Replaces the copied keys, which may be newer by now, with the keys that decrypt the copied database. The scheduler
   * writes them beside the copy; a version without rotation of master keys does not, and does not need to.
   */
  async masterKeys(keys: string): Promise<void> {
    const text = await readFile(keys, 'utf8').catch(unlessGone);
    if (text === null) return;
    const [present = '', ...older] = text.split('\n').filter((line) => line !== '');
    for (const [name, lines] of [
      ['master-key', [present]],
      ['master-key.old', older],
    ] as const) {
      const path = join(SECRETS, name);
      await rm(join(this.#to, path), { force: true });
      this.#copied.delete(path);
      if (lines.length > 0) await this.#write(path, lines.map((line) => `${line}\n`).join(''));
    }
    await rm(keys, { force: true });
  }

  async #write(path: string, text: string): Promise<void> {
    await createSynced(join(this.#to, path), (file) => file.writeFile(text));
    this.#copied.add(path);
  }

  /** Makes the names of the copied files durable. */
  async syncFolders(): Promise<void> {
    for (const folder of this.#folders) await syncPath(folder);
  }

  async #folder(path: string): Promise<void> {
    if (this.#folders.has(path)) return;
    await makeFolder(path, 0o700);
    this.#folders.add(path);
  }

  async file(path: string): Promise<void> {
    await this.#copy(join(this.#from, path), path);
  }

  async #copy(from: string, path: string): Promise<void> {
    const to = join(this.#to, path);
    await this.#folder(dirname(to));
    try {
      await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    } catch (error) {
      if (path.startsWith(BLOBS) && isErrno(error, 'ENOENT', 'ENOTDIR')) return; // the sweep removed it meanwhile
      throw error;
    }
    await chmod(to, 0o600);
    const file = await open(to, 'r');
    try {
      await file.sync();
      this.#bytes += (await file.stat()).size;
    } finally {
      await file.close();
    }
    this.#copied.add(path);
  }
}

async function mustBeDataFolder(dataDir: string): Promise<void> {
  const version = await lstat(join(dataDir, VERSION)).catch(unlessGone);
  if (version !== null) return;
  throw new ToolError('DATA_DIR', `${dataDir} is not a data folder of Capstan`, "Set --data-dir to the scheduler's data folder.", {
    field: 'data-dir',
  });
}

async function mustBeNew(target: string, dataDir: string): Promise<void> {
  const parent = await realpath(dirname(target)).catch(unlessGone);
  if (parent === null) throw new CapstanError('NOT_FOUND', `folder: ${dirname(target)} does not exist`, { field: 'folder' });
  const data = await realpath(dataDir);
  if (`${parent}${sep}`.startsWith(`${data}${sep}`))
    throw new CapstanError('INVALID_ARGUMENT', `folder: must not be inside the data folder ${dataDir}`, { field: 'folder' });
  if ((await lstat(target).catch(unlessGone)) !== null)
    throw new ToolError('ALREADY_EXISTS', `folder: ${target} already exists`, 'Use a new folder: a backup never replaces another one.', {
      field: 'folder',
    });
}

/** Returns nothing for a folder that does not exist. */
async function names(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return [];
    throw error;
  });
}

function failed(target: string, error: unknown): CapstanError {
  const reason = messageOf(error);
  return new CapstanError('DATA_DIR', `writing the backup ${target} failed: ${reason}`, { cause: error });
}

function unlessGone(error: unknown): null {
  if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
  throw error;
}

/** Tar archives that depend on nothing but their files: the same commit gives the same bytes. */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { create, type WriteEntry } from 'tar';

/** Paths of all files below a folder, relative to it, in order. Links are followed nowhere: none is archived. */
export async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .toSorted();
}

export interface ArchiveOptions {
  /** The folder whose files are archived. */
  readonly folder: string;
  /** The first part of every path in the archive. */
  readonly prefix: string;
  readonly file: string;
  /** The time of every file. */
  readonly time: Date;
}

/** Writes a `.tar.gz`. Files that their owner may run stay so; owners, groups and other permissions are the same everywhere. */
export async function archive({ folder, prefix, file, time }: ArchiveOptions): Promise<void> {
  await create({ cwd: folder, file, prefix, gzip: { level: 9 }, ...portable(time) }, await filesBelow(folder));
}

/** Options of an archive whose bytes depend on nothing but its files. */
export function portable(time: Date) {
  return {
    portable: true,
    mtime: time,
    noDirRecurse: true,
    onWriteEntry: (entry: WriteEntry): void => {
      if (entry.stat !== undefined) entry.stat.mode = (entry.stat.mode & 0o100) === 0 ? 0o644 : 0o755;
    },
  };
}

export async function sha256(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
}

/**
 * Places a build in a folder that a running container has already mounted. Hard links need neither space nor copying.
 * The container sees the folder read-only, as it would see the build itself.
 */
import { execFile } from 'node:child_process';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { moveUnsynced } from '../../../lib/durable.ts';
import { makeReadable } from '../readable.ts';

const run = promisify(execFile);

/** Fills the empty folder. Rejects when the file system has no hard links or the folder is on another one. */
export async function linkBuild(build: string, folder: string): Promise<void> {
  await makeReadable(build);
  await run('cp', ['-al', '--', `${build}/.`, folder]);
}

/** Empties the folder by moving its contents into `away`, which is removed in the background. */
export async function emptyFolder(folder: string, away: string): Promise<void> {
  await mkdir(away, { recursive: true });
  await Promise.all((await readdir(folder)).map((name) => moveUnsynced(join(folder, name), join(away, name))));
  // Leftovers are removed with the enclosing folder.
  void rm(away, { recursive: true, force: true }).catch(() => undefined);
}

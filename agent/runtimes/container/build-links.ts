/**
 * A build in a folder that a running container has mounted already: as hard links, so that it costs
 * neither space nor copying. The container sees the folder read-only, as it would see the build itself.
 */
import { execFile } from 'node:child_process';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { makeReadable } from '../hosted/readable.ts';

const run = promisify(execFile);

/** Fills the empty folder. Rejects where the file system has no links, or the folder is on another one. */
export async function linkBuild(build: string, folder: string): Promise<void> {
  await makeReadable(build);
  await run('cp', ['-al', '--', `${build}/.`, folder]);
}

/** Empties the folder by moving what is in it into `away`, which is then removed behind the caller's back. */
export async function emptyFolder(folder: string, away: string): Promise<void> {
  await mkdir(away, { recursive: true });
  await Promise.all((await readdir(folder)).map((name) => rename(join(folder, name), join(away, name))));
  // What stays of it goes with the folder around it.
  void rm(away, { recursive: true, force: true }).catch(() => undefined);
}

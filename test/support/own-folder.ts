/**
 * Temporary folders that name the test process they belong to: what a run that was killed by force
 * leaves behind, the next one finds and takes away.
 */
import { mkdtemp, readdir, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { removeTree } from '../../agent/runtimes/remove-tree.ts';
import { messageOf } from '../../lib/to-error.ts';
import { isRunning } from '../conformance/runtime/running.ts';

/** Folders in which container engines run: there are processes and mounts to end before (container/stale-engines.ts). */
const ENGINES = /^capstan-(docker|podman)-/;

/** Once for a test file: looking at everything in the temporary folder takes a few milliseconds. */
let swept: Promise<void> | undefined;

/** Makes `<prefix>-<pid>-<random>`, with a prefix that begins with `capstan-`. */
export async function ownFolder(prefix: string): Promise<string> {
  swept ??= removeFoldersOfTheDead();
  await swept;
  return mkdtemp(join(tmpdir(), `${prefix}-${process.pid}-`));
}

/** Folders of this prefix whose process is gone. */
export async function foldersOfTheDead(prefix: string): Promise<string[]> {
  const start = `${prefix}-`;
  return deadOf((name) => name.startsWith(start));
}

/**
 * Takes away the folders whose process is gone, which hold files and nothing else; another user's are let alone. One that cannot be
 * removed, as with a mount of a killed test, is named and left: it is no fault of the tests that run now.
 */
async function removeFoldersOfTheDead(): Promise<void> {
  const folders = await deadOf((name) => name.startsWith('capstan-') && !ENGINES.test(name));
  await Promise.all(
    folders.map(async (folder) => {
      const owner = await stat(folder).then(
        ({ uid }) => uid,
        () => undefined,
      ); // taken away by another test file meanwhile
      if (owner !== process.getuid?.()) return;
      await removeTree(folder).catch((error: unknown) => console.error(`! ${folder} of a killed test is left: ${messageOf(error)}`));
    }),
  );
}

async function deadOf(fits: (name: string) => boolean): Promise<string[]> {
  const found: string[] = [];
  for (const name of await readdir(tmpdir())) {
    const [, pid] = (fits(name) && /^[a-z0-9-]+-(\d+)-[A-Za-z0-9]{6}$/.exec(name)) || [];
    if (pid !== undefined && !(await isRunning(Number(pid)))) found.push(join(tmpdir(), name));
  }
  return found;
}

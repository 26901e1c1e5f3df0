/**
 * Temporary folders that name the test process they belong to: what a run that was killed by force
 * leaves behind, the next one finds and takes away.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { isRunning } from '../conformance/runtime/running.ts';

/** Makes `<prefix>-<pid>-<random>`. */
export async function ownFolder(prefix: string): Promise<string> {
  return mkdtemp(join(tmpdir(), `${prefix}-${process.pid}-`));
}

/** Takes away the folders of this prefix whose process is gone, which hold files and nothing else. */
export async function removeFoldersOfTheDead(prefix: string): Promise<void> {
  const folders = await foldersOfTheDead(prefix);
  await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true, maxRetries: 5 })));
}

/** Folders of this prefix whose process is gone. */
export async function foldersOfTheDead(prefix: string): Promise<string[]> {
  const start = `${prefix}-`;
  const found: string[] = [];
  for (const name of await readdir(tmpdir())) {
    const [, pid] = (name.startsWith(start) && /^(\d+)-[^-]+$/.exec(name.slice(start.length))) || [];
    if (pid !== undefined && !(await isRunning(Number(pid)))) found.push(join(tmpdir(), name));
  }
  return found;
}

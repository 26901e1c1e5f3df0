/** Temporary folders that go with their test. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import type { ExecutionContext } from 'ava';

import { ownFolder } from './own-folder.ts';

/** A new folder with these files: path to text. */
export async function folderOf(t: ExecutionContext, files: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await ownFolder('capstan-test');
  // A process that has just been killed may be writing still.
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return folder;
}

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

/** An empty folder for one test, gone after it. */
export async function folderFor(t: ExecutionContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'capstan-store-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

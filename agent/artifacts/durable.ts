/** Unpacked builds outlive a power failure, and what may not have is known by the boot that wrote it. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { syncPath } from '../../lib/sync-path.ts';

/** Writes a folder with all it holds through to the disk. Rejects when aborted. */
export async function syncTree(folder: string, aborted: AbortSignal): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    aborted.throwIfAborted();
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(path, aborted);
    else if (entry.isFile()) await syncPath(path);
  }
  await syncPath(folder);
}

/** Another one after each start of the host; empty where the kernel has none. */
export async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}

/** Syncs unpacked builds to disk, and identifies the boot that wrote builds that are not synced yet. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { syncPath } from '../../lib/sync-path.ts';

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

/** Returns the kernel's boot id, which changes with each boot of the host; empty where the kernel has none. */
export async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}

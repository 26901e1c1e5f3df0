/** What a power failure leaves of files: everything that was written before, once each file and folder was synced. */
import { open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

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

/** Writes one file, or the names in one folder, through to the disk. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Another one after each start of the host; empty where the kernel has none. */
export async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}

/** Syncs files to disk: after each file and folder was synced, everything written before survives a power failure. */
import { open } from 'node:fs/promises';

/** Syncs one file, or the names in one folder, to disk. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** What a power failure leaves of files: everything that was written before, once each file and folder was synced. */
import { open } from 'node:fs/promises';

/** Writes one file, or the names in one folder, through to the disk. */
export async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

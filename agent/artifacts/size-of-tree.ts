/** The bytes of all files below a folder, as unpacking counts them. Files may come and go meanwhile. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { isErrno } from '../../lib/to-error.ts';

/** Rejects with file system errors. */
export async function sizeOfTree(folder: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    try {
      bytes += (await lstat(join(entry.parentPath, entry.name))).size;
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) throw error;
    }
  }
  return bytes;
}

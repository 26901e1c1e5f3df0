/** Folders that a container's user must be able to read, whoever that is and whatever this process's umask. */
import { chmod, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

const READ = 0o444;
const ENTER = 0o111;
const OWNER_RUNS = 0o100;

/**
 * Lets everyone read the folder and what is in it. On the host, the agent's own folder above it keeps
 * others out. The folder's mode is changed last: where it says that everyone may, all in it may be read.
 */
export async function makeReadable(folder: string): Promise<void> {
  const { mode } = await lstat(folder);
  if ((mode & (READ | ENTER)) === (READ | ENTER)) return;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadable(path);
    else if (entry.isFile()) {
      const file = await lstat(path);
      const wanted = file.mode | READ | ((file.mode & OWNER_RUNS) === 0 ? 0 : ENTER);
      if (wanted !== file.mode) await chmod(path, wanted & 0o777);
    }
  }
  await chmod(folder, (mode | READ | ENTER) & 0o777);
}

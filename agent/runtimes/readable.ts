/** Makes folders readable for any user of a container, whatever this process's umask. */
import { chmod, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

const READ = 0o444;
const ENTER = 0o111;
const OWNER_RUNS = 0o100;

/**
 * Makes the folder and its contents readable for everyone. On the host, the agent's own folder above it denies access.
 * The folder's mode is changed last: a readable folder implies readable contents.
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

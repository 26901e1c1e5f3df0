/** Compares an archive from a registry with the lock file. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** @throws Error when the lock file has no sum of the package, or another one. */
export async function checkIntegrity(file: string, integrity: string | undefined, what: string): Promise<void> {
  const sum = `sha512-${createHash('sha512')
    .update(await readFile(file))
    .digest('base64')}`;
  if (integrity !== sum) throw new Error(`${what} has the sum ${sum}, and package-lock.json has ${integrity ?? 'none'}`);
}

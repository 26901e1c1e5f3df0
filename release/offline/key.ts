/** The key that signs a release. */
import { readFile, writeFile } from 'node:fs/promises';

import { makeSecretKey, readSecretKey, type SecretKey } from '../../lib/minisign.ts';
import { isErrno } from '../../lib/to-error.ts';

/** Reads the key of a file, which is made where it does not exist. Without a file the key is of this release alone, and kept nowhere. */
export async function releaseKey(file: string | undefined): Promise<SecretKey> {
  if (file === undefined) {
    console.error('! the key that signs this release is new and is not kept: --key <file> keeps one');
    return readSecretKey(makeSecretKey());
  }
  try {
    return readSecretKey(await readFile(file, 'utf8'));
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    const text = makeSecretKey();
    await writeFile(file, text, { mode: 0o600, flag: 'wx' });
    console.error(`=> made the key ${file}: keep it secret`);
    return readSecretKey(text);
  }
}

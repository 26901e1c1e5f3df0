/** The temporary folder of a preview, and folders that killed previews left. */
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { acquireLock } from '../../lib/lock.mjs';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import type { PreviewName } from './engine.ts';

const PREFIX = 'capstan-preview-';
const LOCK = 'preview.lock';

/** Creates the folder and locks it. @throws CapstanError DATA_DIR */
export function createPreviewFolder(): PreviewName {
  const name = `${PREFIX}${randomBytes(6).toString('hex')}`;
  const folder = join(tmpdir(), name);
  try {
    mkdirSync(folder, { mode: 0o700 });
    acquireLock(join(folder, LOCK));
  } catch (cause) {
    const reason = messageOf(cause);
    throw new CapstanError('DATA_DIR', `cannot create the preview's folder ${folder} (${reason})`, { cause });
  }
  return { name, folder };
}

/** Removes the folder with its lock, as the last step of a clean-up. */
export async function removePreviewFolder({ folder }: PreviewName): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}

export async function previewFolders(): Promise<PreviewName[]> {
  const names = await readdir(tmpdir());
  return names.filter((name) => new RegExp(`^${PREFIX}[0-9a-f]{12}$`).test(name)).map((name) => ({ name, folder: join(tmpdir(), name) }));
}

/** Returns true when nobody holds the folder, or it does not exist; a folder of another user is not touched. */
export async function isDead({ folder }: PreviewName): Promise<boolean> {
  try {
    await stat(folder);
    return 'release' in acquireLock(join(folder, LOCK));
  } catch (error) {
    return isErrno(error, 'ENOENT');
  }
}

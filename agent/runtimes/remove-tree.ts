/**
 * Removes folders that a worker could write into. Node's `rm` works by path: a process that swaps a folder for a
 * symbolic link at the right moment makes it delete what the link names, with the agent's rights. GNU `rm` works by
 * open folders and never follows a link.
 */
import { execFile } from 'node:child_process';
import { rm, rmdir } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { promisify } from 'node:util';

import { isErrno } from '../../lib/to-error.ts';

const run = promisify(execFile);
/** Nothing of the agent's environment is needed; the messages are in English. */
const ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
/** Longest message of a failure, characters. */
const MAX_MESSAGE = 300;

/**
 * Removes a file or a folder with all its contents; resolves when nothing is there. Other file systems mounted below it
 * are kept. Rejects when something cannot be removed, or `path` is relative.
 */
export async function removeTree(path: string): Promise<void> {
  if (!isAbsolute(path)) throw new Error(`cannot remove ${path}: the path is relative`);
  try {
    await rmdir(path);
    return;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return;
    if (!isErrno(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EACCES')) throw error;
  }
  // Another system's `rm` has other options, and no worker there has another user id than the agent.
  if (process.platform !== 'linux') return rm(path, { recursive: true, force: true });
  try {
    await removeByFolders(path);
  } catch (error) {
    if (process.getuid?.() === 0) throw reasonOf(path, error);
    // A worker with the agent's own user id may have taken the permissions off a folder. Root needs none.
    await run('chmod', ['-R', 'u+rwX', '--', path], { env: ENVIRONMENT }).catch(() => undefined);
    await removeByFolders(path).catch((again: unknown) => {
      throw reasonOf(path, again);
    });
  }
}

async function removeByFolders(path: string): Promise<void> {
  await run('rm', ['-rf', '--one-file-system', '--', path], { env: ENVIRONMENT });
}

/** A tree has as many messages as entries that cannot be removed: the first is enough. */
function reasonOf(path: string, error: unknown): Error {
  const stderr = typeof error === 'object' && error !== null && 'stderr' in error ? String(error.stderr) : '';
  const [first = ''] = stderr.split('\n');
  const reason = first === '' && error instanceof Error ? error.message : first;
  return new Error(`cannot remove ${path}: ${reason.slice(0, MAX_MESSAGE)}`, { cause: error });
}

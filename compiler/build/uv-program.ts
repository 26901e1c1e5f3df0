/**
 * Finds uv: the one on PATH, else one that the tool keeps in its cache and obtains once, from the package index by the
 * user's pip.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { cachedFolder } from './cached-folders.ts';
import { faultOf, runInstaller } from '../programs/run-installer.ts';

/** Versions that have all options used here; the newest of them is obtained. */
const WANTED = 'uv>=0.8,<1';
const OLDEST = [0, 8] as const;

export interface FoundUv {
  readonly path: string;
  /** False for the user's own. */
  readonly isOurs: boolean;
}

export interface UvSearch {
  readonly cacheDir: string;
  /** Called before it is obtained; null if it must not be. */
  readonly obtaining: (() => void) | null;
  readonly waiting: (process: number) => void;
}

/** Returns uv, or in one sentence why there is none. */
export async function findUv(search: UvSearch): Promise<FoundUv | { readonly why: string }> {
  if (await isUsable('uv')) return { path: 'uv', isOurs: false };
  const { obtaining } = search;
  try {
    const { folder } = await cachedFolder({
      root: join(search.cacheDir, 'tools'),
      key: { tool: WANTED, platform: process.platform, arch: process.arch },
      refresh: false,
      notes: z.null(),
      limits: { folders: 4, bytes: Infinity },
      waiting: search.waiting,
      make: async (made) => {
        if (obtaining === null) throw new CapstanError('UNAVAILABLE', 'it is not in the cache');
        obtaining();
        await obtain(made);
        const { size } = await stat(programIn(made));
        return { bytes: size, notes: null };
      },
    });
    if (await isUsable(programIn(folder))) return { path: programIn(folder), isOurs: true };
    return { why: `${programIn(folder)} does not run on this machine` };
  } catch (error) {
    if (error instanceof CapstanError && (error.code === 'UNAVAILABLE' || error.code === 'CONFIG')) return { why: error.message };
    throw error;
  }
}

async function obtain(folder: string): Promise<void> {
  const quick = ['--disable-pip-version-check', '--no-input', '--retries', '1', '--timeout', '15'];
  const ended = await runInstaller(
    'python3',
    ['-m', 'pip', ...quick, 'install', '--quiet', '--no-deps', '--only-binary=:all:', '--target', folder, WANTED],
    { cwd: folder },
  );
  if (!ended.ok)
    throw new CapstanError('UNAVAILABLE', `pip cannot install uv: ${(faultOf(ended).split('\n')[0] ?? '') || 'no error message'}`);
}

function programIn(folder: string): string {
  return join(folder, 'bin/uv');
}

async function isUsable(program: string): Promise<boolean> {
  try {
    const { ok, stdout } = await runInstaller(program, ['--version'], { cwd: '.' });
    const [, major = '0', minor = '0'] = /^uv (\d+)\.(\d+)/.exec(stdout) ?? [];
    return ok && (Number(major) > OLDEST[0] || (Number(major) === OLDEST[0] && Number(minor) >= OLDEST[1]));
  } catch {
    return false; // not there
  }
}

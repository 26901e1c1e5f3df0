/** What the tool's cache contains, and its removal. All of it can be made again from the network or from sources. */
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { isErrno } from '../../lib/to-error.ts';

/** Folders of the cache: contents, name of the folder. */
export const CACHE_FOLDERS = {
  packages: 'layers',
  'python-environments': 'environments',
  'python-programs': 'python',
  'node-environments': 'node-environments',
  downloads: 'uv',
  tools: 'tools',
  sizes: 'sizes',
} as const;
export type CacheKind = keyof typeof CACHE_FOLDERS;
export const CACHE_KINDS = Object.keys(CACHE_FOLDERS) as readonly CacheKind[];

export interface CacheRow {
  readonly kind: CacheKind;
  readonly folder: string;
  /** Bytes on the disk; a file with several names counts once. */
  readonly bytes: number;
}

export async function cacheContents(cacheDir: string): Promise<CacheRow[]> {
  return Promise.all(
    CACHE_KINDS.map(async (kind) => {
      const folder = join(cacheDir, CACHE_FOLDERS[kind]);
      return { kind, folder, bytes: await bytesBelow(folder) };
    }),
  );
}

/** Deletes these kinds. A build that runs at the same time may fail, and succeeds when it is run again. */
export async function clearCache(cacheDir: string, kinds: readonly CacheKind[]): Promise<void> {
  await Promise.all(kinds.map((kind) => rm(join(cacheDir, CACHE_FOLDERS[kind]), { recursive: true, force: true, maxRetries: 3 })));
}

/** Returns what a folder takes on the disk, bytes; 0 if it does not exist. Follows no links. */
export async function bytesBelow(folder: string, seen: Set<string> = new Set()): Promise<number> {
  let bytes = 0;
  for (const entry of await entriesOf(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      bytes += await bytesBelow(path, seen);
      continue;
    }
    const found = await lstat(path).catch(() => undefined);
    if (found === undefined || !isFirst(found, seen)) continue;
    bytes += found.blocks * BLOCK_BYTES;
  }
  return bytes;
}

const BLOCK_BYTES = 512;

function isFirst({ dev, ino, nlink }: { readonly dev: number; readonly ino: number; readonly nlink: number }, seen: Set<string>): boolean {
  if (nlink < 2) return true;
  const key = `${dev}:${ino}`;
  if (seen.has(key)) return false;
  seen.add(key);
  return true;
}

async function entriesOf(folder: string): Promise<readonly { readonly name: string; isDirectory(): boolean }[]> {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    // Another process may delete it at this moment.
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return [];
    throw error;
  }
}

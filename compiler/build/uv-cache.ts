/** Bounds uv's own cache of downloads: uv never deletes from it. */
import { mkdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { bytesBelow } from './cache-contents.ts';

/** Size at which the cache is emptied, bytes. */
const LIMIT_BYTES = 10_000_000_000;
/** Counting tens of thousands of files takes a second: it is done once a day, ms. */
const CHECK_EVERY_MS = 86_400_000;
/** Its time is that of the last check. uv ignores it. */
const STAMP = '.capstan-checked';

/**
 * Empties the cache when it has grown beyond the limit. To be called when no installation of this process runs; one of another
 * process downloads again what it misses.
 */
export async function boundUvCache(folder: string, limitBytes: number = LIMIT_BYTES, now: number = Date.now()): Promise<void> {
  const stamp = join(folder, STAMP);
  const checkedMs = await stat(stamp).then(
    ({ mtimeMs }) => mtimeMs,
    () => Number.NEGATIVE_INFINITY,
  );
  if (now - checkedMs < CHECK_EVERY_MS) return;
  if ((await bytesBelow(folder)) > limitBytes) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  await mkdir(folder, { recursive: true });
  await writeFile(stamp, '');
  await utimes(stamp, new Date(now), new Date(now));
}

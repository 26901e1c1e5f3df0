/**
 * Removes orphans: blobs that were put but never got a row (the caller disconnected, or the process crashed in
 * between). A blob is put before its row exists, so only an old blob without a row is an orphan. The age is checked
 * again right before the removal, because the same build may have been put again during the query.
 *
 * Several schedulers may have one store: standbys, and the owners of other cells. Only owners sweep. The rows of all
 * cells are asked, and whoever is about to name a blob that exists makes it young first, by the store's own clock.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { BlobStore } from './blob-store.ts';

/** Names in one query. */
const BATCH = 500;
/** How long the answer that a blob is old holds, ms. */
const STALE_MS = 10_000;

export interface SweepOptions {
  /** Blobs younger than this are kept, ms. Longer than any commit or deployment can take. */
  readonly ageMs: number;
  /** Returns which of these names are named by a row (Store.read('blobsNamed', ids)). */
  readonly named: (ids: readonly string[]) => Promise<readonly string[]>;
  /** Whether this process still owns the queue: only its owner removes. */
  readonly mayRemove?: () => boolean;
  /** Blobs that stay although no row names them yet. */
  readonly spares?: (id: string) => boolean;
  /** Stops between two batches. */
  readonly signal?: AbortSignal;
}

export interface SweepResult {
  readonly looked: number;
  readonly removed: number;
}

/** Sweeps the whole store once. Returns the number of removed blobs. */
export async function sweepOrphans(store: BlobStore, options: SweepOptions): Promise<SweepResult> {
  if (!(options.ageMs > 0)) throw new CapstanError('CONFIG', 'the minimum age of blobs to delete must be above 0 ms', { field: 'ageMs' });
  let looked = 0;
  let removed = 0;
  const deleteBatch = async (batch: readonly string[]): Promise<void> => {
    const named = new Set(await options.named(batch));
    for (const id of batch) {
      const askedAt = performance.now();
      if (named.has(id) || !(await store.isOlderThan(id, options.ageMs))) continue;
      // A process that was paused here may not be the owner any more, and others may have put the blob again.
      if (performance.now() - askedAt > STALE_MS || options.mayRemove?.() === false) continue;
      // No await between this check and the removal: a put of the same build either came before it and is seen here, or
      // finds the removal in progress and waits for it.
      if (!store.wasPutWithin(id, options.ageMs) && (await store.delete(id))) removed += 1;
    }
    looked += batch.length;
  };

  let batch: string[] = [];
  for await (const id of store.olderThan(options.ageMs)) {
    if (options.spares?.(id) === true) continue;
    batch.push(id);
    if (batch.length < BATCH) continue;
    await deleteBatch(batch);
    batch = [];
    if (options.signal?.aborted === true) return { looked, removed };
  }
  await deleteBatch(batch);
  return { looked, removed };
}

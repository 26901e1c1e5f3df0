/**
 * Removes orphans: blobs that were put, but whose row never came (the caller went away, the process
 * died between the two). A blob is put before its row exists, so only an old one without a row is
 * an orphan; and the age is looked at again right before the removal, since the same build may have
 * been put again while the rows were asked.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { BlobStore } from './blob-store.ts';

/** How many names are asked about at once. */
const BATCH = 500;

export interface SweepOptions {
  /** Ages below this are left alone, ms. Longer than any commit or deployment can take. */
  readonly ageMs: number;
  /** Which of these names some row has (Store.read('blobsNamed', ids)). */
  readonly named: (ids: readonly string[]) => Promise<readonly string[]>;
  /** Stops between two batches. */
  readonly signal?: AbortSignal;
}

export interface SweepResult {
  readonly looked: number;
  readonly removed: number;
}

/** Goes once through the whole store. */
export async function sweepOrphans(store: BlobStore, options: SweepOptions): Promise<SweepResult> {
  if (!(options.ageMs > 0)) throw new CapstanError('CONFIG', 'the minimum age of blobs to delete must be above 0 ms', { field: 'ageMs' });
  let looked = 0;
  let removed = 0;
  const deleteBatch = async (batch: readonly string[]): Promise<void> => {
    const named = new Set(await options.named(batch));
    for (const id of batch) {
      if (named.has(id) || !(await store.isOlderThan(id, options.ageMs))) continue;
      // No await between this look and the removal: a put of the same build either came before it
      // and is seen here, or finds the removal under way and waits for it.
      if (!store.wasPutWithin(id, options.ageMs) && (await store.delete(id))) removed += 1;
    }
    looked += batch.length;
  };

  let batch: string[] = [];
  for await (const id of store.olderThan(options.ageMs)) {
    batch.push(id);
    if (batch.length < BATCH) continue;
    await deleteBatch(batch);
    batch = [];
    if (options.signal?.aborted === true) return { looked, removed };
  }
  await deleteBatch(batch);
  return { looked, removed };
}

/**
 * Deletes the blobs of bodies soon after their last row is deleted. Deleted rows report the blobs they named, and the
 * core reports the blobs of bodies that got no row. Such a blob waits a moment, so that a recipient can still open it.
 * Then the store checks whether another row names it (a webhook's, or the row of a submission that was sent twice); if
 * none does, it is deleted. The list is in memory: the sweep of orphans finds what a crash leaves behind.
 */
import type { BlobStore } from './blob-store.ts';
import { isBodyId } from '../../lib/body-id.ts';

/** A blob waits for at least this time and at most twice this time, ms. */
const WAIT_MS = 10_000;
/** Names in one query. */
const BATCH = 500;
/** Limit of waiting names. The sweep deletes the blobs beyond it. */
const MAX_WAITING = 200_000;

export interface BodyRemoverOptions {
  readonly store: Pick<BlobStore, 'delete' | 'hold'>;
  /** Returns which of these blobs are named by a row (Store.read('blobsNamed', ids)). */
  readonly named: (ids: readonly string[]) => Promise<readonly string[]>;
  /** Whether this process still owns the queue: another owner may be about to name a body again. */
  readonly mayRemove?: () => boolean;
  readonly onFault: (error: unknown) => void;
  readonly waitMs?: number;
}

export class BodyRemover {
  readonly #options: BodyRemoverOptions;
  /** Blobs to delete at the turn after the next, at the next turn, and now. */
  #young = new Set<string>();
  #old = new Set<string>();
  #due = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #turn: Promise<void> = Promise.resolve();

  constructor(options: BodyRemoverOptions) {
    this.#options = options;
    this.#timer = setInterval(() => {
      this.#turn = this.#turn.then(() => this.#pass()).catch(options.onFault);
    }, options.waitMs ?? WAIT_MS);
    this.#timer.unref();
  }

  /** Adds blobs that lost a row. Builds are ignored: other code deletes them. */
  drop(blobs: readonly string[]): void {
    for (const blob of blobs) if (isBodyId(blob) && this.#young.size < MAX_WAITING) this.#young.add(blob);
  }

  /** Keeps a blob that a row is about to name again. Returns false if it is already deleted. */
  async keep(blob: string): Promise<boolean> {
    for (const waiting of [this.#young, this.#old, this.#due]) waiting.delete(blob);
    return (await this.#options.store.hold(blob)) !== null;
  }

  /** Leaves what waits to the sweep: another scheduler may own the queue. */
  forget(): void {
    for (const waiting of [this.#young, this.#old, this.#due]) waiting.clear();
  }

  /** Stops. Resolves when no removal is in progress. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#due.clear();
    await this.#turn;
  }

  async #pass(): Promise<void> {
    [this.#due, this.#old, this.#young] = [this.#old, this.#young, new Set()];
    const all = [...this.#due];
    for (let start = 0; start < all.length; start += BATCH) {
      const batch = all.slice(start, start + BATCH);
      const named = new Set(await this.#options.named(batch));
      if (this.#options.mayRemove?.() === false) {
        this.forget();
        return;
      }
      // A blob kept in the meantime is no longer due. There is no await between this check and the removal.
      const unnamed = batch.filter((blob) => this.#due.delete(blob) && !named.has(blob));
      await Promise.all(unnamed.map(async (blob) => this.#options.store.delete(blob)));
    }
  }
}

/**
 * Deletes the blobs of bodies soon after their last row is gone. Rows that are deleted tell the blobs
 * they named, and the core those of bodies that found no row. Such a blob waits a moment, so that who
 * was given it can open it; then the store is asked whether another row names it (a webhook's, or the
 * row of a submission that was sent twice), and it is deleted if not. The list is in memory: what a
 * crash leaves behind is found by the sweep of orphans.
 */
import type { BlobStore } from './blob-store.ts';
import { isBodyId } from './ids.ts';

/** A blob waits at least this long, and at most twice that, ms. */
const WAIT_MS = 10_000;
/** How many names are asked about at once. */
const BATCH = 500;
/** Names that may wait. What comes beyond it is left to the sweep. */
const MOST_WAITING = 200_000;

export interface BodyRemoverOptions {
  readonly store: Pick<BlobStore, 'delete' | 'hold'>;
  /** Which of these blobs a row names (Store.read('blobsNamed', ids)). */
  readonly named: (ids: readonly string[]) => Promise<readonly string[]>;
  readonly onFault: (error: unknown) => void;
  readonly waitMs?: number;
}

export class BodyRemover {
  readonly #options: BodyRemoverOptions;
  /** Blobs to be deleted at the next turn but one, at the next turn, and now. */
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

  /** These blobs lost a row. Builds are none of ours, whoever names them. */
  drop(blobs: readonly string[]): void {
    for (const blob of blobs) if (isBodyId(blob) && this.#young.size < MOST_WAITING) this.#young.add(blob);
  }

  /** A row is about to name the blob again: it is not deleted. False when it is gone. */
  async keep(blob: string): Promise<boolean> {
    for (const waiting of [this.#young, this.#old, this.#due]) waiting.delete(blob);
    return (await this.#options.store.hold(blob)) !== null;
  }

  /** Stops; resolves when no removal is under way. */
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
      // A blob that was kept since is not due any more; there is no await between that look and the removal.
      const unnamed = batch.filter((blob) => this.#due.delete(blob) && !named.has(blob));
      await Promise.all(unnamed.map(async (blob) => this.#options.store.delete(blob)));
    }
  }
}

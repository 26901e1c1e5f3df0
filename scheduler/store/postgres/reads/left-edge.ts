/**
 * Where the live rows of an index begin. Rows that went leave entries in it until a vacuum, and while a reader holds an old
 * snapshot open no vacuum removes them: a look from the left end would go through all of them, each time.
 */

/** Greater than every key. */
export const NONE = Number.MAX_SAFE_INTEGER;

/** A bound below every live key: writes lower it, looks raise it. */
export class LeftEdge {
  readonly #least: number;
  #at: number;
  /** The lowest key that was written since a look began: the look may not have seen it. */
  readonly #looks = new Set<{ lowest: number }>();

  constructor(least: number) {
    this.#least = least;
    this.#at = least;
  }

  get at(): number {
    return this.#at;
  }

  get isLeast(): boolean {
    return this.#at === this.#least;
  }

  /** A row with this key is about to be written. */
  lower(key: number): void {
    this.#at = Math.min(this.#at, key);
    for (const look of this.#looks) look.lowest = Math.min(look.lowest, key);
  }

  /** Anything may have been written. */
  reset(): void {
    this.lower(this.#least);
  }

  /** `read` looks from a key on, and says which live key it found first: {@link NONE} if there is none. */
  async look<T>(read: (from: number) => Promise<readonly [result: T, first: number]>): Promise<T> {
    const look = { lowest: NONE };
    this.#looks.add(look);
    try {
      const [result, first] = await read(this.#at);
      this.#at = Math.max(this.#at, Math.min(first, look.lowest));
      return result;
    } finally {
      this.#looks.delete(look);
    }
  }
}

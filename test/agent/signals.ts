/** Things that happened, in order, and waiting for more: tests wait for signals and never sleep. */

/** Grows as things happen; `next` answers the first item that fits, past or to come. */
export class Signals<T> {
  readonly items: T[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #patienceMs: number;

  /** `patienceMs`: how long `next` waits where it is not told. */
  constructor(patienceMs = 20_000) {
    this.#patienceMs = patienceMs;
  }

  push(item: T): void {
    this.items.push(item);
    for (const look of this.#waiting) look();
  }

  /** The first fitting item at or after `from`; rejects after `timeoutMs` with what was there instead. */
  next<S extends T>(fits: (item: T) => item is S, from?: number, timeoutMs?: number): Promise<S>;
  next(fits: (item: T) => boolean, from?: number, timeoutMs?: number): Promise<T>;
  async next(fits: (item: T) => boolean, from = 0, timeoutMs = this.#patienceMs): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const look = (): void => {
      const found = this.items.slice(from).find(fits);
      if (found !== undefined) resolve(found);
    };
    const timer = setTimeout(
      () => reject(new Error(`nothing that fits among ${this.items.length} items: ${describe(this.items.slice(from))}`)),
      timeoutMs,
    );
    this.#waiting.add(look);
    look();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(look);
    }
  }
}

function describe(items: readonly unknown[]): string {
  const text = JSON.stringify(items.slice(-20), (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
  return text.slice(0, 4_000);
}

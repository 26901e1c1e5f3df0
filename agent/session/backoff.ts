/** Delays between attempts: doubling, with jitter, so that a fleet does not reconnect all at once. */
export class Backoff {
  readonly #firstMs: number;
  readonly #lastMs: number;
  #failures = 0;

  constructor(firstMs: number, lastMs: number) {
    this.#firstMs = firstMs;
    this.#lastMs = lastMs;
  }

  /** Returns the next delay, ms: between half and all of the current step. */
  next(): number {
    const step = Math.min(this.#lastMs, this.#firstMs * 2 ** this.#failures);
    this.#failures += 1;
    return step * (0.5 + Math.random() / 2);
  }

  reset(): void {
    this.#failures = 0;
  }
}

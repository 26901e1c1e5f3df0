/** Waits between tries: doubling, with jitter, so that a fleet does not come back as one. */
export class Backoff {
  readonly #firstMs: number;
  readonly #lastMs: number;
  #failures = 0;

  constructor(firstMs: number, lastMs: number) {
    this.#firstMs = firstMs;
    this.#lastMs = lastMs;
  }

  /** The next wait, ms: between half and all of the present step. */
  next(): number {
    const step = Math.min(this.#lastMs, this.#firstMs * 2 ** this.#failures);
    this.#failures += 1;
    return step * (0.5 + Math.random() / 2);
  }

  reset(): void {
    this.#failures = 0;
  }
}

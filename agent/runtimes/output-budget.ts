/** An amount that recovers at a constant rate, up to a burst. */
export interface OutputRate {
  readonly burst: number;
  readonly perSecond: number;
}

export class OutputBudget {
  readonly #rate: OutputRate;
  /** Monotonic, ms. */
  readonly #now: () => number;
  #left: number;
  #filledAt: number;

  constructor(rate: OutputRate, now: () => number = () => performance.now()) {
    this.#rate = rate;
    this.#now = now;
    this.#left = rate.burst;
    this.#filledAt = now();
  }

  /** Negative after more was used than there was. */
  get left(): number {
    const now = this.#now();
    this.#left = Math.min(this.#rate.burst, this.#left + ((now - this.#filledAt) * this.#rate.perSecond) / 1_000);
    this.#filledAt = now;
    return this.#left;
  }

  /** The clock is read only when what was left at the last look does not suffice. */
  has(cost: number): boolean {
    return this.#left >= cost || this.left >= cost;
  }

  use(cost: number): void {
    this.#left -= cost;
  }
}

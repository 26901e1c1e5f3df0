/** A limited amount that requests take from and give back: a count, or bytes of memory. */
export class Budget {
  readonly limit: number;
  #used = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** Returns false and takes nothing when the amount is not available. */
  take(amount: number): boolean {
    if (this.#used + amount > this.limit) return false;
    this.#used += amount;
    return true;
  }

  give(amount: number): void {
    this.#used -= amount;
  }
}

/** An amount that requests take from and give back: a count, or bytes of memory. Never exceeded. */
export class Budget {
  readonly limit: number;
  #used = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** False when the amount is not there; nothing was taken then. */
  take(amount: number): boolean {
    if (this.#used + amount > this.limit) return false;
    this.#used += amount;
    return true;
  }

  give(amount: number): void {
    this.#used -= amount;
  }
}

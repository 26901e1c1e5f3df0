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

/** A rate of at most `perSecond` events with bursts of the same size. `now` in ms, monotonic. */
export class Rate {
  readonly perSecond: number;
  #left: number;
  #at = 0;

  constructor(perSecond: number) {
    this.perSecond = perSecond;
    this.#left = perSecond;
  }

  take(now: number): boolean {
    this.#left = Math.min(this.perSecond, this.#left + ((now - this.#at) * this.perSecond) / 1000);
    this.#at = now;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}

/** A rate of at most `perSecond` events, with bursts of up to `burst`. Times are monotonic, ms. */
export class Rate {
  readonly perSecond: number;
  readonly burst: number;
  #left: number;
  #at = 0;

  constructor(perSecond: number, burst = perSecond) {
    this.perSecond = perSecond;
    this.burst = burst;
    this.#left = burst;
  }

  /** Takes one event; returns false when none is left. */
  take(now: number): boolean {
    if (!this.has(now)) return false;
    this.#left -= 1;
    return true;
  }

  /** Takes what was used, however much: what is missing has to come back before {@link Rate.has} is true again. */
  charge(amount: number, now: number): void {
    this.has(now);
    this.#left -= amount;
  }

  has(now: number): boolean {
    this.#left = Math.min(this.burst, this.#left + ((now - this.#at) * this.perSecond) / 1000);
    this.#at = now;
    return this.#left >= 1;
  }
}

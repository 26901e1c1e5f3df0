/**
 * The database's wall clock, as an offset to this process's monotonic one. Owners of a cell may run on hosts whose clocks
 * differ: ttl and retention must not depend on which of them it is.
 */

/** When the database's clock was set back, this one goes on at a slower rate until it caught up. */
const SLOWEST_RATE = 0.95;

export class DatabaseClock {
  readonly #mono: () => number;
  #offset: number;
  /** Of the last measurement; null before the first. */
  #measuredAt: number | null = null;

  /** Until the first measurement it is this host's clock. Both in ms; others than the process's own are for tests. */
  constructor(system: () => number = () => Date.now(), mono: () => number = () => performance.now()) {
    this.#mono = mono;
    this.#offset = system() - mono();
  }

  /** Wall clock, ms since 1970. */
  now(): number {
    return Math.floor(this.#mono() + this.#offset);
  }

  /** The database said that its clock shows `wall`, ms since 1970. */
  measured(wall: number): void {
    const mono = this.#mono();
    const offset = wall - mono;
    const least = this.#measuredAt === null ? offset : this.#offset - (1 - SLOWEST_RATE) * (mono - this.#measuredAt);
    this.#offset = Math.max(offset, least);
    this.#measuredAt = mono;
  }

  /** A former owner wrote this time: earlier ones do not come again. */
  atLeast(wall: number): void {
    this.#offset = Math.max(this.#offset, wall - this.#mono());
  }
}

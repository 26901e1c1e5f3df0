/** The clocks of the process, as the core wants them. */
import type { Now } from '../core/now.ts';

export interface Clock {
  now(): Now;
  /** Calls once when `ms` are over; what it returns cancels the call. */
  after(ms: number, run: () => void): () => void;
  /** Calls at the end of this turn of the event loop, after the sockets were polled. */
  defer(run: () => void): void;
}

/** How fast the wall clock goes on while it is ahead of the system's: slower, so that they meet again. */
const RATE_WHILE_AHEAD = 0.95;

/**
 * Real time. When the system sets its clock back, the wall clock goes on all the same, so ttl and
 * retention never run backwards, and never stand still either, however far it was set.
 */
export class SystemClock implements Clock {
  readonly #system: () => number;
  readonly #mono: () => number;
  #lastMono: number;
  #wall: number;

  /** Both in ms; other clocks than the process' own are for tests. */
  constructor(system: () => number = () => Date.now(), mono: () => number = () => performance.now()) {
    this.#system = system;
    this.#mono = mono;
    this.#lastMono = mono();
    this.#wall = system();
  }

  now(): Now {
    const mono = this.#mono();
    this.#wall = Math.max(this.#system(), this.#wall + (mono - this.#lastMono) * RATE_WHILE_AHEAD);
    this.#lastMono = mono;
    return { wall: Math.floor(this.#wall), mono };
  }

  after(ms: number, run: () => void): () => void {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  }

  defer(run: () => void): void {
    setImmediate(run);
  }
}

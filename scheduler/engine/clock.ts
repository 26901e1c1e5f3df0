/** The clocks of the process, in the form the core uses. */
import type { Now } from '../core/now.ts';

export interface Clock {
  now(): Now;
  /** Calls `run` once after `ms`. The returned function cancels the call. */
  after(ms: number, run: () => void): () => void;
  /** Calls `run` at the end of this turn of the event loop, after the sockets were polled. */
  defer(run: () => void): void;
}

/** Rate of the wall clock while it is ahead of the system's: slower, so that the two converge. */
const RATE_WHILE_AHEAD = 0.95;

/**
 * Real time. If the system sets its clock back, this wall clock continues at a slower rate, so ttl and retention never
 * run backwards or stop, whatever the size of the change.
 */
export class SystemClock implements Clock {
  readonly #system: () => number;
  readonly #mono: () => number;
  #lastMono: number;
  #wall: number;

  /** Both in ms; other clocks than the process's own are for tests. */
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

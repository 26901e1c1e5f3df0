/** The clocks of the process, as the core wants them. */
import type { Now } from '../core/now.ts';

export interface Clock {
  now(): Now;
  /** Calls once when `ms` are over; what it gives calls it off. */
  after(ms: number, run: () => void): () => void;
}

/** Real time. The wall clock is held when the system sets it back, so ttl and retention never run backwards. */
export class SystemClock implements Clock {
  #wall = 0;

  now(): Now {
    const wall = Date.now();
    if (wall > this.#wall) this.#wall = wall;
    return { wall: this.#wall, mono: performance.now() };
  }

  after(ms: number, run: () => void): () => void {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  }
}

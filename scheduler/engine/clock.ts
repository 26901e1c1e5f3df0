/** The clocks of the process, as the core wants them. */
import type { Now } from '../core/image.ts';

export interface Clock {
  now(): Now;
}

/** Real time. The wall clock is held when the system sets it back, so ttl and retention never run backwards. */
export class SystemClock implements Clock {
  #wall = 0;

  now(): Now {
    const wall = Date.now();
    if (wall > this.#wall) this.#wall = wall;
    return { wall: this.#wall, mono: performance.now() };
  }
}

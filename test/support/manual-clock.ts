/** Time that stands still until a test moves it, with the timers that hang on it. */
import type { Clock } from '../../scheduler/engine/clock.ts';

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

export class ManualClock implements Clock {
  #wall = Date.now();
  #mono = 0;
  readonly #timers = new Set<Timer>();

  now(): { wall: number; mono: number } {
    return { wall: this.#wall, mono: this.#mono };
  }

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#mono + ms, run };
    this.#timers.add(timer);
    if (ms <= 0) setImmediate(() => this.#fire(timer));
    return () => void this.#timers.delete(timer);
  }

  defer(run: () => void): void {
    setImmediate(run);
  }

  /** Moves both clocks, and lets come due what is due by then. */
  advance(ms: number): void {
    this.#wall += ms;
    this.#mono += ms;
    for (const timer of [...this.#timers].toSorted((a, b) => a.at - b.at)) if (timer.at <= this.#mono) this.#fire(timer);
  }

  #fire(timer: Timer): void {
    if (this.#timers.delete(timer)) timer.run();
  }
}

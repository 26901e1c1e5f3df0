/**
 * A simulated world: virtual time, a queue of happenings, links that deliver in order with delay
 * and that break. Everything random comes from the seed; the trace is hashed as it grows.
 */
import { createHash } from 'node:crypto';

import { Random } from './random.ts';

interface Happening {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

export class World {
  readonly random: Random;
  readonly seed: number;
  now = 0;
  readonly #queue: Happening[] = [];
  readonly #hash = createHash('sha256');
  readonly #recent: string[] = [];
  /** Traced, but not hashed yet: hashing line by line costs more than all the lines. */
  #unhashed = '';
  #order = 0;

  constructor(seed: number) {
    this.seed = seed;
    this.random = new Random(seed);
  }

  /** Both clocks of the world; the wall clock starts at a made-up day. */
  clock(): { wall: number; mono: number } {
    return { wall: 1_700_000_000_000 + Math.floor(this.now), mono: this.now };
  }

  after(delay: number, run: () => void): void {
    const happening = { at: this.now + delay, order: this.#order++, run };
    let low = 0;
    let high = this.#queue.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#queue[middle] as Happening;
      if (other.at < happening.at || (other.at === happening.at && other.order < happening.order)) low = middle + 1;
      else high = middle;
    }
    this.#queue.splice(low, 0, happening);
  }

  /** Runs happenings up to a time. */
  run(until: number): void {
    for (let next = this.#queue[0]; next !== undefined && next.at <= until; next = this.#queue[0]) {
      this.#queue.shift();
      this.now = next.at;
      next.run();
    }
    this.now = Math.max(this.now, until);
  }

  trace(line: string): void {
    const entry = `${this.now.toFixed(3)} ${line}`;
    this.#unhashed += entry;
    if (this.#unhashed.length > 4_096) this.#hashTrace();
    this.#recent.push(entry);
    if (this.#recent.length > 4_000) this.#recent.splice(0, 2_000);
  }

  /** Hash of everything traced so far. */
  digest(): string {
    this.#hashTrace();
    return this.#hash.copy().digest('hex');
  }

  #hashTrace(): void {
    this.#hash.update(this.#unhashed);
    this.#unhashed = '';
  }

  /** The last lines, for a failure report. */
  recent(lines: number, about?: string): string {
    return this.#recent
      .filter((line) => about === undefined || line.includes(about))
      .slice(-lines)
      .join('\n');
  }
}

/** One direction of a connection: in order, delayed; what is under way is lost when it breaks. */
export class Link<T> {
  readonly #world: World;
  readonly #deliver: (message: T) => void;
  #free = 0;
  open = true;

  constructor(world: World, deliver: (message: T) => void) {
    this.#world = world;
    this.#deliver = deliver;
  }

  send(message: T): void {
    if (!this.open) return;
    const arrival = Math.max(this.#free, this.#world.now + 0.05 + this.#world.random.next() * 2);
    this.#free = arrival;
    this.#world.after(arrival - this.#world.now, () => {
      if (this.open) this.#deliver(message);
    });
  }
}

/** A connection that is not there yet. */
export function closedLink<T>(): Pick<Link<T>, 'open' | 'send'> {
  return { open: false, send: () => undefined };
}

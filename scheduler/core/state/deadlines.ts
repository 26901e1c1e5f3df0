/**
 * Deadlines of the core, on the monotonic clock: a binary heap that drops entries lazily. Most deadlines never come due
 * (a wait is answered, a job ends), so dead entries are removed as soon as they outnumber the live ones.
 */

import { invariant } from '../../../lib/invariant.ts';

/** Something due at a time unless it is dead by then. */
export interface Deadline<T> {
  readonly at: number;
  readonly what: T;
  dead: boolean;
}

export class Deadlines<T> {
  #heap: Deadline<T>[] = [];
  #dead = 0;

  /** Adds a deadline at monotonic time `at`, ms. */
  add(at: number, what: T): Deadline<T> {
    const entry: Deadline<T> = { at, what, dead: false };
    this.#heap.push(entry);
    this.#up(this.#heap.length - 1);
    return entry;
  }

  /** Cancels a deadline. Has no effect on one that was already due. */
  drop(entry: Deadline<T>): void {
    if (entry.dead) return;
    entry.dead = true;
    this.#dead++;
    invariant(this.#dead <= this.#heap.length, 'a dead entry is in the heap', { dead: this.#dead, entries: this.#heap.length });
    if (this.#dead > 1_000 && this.#dead * 2 > this.#heap.length) this.#sweep();
  }

  /** Returns the time of the earliest live deadline, or null. */
  next(): number | null {
    this.#skipDead();
    return this.#heap[0]?.at ?? null;
  }

  /** Removes and returns the earliest live deadline that is due at `now`, or null. */
  take(now: number): T | null {
    this.#skipDead();
    const top = this.#heap[0];
    if (top === undefined || top.at > now) return null;
    top.dead = true;
    this.#pop();
    return top.what;
  }

  #skipDead(): void {
    while (this.#heap[0]?.dead === true) {
      this.#pop();
      this.#dead--;
    }
  }

  #sweep(): void {
    this.#heap = this.#heap.filter((entry) => !entry.dead);
    this.#dead = 0;
    for (let i = (this.#heap.length >> 1) - 1; i >= 0; i--) this.#down(i);
  }

  #pop(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    this.#down(0);
  }

  #up(start: number): void {
    const heap = this.#heap;
    let i = start;
    const entry = heap[i] as Deadline<T>;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      const above = heap[parent] as Deadline<T>;
      if (above.at <= entry.at) break;
      heap[i] = above;
      i = parent;
    }
    heap[i] = entry;
  }

  #down(start: number): void {
    const heap = this.#heap;
    let i = start;
    const entry = heap[i] as Deadline<T>;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      const right = heap[child + 1];
      if (right !== undefined && right.at < (heap[child] as Deadline<T>).at) child++;
      const below = heap[child] as Deadline<T>;
      if (below.at >= entry.at) break;
      heap[i] = below;
      i = child;
    }
    heap[i] = entry;
  }
}

/**
 * Decides when the store's count of bodies is read: after batches that may have changed it, one read at a time and at most
 * ten a second. The store executes requests in order, so a count includes every batch whose outcome arrived before;
 * reservations of such batches are settled with it, and not before. Until then they count as pending: what an account adds
 * counts at once, and only what it no longer keeps counts a little longer.
 */
import type { Write } from '../core/effects.ts';
import type { BodyUsage } from '../core/ports/store.ts';
import type { Clock } from './clock.ts';

/** Pause between two reads, ms: under load nearly every batch changes the count. */
const PAUSE_MS = 100;

export interface BodyCountOptions {
  readonly clock: Clock;
  readonly read: (done: (rows: readonly BodyUsage[]) => void) => void;
  readonly counted: (stored: ReadonlyMap<string, number>, settled: ReadonlyMap<string, number>) => void;
}

export class BodyCount {
  readonly #options: BodyCountOptions;
  /** Bytes by account of the batches after which no read was requested yet. */
  #settled = new Map<string, number>();
  #due = false;
  #reading = false;
  /** Ends the pause after a read; null outside of one. */
  #cancelPause: (() => void) | null = null;

  constructor(options: BodyCountOptions) {
    this.#options = options;
  }

  /** Handles a committed batch. `kept`: the store may keep bodies, so deleted rows may free some. */
  committed(writes: readonly Write[], kept: boolean): void {
    for (const { reserved } of writes) {
      if (reserved !== null) this.#settled.set(reserved.account, (this.#settled.get(reserved.account) ?? 0) + reserved.bytes);
    }
    this.#due ||= kept || this.#settled.size > 0;
    this.#readIfDue();
  }

  /** Reads nothing more. */
  stop(): void {
    this.#cancelPause?.();
    this.#due = false;
  }

  #readIfDue(): void {
    if (!this.#due || this.#reading || this.#cancelPause !== null) return;
    const settled = this.#settled;
    this.#settled = new Map();
    this.#due = false;
    this.#reading = true;
    this.#options.read((rows) => {
      this.#reading = false;
      this.#cancelPause = this.#options.clock.after(PAUSE_MS, () => {
        this.#cancelPause = null;
        this.#readIfDue();
      });
      this.#options.counted(new Map(rows.map(({ account, bytes }) => [account, bytes])), settled);
    });
  }
}

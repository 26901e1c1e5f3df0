/**
 * Decides when the store's count of bodies is read: after each batch that may have changed it, one read at a time. The
 * store executes requests in order, so a count includes every batch whose outcome arrived before; reservations of such
 * batches are settled with it, and not before.
 */
import type { Write } from '../core/effects.ts';
import type { BodyUsage } from '../store/store.ts';

export interface BodyCountOptions {
  readonly read: (done: (rows: readonly BodyUsage[]) => void) => void;
  readonly counted: (stored: ReadonlyMap<string, number>, settled: ReadonlyMap<string, number>) => void;
}

export class BodyCount {
  readonly #options: BodyCountOptions;
  /** Bytes by account of the batches after which no read was requested yet. */
  #settled = new Map<string, number>();
  #due = false;
  #reading = false;

  constructor(options: BodyCountOptions) {
    this.#options = options;
  }

  /** Handles a committed batch. `kept`: the store may name bodies, so deleted rows may free some. */
  committed(writes: readonly Write[], kept: boolean): void {
    for (const { reserved } of writes) {
      if (reserved !== null) this.#settled.set(reserved.account, (this.#settled.get(reserved.account) ?? 0) + reserved.bytes);
    }
    this.#due ||= kept || this.#settled.size > 0;
    if (this.#due && !this.#reading) this.#read();
  }

  #read(): void {
    const settled = this.#settled;
    this.#settled = new Map();
    this.#due = false;
    this.#reading = true;
    this.#options.read((rows) => {
      this.#reading = false;
      this.#options.counted(new Map(rows.map(({ account, bytes }) => [account, bytes])), settled);
      if (this.#due) this.#read();
    });
  }
}

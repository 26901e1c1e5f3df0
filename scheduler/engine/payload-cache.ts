/**
 * Inputs of jobs that will be handed out soon (leased, or in a head window), so that a dispatch
 * needs no read. Bounded in bytes: what does not fit is read from the store when its turn comes.
 */
import type { Body } from '../store/store.ts';

export class PayloadCache {
  readonly #bodies = new Map<number, Body>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get(no: number): Body | undefined {
    return this.#bodies.get(no);
  }

  /** Keeps an input unless the bound is reached. */
  put(no: number, body: Body): void {
    const size = sizeOf(body);
    if (this.#bytes + size > this.#maxBytes || this.#bodies.has(no)) return;
    this.#bodies.set(no, body);
    this.#bytes += size;
  }

  /** Forgets the input of a job that ended. */
  delete(no: number): void {
    const body = this.#bodies.get(no);
    if (body === undefined) return;
    this.#bodies.delete(no);
    this.#bytes -= sizeOf(body);
  }

  clear(): void {
    this.#bodies.clear();
    this.#bytes = 0;
  }
}

function sizeOf(body: Body): number {
  return 'inline' in body ? body.inline.length + 64 : 128;
}

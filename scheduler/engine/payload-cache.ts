/**
 * Inputs of jobs that will be handed out soon (leased, or in a head window), so that a dispatch
 * needs no read. Bounded in bytes: an input beyond the bound is read from the store when its turn
 * comes. Each kept input has a buffer of its own, so that the bound counts the memory really held.
 */
import { KEPT_BUFFER_BYTES, ownBytes } from '../../lib/own-bytes.ts';
import type { Body } from '../store/store.ts';

export class PayloadCache {
  readonly #bodies = new Map<number, Body>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Inputs that are kept. */
  get size(): number {
    return this.#bodies.size;
  }

  /** Bytes of memory that they take. */
  get bytes(): number {
    return this.#bytes;
  }

  get(seq: number): Body | undefined {
    return this.#bodies.get(seq);
  }

  /** Keeps an input unless the bound is reached. */
  put(seq: number, body: Body): void {
    const size = sizeOf(body);
    if (this.#bytes + size > this.#maxBytes || this.#bodies.has(seq)) return;
    this.#bodies.set(seq, 'inline' in body ? { inline: ownBytes(body.inline) } : body);
    this.#bytes += size;
  }

  /** Removes the input of a job that ended. */
  delete(seq: number): void {
    const body = this.#bodies.get(seq);
    if (body === undefined) return;
    this.#bodies.delete(seq);
    this.#bytes -= sizeOf(body);
  }

  clear(): void {
    this.#bodies.clear();
    this.#bytes = 0;
  }
}

function sizeOf(body: Body): number {
  return KEPT_BUFFER_BYTES + ('inline' in body ? body.inline.length : body.blob.length);
}

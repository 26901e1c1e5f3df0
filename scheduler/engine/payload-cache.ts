/**
 * Inputs of jobs that will be handed out soon (leased, or in a head window), so that a dispatch
 * needs no read. Bounded in bytes: an input beyond the bound is read from the store when its turn
 * comes. Each kept input has a buffer of its own, so that the bound counts the memory really held.
 */
import { memoryBytes, ownPayload, type Payload } from '../../lib/payload.ts';

export class PayloadCache {
  readonly #payloads = new Map<number, Payload>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Inputs that are kept. */
  get size(): number {
    return this.#payloads.size;
  }

  /** Bytes of memory that they take. */
  get bytes(): number {
    return this.#bytes;
  }

  get(seq: number): Payload | undefined {
    return this.#payloads.get(seq);
  }

  /** Keeps an input unless the bound is reached. */
  put(seq: number, payload: Payload): void {
    const size = memoryBytes(payload);
    if (this.#bytes + size > this.#maxBytes || this.#payloads.has(seq)) return;
    this.#payloads.set(seq, ownPayload(payload));
    this.#bytes += size;
  }

  /** Removes the input of a job that ended. */
  delete(seq: number): void {
    const payload = this.#payloads.get(seq);
    if (payload === undefined) return;
    this.#payloads.delete(seq);
    this.#bytes -= memoryBytes(payload);
  }

  clear(): void {
    this.#payloads.clear();
    this.#bytes = 0;
  }
}

/**
 * Inputs of jobs that will be dispatched soon (leased, or in a head window), so that a dispatch needs no read. Bounded
 * in bytes: an input beyond the limit is read from the store at its dispatch. Each kept input has its own buffer, so
 * that the limit counts the memory really used.
 */
import { memoryBytes, ownPayload, type Payload } from '../../lib/payload.ts';

export class PayloadCache {
  readonly #payloads = new Map<number, Payload>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Number of kept inputs. */
  get size(): number {
    return this.#payloads.size;
  }

  /** Bytes of memory in use. */
  get bytes(): number {
    return this.#bytes;
  }

  get(seq: number): Payload | undefined {
    return this.#payloads.get(seq);
  }

  /** Keeps an input unless the limit is reached. */
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

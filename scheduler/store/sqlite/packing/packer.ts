/**
 * A compact binary form for messages to and from the store thread. One transferred buffer replaces thousands of cloned
 * objects, at a fraction of the main thread's CPU time (measured by `bench/store/packing.ts`). Only this process reads
 * it, so it has no versions.
 */

/** Marks a null text or null bytes in place of a length. */
const NONE = 0xffff_ffff;
/** Length up to which a loop over ASCII is faster than the encoder. */
const LOOP_LIMIT = 80;
const FIRST_SIZE = 4_096;

/** Writes values one after another into a growing buffer. */
export class Packer {
  #bytes: Buffer;
  #view: DataView;
  #at = 0;

  constructor(size = FIRST_SIZE) {
    this.#bytes = Buffer.from(new ArrayBuffer(size));
    this.#view = new DataView(this.#bytes.buffer);
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#at++] = value;
  }

  /** Any number except NaN, which encodes null. */
  number(value: number | null): void {
    this.#reserve(8);
    this.#view.setFloat64(this.#at, value ?? Number.NaN, true);
    this.#at += 8;
  }

  /** From 0 to 2³² − 2. */
  count(value: number): void {
    this.#reserve(4);
    this.#view.setUint32(this.#at, value, true);
    this.#at += 4;
  }

  bigint(value: bigint): void {
    this.#reserve(8);
    this.#view.setBigInt64(this.#at, value, true);
    this.#at += 8;
  }

  text(value: string | null): void {
    if (value === null) {
      this.count(NONE);
      return;
    }
    const length = value.length;
    this.#reserve(4 + length * 3);
    const start = this.#at + 4;
    let at = start;
    if (length <= LOOP_LIMIT) {
      const bytes = this.#bytes;
      const end = start + length;
      for (; at < end; at++) {
        const code = value.charCodeAt(at - start);
        if (code > 127) break;
        bytes[at] = code;
      }
      if (at < end) at = start + bytes.write(value, start, 'utf8');
    } else {
      at += this.#bytes.write(value, start, 'utf8');
    }
    this.#view.setUint32(this.#at, at - start, true);
    this.#at = at;
  }

  bytes(value: Uint8Array | null): void {
    if (value === null) {
      this.count(NONE);
      return;
    }
    this.#reserve(4 + value.length);
    this.#view.setUint32(this.#at, value.length, true);
    this.#bytes.set(value, this.#at + 4);
    this.#at += 4 + value.length;
  }

  /** Bytes written so far. */
  get size(): number {
    return this.#at;
  }

  /** Returns the buffer for a transfer; the packer cannot be used again. The bytes beyond {@link size} are unused. */
  finish(): ArrayBuffer {
    return this.#bytes.buffer as ArrayBuffer;
  }

  /** Returns the buffer without unused bytes, for a buffer whose views are kept. */
  finishTrimmed(): ArrayBuffer {
    return this.finish().transfer(this.#at);
  }

  #reserve(more: number): void {
    const needed = this.#at + more;
    if (needed <= this.#bytes.length) return;
    const size = Math.max(needed, this.#bytes.length * 2);
    this.#bytes = Buffer.from((this.#bytes.buffer as ArrayBuffer).transfer(size));
    this.#view = new DataView(this.#bytes.buffer);
  }
}

/** Reads the values of a {@link Packer} in the same order. */
export class Unpacker {
  readonly #bytes: Buffer;
  readonly #view: DataView;
  #at = 0;

  constructor(buffer: ArrayBuffer) {
    this.#bytes = Buffer.from(buffer);
    this.#view = new DataView(buffer);
  }

  byte(): number {
    return this.#view.getUint8(this.#at++);
  }

  number(): number {
    const value = this.#view.getFloat64(this.#at, true);
    this.#at += 8;
    return value;
  }

  numberOrNull(): number | null {
    const value = this.number();
    return Number.isNaN(value) ? null : value;
  }

  count(): number {
    const value = this.#view.getUint32(this.#at, true);
    this.#at += 4;
    return value;
  }

  bigint(): bigint {
    const value = this.#view.getBigInt64(this.#at, true);
    this.#at += 8;
    return value;
  }

  text(): string {
    const value = this.textOrNull();
    if (value === null) throw new Error('an encoded string is missing');
    return value;
  }

  textOrNull(): string | null {
    const length = this.count();
    if (length === NONE) return null;
    const start = this.#at;
    this.#at += length;
    return this.#bytes.toString('utf8', start, this.#at);
  }

  /** Returns a view into the buffer, which lives as long as the view. */
  bytes(): Uint8Array {
    const value = this.bytesOrNull();
    if (value === null) throw new Error('encoded bytes are missing');
    return value;
  }

  bytesOrNull(): Uint8Array | null {
    const length = this.count();
    if (length === NONE) return null;
    const start = this.#at;
    this.#at += length;
    return new Uint8Array(this.#view.buffer, start, length);
  }

  list<T>(item: () => T): T[] {
    const length = this.count();
    const items: T[] = [];
    for (let i = 0; i < length; i++) items.push(item());
    return items;
  }
}

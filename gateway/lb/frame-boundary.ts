/**
 * Follows the frames of a WebSocket (RFC 6455, section 5.2) that pass in one direction. Bytes are passed on as they
 * are; this knows only whether a frame is incomplete, so that a Close frame can be added between two.
 */

const CLOSE = 0x8;
const LONGEST_HEAD = 14;

export class FrameBoundary {
  readonly #head = new Uint8Array(LONGEST_HEAD);
  #have = 0;
  #need = 2;
  /** Bytes of the payload to come. */
  #left = 0;
  #closed = false;

  /** Whether another frame may follow: none is incomplete, and none was a Close frame. */
  get isOpen(): boolean {
    return !this.#closed && this.#have === 0 && this.#left === 0;
  }

  /** A Close frame has begun. */
  get isClosed(): boolean {
    return this.#closed;
  }

  /** These bytes have passed. */
  passed(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#left > 0) {
        const step = Math.min(this.#left, bytes.length - at);
        this.#left -= step;
        at += step;
      } else {
        this.#head[this.#have++] = bytes[at++] ?? 0;
        if (this.#have === 2) this.#need = lengthOf(this.#head);
        if (this.#have === this.#need) this.#begin();
      }
    }
  }

  #begin(): void {
    const [first = 0, second = 0] = this.#head;
    if ((first & 0x0f) === CLOSE) this.#closed = true;
    const short = second & 0x7f;
    const bytes = short === 126 ? 2 : short === 127 ? 8 : 0;
    let length = bytes === 0 ? short : 0;
    for (const byte of this.#head.subarray(2, 2 + bytes)) length = length * 256 + byte;
    this.#left = length;
    this.#have = 0;
    this.#need = 2;
  }
}

const MAX_REASON_BYTES = 123;

/** Returns a Close frame of a server. A longer `reason` than 123 bytes is cut between characters. */
export function closeFrame(code: number, reason: string): Buffer {
  const room = Buffer.alloc(MAX_REASON_BYTES);
  const text = room.subarray(0, new TextEncoder().encodeInto(reason, room).written);
  return Buffer.concat([Buffer.from([0x80 | CLOSE, text.length + 2, code >> 8, code & 0xff]), text]);
}

/** The length of a frame's head, by its first two bytes. */
function lengthOf([, second = 0]: Uint8Array): number {
  const short = second & 0x7f;
  return 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + ((second & 0x80) === 0 ? 0 : 4);
}

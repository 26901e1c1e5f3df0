/** Frames of a WebSocket (RFC 6455, section 5) at the server's side, without extensions. */

export const OPCODES = { continuation: 0x0, text: 0x1, binary: 0x2, close: 0x8, ping: 0x9, pong: 0xa } as const;

/** Longest message, bytes, whatever its frames. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const MAX_CONTROL_BYTES = 125;

/** The peer broke the protocol; the connection is closed with `code`. */
export class FrameError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export type Received =
  | { readonly kind: 'message'; readonly data: string | Uint8Array<ArrayBuffer> }
  | { readonly kind: 'ping'; readonly data: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'close'; readonly code: number; readonly reason: string };

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads the frames of a client; `push` returns what is complete. */
export class FrameReader {
  readonly #head: number[] = [];
  /** The current frame's payload. */
  #opcode = 0;
  #isFinal = false;
  #mask: readonly number[] = [];
  #left = -1;
  #at = 0;
  #parts: Uint8Array[] = [];
  /** The fragmented message: its opcode (0: none), its parts and their length. */
  #type = 0;
  #fragments: Uint8Array[] = [];
  #length = 0;

  /** @throws FrameError */
  push(bytes: Uint8Array): Received[] {
    const received: Received[] = [];
    let at = 0;
    while (at < bytes.length) {
      if (this.#left < 0) {
        this.#head.push(bytes[at++] ?? 0);
        this.#readHead();
      } else {
        const part = Uint8Array.from(bytes.subarray(at, at + this.#left));
        for (let i = 0; i < part.length; i++) part[i] = (part[i] ?? 0) ^ (this.#mask[(this.#at + i) & 3] ?? 0);
        this.#at += part.length;
        this.#left -= part.length;
        at += part.length;
        this.#parts.push(part);
      }
      if (this.#left === 0) {
        const whole = this.#complete();
        if (whole !== null) received.push(whole);
      }
    }
    return received;
  }

  #readHead(): void {
    const head = this.#head;
    if (head.length < 2) return;
    const [first = 0, second = 0] = head;
    const short = second & 0x7f;
    const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
    if (head.length === 2) this.#checkHead(first, second);
    if (head.length < 6 + extra) return;
    const length = extra === 0 ? short : head.slice(2, 2 + extra).reduce((sum, byte) => sum * 256 + byte, 0);
    if (this.#length + length > MAX_MESSAGE_BYTES) throw new FrameError(1009, `a message must have at most ${MAX_MESSAGE_BYTES} bytes`);
    this.#opcode = first & 0x0f;
    this.#isFinal = (first & 0x80) !== 0;
    this.#mask = head.slice(2 + extra);
    this.#left = length;
    this.#at = 0;
    head.length = 0;
  }

  #checkHead(first: number, second: number): void {
    const opcode = first & 0x0f;
    const isControl = opcode >= OPCODES.close;
    if ((first & 0x70) !== 0) throw new FrameError(1002, 'a frame uses an extension that was not negotiated');
    if ((second & 0x80) === 0) throw new FrameError(1002, 'a client frame must be masked');
    if (opcode > OPCODES.pong || (opcode > OPCODES.binary && !isControl)) throw new FrameError(1002, 'a frame has an unknown opcode');
    if (isControl && ((first & 0x80) === 0 || (second & 0x7f) > MAX_CONTROL_BYTES))
      throw new FrameError(1002, 'a control frame must have at most 125 bytes and must not be fragmented');
    if (!isControl && (opcode === OPCODES.continuation) === (this.#type === 0)) throw new FrameError(1002, 'a fragment is out of order');
  }

  #complete(): Received | null {
    const data = joined(this.#parts);
    this.#parts = [];
    this.#left = -1;
    switch (this.#opcode) {
      case OPCODES.ping:
        return { kind: 'ping', data };
      case OPCODES.pong:
        return null;
      case OPCODES.close:
        return closeOf(data);
      default: {
        if (this.#opcode !== OPCODES.continuation) this.#type = this.#opcode;
        this.#fragments.push(data);
        this.#length += data.length;
        if (!this.#isFinal) return null;
        const whole = this.#fragments.length === 1 ? data : joined(this.#fragments);
        const isText = this.#type === OPCODES.text;
        this.#fragments = [];
        this.#length = 0;
        this.#type = 0;
        return { kind: 'message', data: isText ? textOf(whole) : whole };
      }
    }
  }
}

/** Returns a frame of a server. */
export function frameOf(opcode: number, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const { length } = payload;
  const extra = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const frame = new Uint8Array(2 + extra + length);
  frame[0] = 0x80 | opcode;
  frame[1] = extra === 0 ? length : extra === 2 ? 126 : 127;
  const view = new DataView(frame.buffer);
  if (extra === 2) view.setUint16(2, length);
  if (extra === 8) view.setBigUint64(2, BigInt(length));
  frame.set(payload, 2 + extra);
  return frame;
}

/** True for a code that a Close frame may have: of the protocol, of its registry, or of an application (section 7.4). */
export function isCloseCode(code: number): boolean {
  return Number.isInteger(code) && ((code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999));
}

/** Returns the payload of a Close frame. A long reason is cut between characters: it must be UTF-8. */
export function closePayload(code: number, reason: string): Uint8Array {
  const payload = new Uint8Array(MAX_CONTROL_BYTES);
  new DataView(payload.buffer).setUint16(0, code);
  const { written } = new TextEncoder().encodeInto(reason, payload.subarray(2));
  return payload.subarray(0, 2 + written);
}

function closeOf(data: Uint8Array): Received {
  if (data.length === 0) return { kind: 'close', code: 1005, reason: '' };
  const code = data.length === 1 ? 0 : ((data[0] ?? 0) << 8) | (data[1] ?? 0);
  if (!isCloseCode(code)) throw new FrameError(1002, 'a Close frame has no valid code');
  return { kind: 'close', code, reason: textOf(data.subarray(2)) };
}

function textOf(data: Uint8Array): string {
  try {
    return decoder.decode(data);
  } catch {
    throw new FrameError(1007, 'text must be UTF-8');
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

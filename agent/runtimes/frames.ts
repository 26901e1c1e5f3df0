/**
 * Frames on the private channel between the agent and a worker's process: u32 length of the rest, u32 length of the
 * header, the header as JSON, then a body of raw bytes. Little endian. A header begins with its kind: `{"t":"…"`.
 */
import type { Duplex } from 'node:stream';

/** Longest frame, bytes; a longer one is a protocol error. */
const MAX_FRAME_BYTES = 64 * 1024 * 1024;
const PREFIX_BYTES = 8;

/** Writes frames; those of one turn leave in one system call. */
export class FrameWriter {
  readonly #socket: Duplex;
  readonly #later: (flush: () => void) => void;
  #corked = false;

  /** `later` schedules the write: `process.nextTick` is soonest, `setImmediate` batches most. */
  constructor(socket: Duplex, later: (flush: () => void) => void) {
    this.#socket = socket;
    this.#later = later;
  }

  /** Sends a frame; frames sent after the channel's end are dropped, and the reader reports the end. */
  send(header: object, body?: Uint8Array): void {
    this.sendText(JSON.stringify(header), body);
  }

  /** The same for a header that is JSON text already. */
  sendText(header: string, body?: Uint8Array): void {
    if (!this.#socket.writable) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      this.#later(() => {
        this.#corked = false;
        this.#socket.uncork();
      });
    }
    const text = Buffer.from(header);
    const prefix = Buffer.allocUnsafe(PREFIX_BYTES + text.length);
    prefix.writeUInt32LE(4 + text.length + (body?.length ?? 0), 0);
    prefix.writeUInt32LE(text.length, 4);
    text.copy(prefix, PREFIX_BYTES);
    this.#socket.write(prefix);
    if (body !== undefined && body.length > 0) this.#socket.write(body);
  }
}

/** Most bytes of a kind of frame. */
export interface FrameLimit {
  readonly header: number;
  readonly body: number;
}

/** Returns the limit of a kind; undefined for a kind that does not exist. */
export type FrameLimits = (kind: string) => FrameLimit | undefined;

/** The start of a header, with its kind; some writers put a space behind the colon. */
const KIND = /^\{"t": ?"([a-z-]{1,16})"/;
const KIND_BYTES = 32;

/** Splits a byte stream into frames. */
export class FrameReader<Header> {
  readonly #onFrame: (header: Header, body: Buffer, text: string) => void;
  readonly #limits: FrameLimits | undefined;
  /** Bytes of an incomplete frame, in a buffer that doubles: no more is reserved than was sent. */
  #held: Buffer = Buffer.alloc(0);
  #have = 0;
  #want = PREFIX_BYTES;
  #isStopped = false;

  /**
   * `text`: the header as received. `limits` hold before a header is parsed or a body is kept; without them only the
   * longest frame is limited.
   */
  constructor(onFrame: (header: Header, body: Buffer, text: string) => void, limits?: FrameLimits) {
    this.#onFrame = onFrame;
    this.#limits = limits;
  }

  /** Drops what follows, also the rest of the bytes that are being split. */
  stop(): void {
    this.#isStopped = true;
    this.#held = Buffer.alloc(0);
    this.#have = 0;
  }

  /** Throws when the bytes are not frames. */
  push(data: Buffer): void {
    if (this.#isStopped) return;
    let bytes = data;
    if (this.#have > 0) {
      this.#append(data);
      if (this.#have < this.#want) return;
      bytes = this.#held.subarray(0, this.#have);
    }
    for (;;) {
      const end = this.#endOf(bytes);
      if (end === undefined) break;
      const bodyAt = PREFIX_BYTES + bytes.readUInt32LE(4);
      const text = bytes.toString('utf8', PREFIX_BYTES, bodyAt);
      const body = ownBytes(bytes.subarray(bodyAt, end));
      bytes = bytes.subarray(end);
      this.#onFrame(JSON.parse(text) as Header, body, text);
      if (this.#isStopped) return;
    }
    this.#held = bytes;
    this.#have = bytes.length;
  }

  /** Returns the length of the first frame if it is complete; sets how many bytes are needed otherwise. */
  #endOf(bytes: Buffer): number | undefined {
    if (bytes.length < PREFIX_BYTES) return this.#needs(PREFIX_BYTES);
    const length = bytes.readUInt32LE(0);
    const headerBytes = bytes.readUInt32LE(4);
    if (length > MAX_FRAME_BYTES || headerBytes + 4 > length) throw new Error('invalid frame on the private channel');
    const end = 4 + length;
    if (this.#limits !== undefined) {
      const kindEnd = PREFIX_BYTES + Math.min(headerBytes, KIND_BYTES);
      if (bytes.length < kindEnd) return this.#needs(kindEnd);
      const start = bytes.toString('latin1', PREFIX_BYTES, kindEnd);
      check(start, headerBytes, length - headerBytes - 4, this.#limits);
    }
    return bytes.length < end ? this.#needs(end) : end;
  }

  #needs(bytes: number): undefined {
    this.#want = bytes;
  }

  #append(data: Buffer): void {
    const have = this.#have + data.length;
    if (this.#held.length < have) {
      const grown = Buffer.allocUnsafeSlow(Math.max(have, Math.min(2 * this.#held.length, this.#want)));
      this.#held.copy(grown, 0, 0, this.#have);
      this.#held = grown;
    }
    data.copy(this.#held, this.#have);
    this.#have = have;
  }
}

function check(start: string, headerBytes: number, bodyBytes: number, limits: FrameLimits): void {
  const kind = KIND.exec(start)?.[1];
  const limit = kind === undefined ? undefined : limits(kind);
  if (kind === undefined || limit === undefined) throw new Error(`a frame has the unknown kind ${JSON.stringify(kind ?? start)}`);
  if (headerBytes > limit.header)
    throw new Error(`a frame ${kind} has a header of ${headerBytes} bytes; at most ${limit.header} are allowed`);
  if (bodyBytes > limit.body) throw new Error(`a frame ${kind} has ${bodyBytes} bytes; at most ${limit.body} are allowed`);
}

/** A short body is copied: kept by itself, it would keep everything that was read with it. */
function ownBytes(body: Buffer): Buffer {
  return body.length > 0 && 2 * body.length < body.buffer.byteLength ? Buffer.from(body) : body;
}

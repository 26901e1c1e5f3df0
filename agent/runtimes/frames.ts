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

/** Receives the frames of a reader. */
export interface FrameReaderOptions<Header> {
  /** `text`: the header as received. */
  readonly onFrame: (header: Header, body: Buffer, text: string) => void;
  /** Hold before a header is parsed or a body is kept; without them only the longest frame is limited. */
  readonly limits?: FrameLimits;
  /** Whether the body of a frame is kept while the rest of it arrives; a frame that is refused comes without its body. */
  readonly accepts?: (header: Header) => boolean;
}

interface BegunFrame<Header> {
  readonly header: Header;
  readonly text: string;
}

/** A buffer of incomplete frames is used again up to this length. */
const MAX_REUSED_BYTES = 128 * 1024;
const NOTHING: Buffer = Buffer.alloc(0);

/** Splits a byte stream into frames. It keeps no reference to the bytes that it was given. */
export class FrameReader<Header> {
  readonly #onFrame: (header: Header, body: Buffer, text: string) => void;
  readonly #limits: FrameLimits | undefined;
  readonly #accepts: (header: Header) => boolean;
  /** Bytes of an incomplete frame, in a buffer that doubles: no more is reserved than was sent. */
  #held: Buffer = NOTHING;
  #have = 0;
  #want = PREFIX_BYTES;
  /** The incomplete frame, once its header is complete and its body is accepted. */
  #begun: BegunFrame<Header> | undefined;
  /** Bytes that are left of the body of a frame that was refused. */
  #skipped = 0;
  #isStopped = false;

  constructor({ onFrame, limits, accepts = () => true }: FrameReaderOptions<Header>) {
    this.#onFrame = onFrame;
    this.#limits = limits;
    this.#accepts = accepts;
  }

  /** What has arrived of the incomplete frame, bytes. */
  get kept(): number {
    return this.#have;
  }

  /** The body of a frame that was refused is not over: no other reader can go on here. */
  get isSkipping(): boolean {
    return this.#skipped > 0;
  }

  /** Returns what has arrived of the incomplete frame, for another reader. */
  takeKept(): Buffer {
    const kept = Buffer.from(this.#held.subarray(0, this.#have));
    this.#have = 0;
    this.#begun = undefined;
    return kept;
  }

  /** Drops what follows, also the rest of the bytes that are being split. */
  stop(): void {
    this.#isStopped = true;
    this.#held = NOTHING;
    this.#have = 0;
    this.#begun = undefined;
  }

  /** Throws when the bytes are not frames. */
  push(data: Buffer): void {
    if (this.#isStopped) return;
    let bytes = data;
    if (this.#skipped > 0) {
      bytes = data.subarray(this.#skipped);
      this.#skipped -= data.length - bytes.length;
    }
    if (bytes.length === 0) return;
    if (this.#have > 0) {
      this.#append(bytes);
      if (this.#have < this.#want) return;
      bytes = this.#held.subarray(0, this.#have);
      this.#have = 0;
    }
    for (let end = this.#endOf(bytes); end !== undefined; end = this.#endOf(bytes)) {
      const { header, text } = this.#begun ?? this.#headerOf(bytes);
      this.#begun = undefined;
      const body = end > bytes.length ? NOTHING : this.#bodyOf(bytes.subarray(PREFIX_BYTES + bytes.readUInt32LE(4), end));
      this.#skipped = Math.max(0, end - bytes.length);
      bytes = bytes.subarray(end);
      this.#onFrame(header, body, text);
      if (this.#isStopped) return;
    }
    if (this.#held.length > MAX_REUSED_BYTES) this.#held = NOTHING;
    if (bytes.length > 0) this.#append(bytes);
  }

  /**
   * Returns the length of the first frame if it is complete, or if its header is and its body is refused; sets how many
   * bytes are needed otherwise.
   */
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
    if (bytes.length >= end) return end;
    if (bytes.length < PREFIX_BYTES + headerBytes) return this.#needs(PREFIX_BYTES + headerBytes);
    this.#begun ??= this.#headerOf(bytes);
    return this.#accepts(this.#begun.header) ? this.#needs(end) : end;
  }

  #headerOf(bytes: Buffer): BegunFrame<Header> {
    const text = bytes.toString('utf8', PREFIX_BYTES, PREFIX_BYTES + bytes.readUInt32LE(4));
    return { header: JSON.parse(text) as Header, text };
  }

  /** A body among other bytes, or among bytes of the caller, is copied: kept by itself it would keep them all. */
  #bodyOf(body: Buffer): Buffer {
    if (body.buffer !== this.#held.buffer || 2 * body.length < body.buffer.byteLength) return Buffer.from(body);
    this.#held = NOTHING;
    return body;
  }

  #needs(bytes: number): undefined {
    this.#want = bytes;
  }

  #append(data: Buffer): void {
    const have = this.#have + data.length;
    if (this.#held.length < have) this.#held = grown(this.#held, Math.max(have, Math.min(2 * this.#held.length, this.#want)));
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

/** Moves the bytes to a longer buffer. What they took is free at once: the collector may leave many buffers of a large frame for later. */
function grown(held: Buffer, length: number): Buffer {
  return held.length === 0 ? Buffer.allocUnsafeSlow(length) : Buffer.from((held.buffer as ArrayBuffer).transfer(length));
}

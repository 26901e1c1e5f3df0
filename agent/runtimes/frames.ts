/**
 * Frames on the private channel between the agent and a worker's process: u32 length of the rest, u32 length of the
 * header, the header as JSON, then a body of raw bytes. Little endian.
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

/** Splits a byte stream into frames. */
export class FrameReader<Header> {
  readonly #onFrame: (header: Header, body: Buffer, text: string) => void;
  #parts: Buffer[] = [];
  #have = 0;
  #want = PREFIX_BYTES;
  #isStopped = false;

  /** `text`: the header as received. */
  constructor(onFrame: (header: Header, body: Buffer, text: string) => void) {
    this.#onFrame = onFrame;
  }

  /** Drops what follows, also the rest of the bytes that are being split. */
  stop(): void {
    this.#isStopped = true;
    this.#parts = [];
  }

  /** Throws when the bytes are not frames. */
  push(data: Buffer): void {
    if (this.#isStopped) return;
    this.#parts.push(data);
    this.#have += data.length;
    if (this.#have < this.#want) return;
    let bytes = this.#parts.length === 1 ? data : Buffer.concat(this.#parts);
    this.#parts = [];
    for (;;) {
      if (bytes.length < PREFIX_BYTES) {
        this.#want = PREFIX_BYTES;
        break;
      }
      const length = bytes.readUInt32LE(0);
      const headerLength = bytes.readUInt32LE(4);
      if (length > MAX_FRAME_BYTES || headerLength + 4 > length) throw new Error('invalid frame on the private channel');
      const end = 4 + length;
      if (bytes.length < end) {
        this.#want = end;
        break;
      }
      const bodyAt = PREFIX_BYTES + headerLength;
      const text = bytes.toString('utf8', PREFIX_BYTES, bodyAt);
      const body = bytes.subarray(bodyAt, end);
      bytes = bytes.subarray(end);
      this.#onFrame(JSON.parse(text) as Header, body, text);
      if (this.#isStopped) return;
    }
    this.#have = bytes.length;
    if (bytes.length > 0) this.#parts.push(bytes);
  }
}

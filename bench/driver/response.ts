/**
 * Reads HTTP/1.1 responses from a connection. Supports only what a load driver needs, at a low cost, because driver and
 * subject share the machine's cores. A body must have a Content-Length; any other response is an error and is never
 * counted wrongly.
 */

export interface Response {
  readonly status: number;
  /** The body: a view of memory that the next response may overwrite. */
  readonly body: Buffer;
  /** The server closes the connection after this response. */
  readonly close: boolean;
}

/** The bytes are not a response that this reader supports. */
export class ProtocolError extends Error {}

const HEAD_END = Buffer.from('\r\n\r\n');
const NOTHING = Buffer.alloc(0);
const MAX_HEAD_BYTES = 64 * 1024;

export class ResponseReader {
  /** Bytes of an incomplete response. */
  #held: Buffer = NOTHING;
  #wanted = 0;

  /** Reads received bytes. Returns the response that they complete, or null. One request is open at a time. */
  push(chunk: Buffer): Response | null {
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    if (bytes.length < this.#wanted) return this.#hold(bytes, this.#wanted);
    const end = bytes.indexOf(HEAD_END);
    if (end === -1) {
      if (bytes.length > MAX_HEAD_BYTES) throw new ProtocolError('the head of a response does not end');
      return this.#hold(bytes, 0);
    }
    const head = bytes.toString('latin1', 0, end).toLowerCase();
    if (!head.startsWith('http/1.1 ')) throw new ProtocolError(`not an HTTP/1.1 response: ${head.slice(0, 40)}`);
    const status = Number(head.slice(9, 12));
    const from = end + HEAD_END.length;
    const whole = from + bodyLength(head, status);
    if (bytes.length < whole) return this.#hold(bytes, whole);
    if (bytes.length > whole) throw new ProtocolError('more bytes than the response has');
    this.#held = NOTHING;
    this.#wanted = 0;
    return { status, body: bytes.subarray(from, whole), close: head.includes('\r\nconnection: close') };
  }

  /** True while a response has started and has not ended. */
  get partial(): boolean {
    return this.#held.length > 0;
  }

  #hold(bytes: Buffer, wanted: number): null {
    this.#held = bytes;
    this.#wanted = wanted;
    return null;
  }
}

function bodyLength(head: string, status: number): number {
  if (status === 204 || status === 304) return 0;
  const at = head.indexOf('\r\ncontent-length:');
  if (at === -1) throw new ProtocolError(`a response (status ${status}) has no content-length`);
  const from = at + 17;
  const end = head.indexOf('\r\n', from);
  return Number(head.slice(from, end === -1 ? undefined : end));
}

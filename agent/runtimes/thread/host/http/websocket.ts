/**
 * The value of a parameter called `websocket`: the caller's WebSocket, at the function's side.
 *
 *     handshake ──first use, or accept()──▶ open ──close(), the caller's Close, the function's end──▶ closed
 *
 * A function that never uses it has its return value sent as an ordinary response, for example a 403.
 */
import { createHash } from 'node:crypto';

import { toJson } from '../call/output.ts';
import type { RequestBody } from './body.ts';
import { closePayload, FrameError, frameOf, FrameReader, isCloseCode, OPCODES } from './websocket-frames.ts';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** Unread messages, bytes, beyond which the caller must wait. */
const UNREAD_BYTES = 1024 * 1024;
const encoder = new TextEncoder();

type Message = string | Uint8Array<ArrayBuffer>;

/** A message was sent after the end. */
export class SocketClosed extends Error {}

export interface WebSocketDeps {
  readonly request: Request;
  readonly body: RequestBody;
  /** Sends the head of the response. */
  readonly head: (headers: readonly (readonly [string, string])[]) => void;
  /** Sends bytes, within the caller's credit. */
  readonly write: (bytes: Uint8Array) => Promise<void>;
}

export class FunctionWebSocket implements AsyncIterable<Message> {
  /** The handshake: its URL and headers. */
  readonly request: Request;
  /** The code and reason of the caller's Close frame; 1006 when it disconnected without one. */
  closeCode: number | undefined;
  closeReason = '';
  readonly #deps: WebSocketDeps;
  #isAccepted = false;
  #isAnsweringPing = false;
  #isClosed = false;
  /** The caller sends nothing more. */
  #isEnded = false;
  readonly #unread: Message[] = [];
  #unreadBytes = 0;
  #wakeReader: () => void = () => undefined;
  #wakePump: () => void = () => undefined;
  /** Frames are sent one after the other. */
  #sending: Promise<void> = Promise.resolve();

  constructor(deps: WebSocketDeps) {
    this.request = deps.request;
    this.#deps = deps;
  }

  get isAccepted(): boolean {
    return this.#isAccepted;
  }

  /** Subprotocols that the caller offers. */
  get protocols(): string[] {
    const offered = this.request.headers.get('sec-websocket-protocol') ?? '';
    return offered.split(',').flatMap((each) => (each.trim() === '' ? [] : [each.trim()]));
  }

  /** Opens it, with one of the offered subprotocols. Without this call the first use opens it, with none. */
  accept({ protocol }: { readonly protocol?: string } = {}): void {
    if (this.#isAccepted) throw new Error('the WebSocket is already open');
    if (protocol !== undefined && !this.protocols.includes(protocol))
      throw new Error(`protocol: ${JSON.stringify(protocol)} is not among the protocols that the caller offers`);
    this.#isAccepted = true;
    const key = this.request.headers.get('sec-websocket-key') ?? '';
    const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64');
    this.#deps.head([['sec-websocket-accept', accept], ...(protocol === undefined ? [] : [['sec-websocket-protocol', protocol] as const])]);
    void this.#pump();
  }

  /**
   * Sends text, bytes, or any other value as JSON. Resolves once it is on its way: awaiting it keeps a slow caller from
   * filling the memory. Rejects when the WebSocket is closed.
   */
  async send(data: unknown): Promise<void> {
    this.#open();
    if (this.#isClosed) throw new SocketClosed('the WebSocket is closed');
    if (data instanceof Uint8Array) await this.#frame(OPCODES.binary, data);
    else if (data instanceof ArrayBuffer) await this.#frame(OPCODES.binary, new Uint8Array(data));
    else await this.#frame(OPCODES.text, encoder.encode(typeof data === 'string' ? data : toJson(data, 'message')));
  }

  /** Returns the next message; undefined when the WebSocket is closed. */
  async receive(): Promise<Message | undefined> {
    this.#open();
    while (this.#unread.length === 0) {
      if (this.#isEnded || this.#isClosed) return undefined;
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
    const message = this.#unread.shift();
    this.#unreadBytes -= message?.length ?? 0;
    this.#wakePump();
    return message;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Message> {
    for (let message = await this.receive(); message !== undefined; message = await this.receive()) yield message;
  }

  /**
   * Closes it; idempotent. `code`: 1000, or 3000 to 4999 for the application's own. Of `reason` at most 123 bytes are sent.
   * Rejects with a RangeError for a code that may not be sent.
   */
  async close(code = 1000, reason = ''): Promise<void> {
    if (!isCloseCode(code))
      throw new RangeError(`code: ${String(code)} may not be sent; use 1000, or 3000 to 4999 for the application's own`);
    if (typeof reason !== 'string') throw new TypeError(`reason: must be a string, not ${typeof reason}`);
    this.#open();
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#wakeReader();
    this.#wakePump();
    await this.#frame(OPCODES.close, closePayload(code, reason)).catch(() => undefined);
  }

  #open(): void {
    if (!this.#isAccepted) this.accept();
  }

  #frame(opcode: number, payload: Uint8Array): Promise<void> {
    const sent = this.#sending.then(() => this.#deps.write(frameOf(opcode, payload)));
    this.#sending = sent.catch(() => undefined);
    return sent;
  }

  /** Of the pings that arrive while a response waits for credit, none needs another one (RFC 6455, section 5.5.3). */
  #answerPing(data: Uint8Array): void {
    if (this.#isClosed || this.#isAnsweringPing) return;
    this.#isAnsweringPing = true;
    void this.#frame(OPCODES.pong, data)
      .catch(() => undefined)
      .then(() => {
        this.#isAnsweringPing = false;
      });
  }

  /** Reads frames until the end, and answers pings and the caller's Close. */
  async #pump(): Promise<void> {
    const reader = new FrameReader();
    try {
      for (let bytes = await this.#deps.body.next(); bytes !== undefined; bytes = await this.#deps.body.next()) {
        for (const received of reader.push(bytes)) {
          if (received.kind === 'message') {
            this.#unread.push(received.data);
            this.#unreadBytes += received.data.length;
            this.#wakeReader();
          } else if (received.kind === 'ping') {
            this.#answerPing(received.data);
          } else {
            this.closeCode = received.code;
            this.closeReason = received.reason;
            await this.close(received.code === 1005 ? 1000 : received.code);
            return;
          }
        }
        while (this.#unreadBytes > UNREAD_BYTES && !this.#isClosed) {
          await new Promise<void>((resolve) => {
            this.#wakePump = resolve;
          });
        }
      }
    } catch (error) {
      if (error instanceof FrameError) await this.close(error.code, error.message);
      // Otherwise the caller has disconnected, which is an end as any other.
    } finally {
      this.#isEnded = true;
      this.closeCode ??= 1006;
      this.#wakeReader();
    }
  }
}

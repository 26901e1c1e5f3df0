/**
 * One HTTP request to a worker with its own server, or an upgraded connection (WebSocket).
 *
 * When it fails, the caller's side learns whether another worker may receive it:
 *
 * | The connection | then |
 * |---|---|
 * | was never established (refused, no route, time-out) | nothing was sent: `untouched` |
 * | was reset before the first byte of a response; an idempotent method without a body | `untouched`, but WORKER_LOST: see below |
 * | the same, and nothing listens there any more | `untouched`: it was accepted in place of a server that is gone |
 * | ended in another way before that byte, beside other requests; the same methods | `untouched`, but WORKER_LOST: each of them may have ended the server |
 * | ended in another way | unknown: not `untouched` |
 *
 * The kernel resets a connection when its server exits with unread bytes, or before the server accepted it: the request
 * was not read then. A server may also request a reset after reading everything; for an idempotent method a retry is
 * allowed by HTTP (RFC 9110, section 9.2.2), and the gateway retries once only. Where a worker has a network of its own, pasta accepts a
 * connection before it knows whether anything listens, and resets it when nothing does: such a worker counts as one that refused. It
 * gets no further request, so one request meets each worker once and needs no limit of retries.
 */
import { request as httpRequest, type Agent, type ClientRequest, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

import { CALLER_DISCONNECTED } from '../../../lib/http-messages.ts';
import type { WorkerEnd } from '../../../proto/gen/capstan/v1/invoke.ts';
import { isIdempotent } from '../idempotent.ts';
import { HTTP_WINDOW_BYTES, type HttpCall, type HttpEvents, type HttpRequest } from '../runtime.ts';
import { limitInformation } from './information.ts';
import { failedWriteOf } from './read-before-close.ts';
import { CONNECT_MS } from './server-agent.ts';
import type { Reach } from './site.ts';

/** A body of at most this size does not wait for an early response, bytes. */
const MAX_SHORT_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);
const RESET = new Set(['ECONNRESET', 'EPIPE']);

export interface ProxiedDeps {
  readonly agent: Agent;
  /** Whether it is known that nothing listens there. */
  readonly isRefused: () => boolean;
  /** Nothing listens there. */
  readonly onRefused: () => void;
  /** Time for which the start of a long body waits for an early response, ms; 0: none. */
  readonly holdMs: number;
  /** The worker sent something other than an HTTP response; a line for its log. */
  readonly onInvalid: (line: string) => void;
  readonly onOver: () => void;
  /** The connection was lost. Returns what the request had to do with the end of the server; undefined when it was alone or not read. */
  readonly workerEndOf: (request: ProxiedRequest, isUnread: boolean) => WorkerEnd | undefined;
}

export class ProxiedRequest implements HttpCall {
  readonly #events: HttpEvents;
  readonly #request: ClientRequest;
  readonly #deps: ProxiedDeps;
  /** An idempotent method, and no body so far. */
  #repeatable: boolean;
  #connected = false;
  /** Source of the response's bytes. */
  #source: IncomingMessage | Duplex | undefined;
  /** Destination of the body's bytes: the request, or the connection after an upgrade. */
  #sink: ClientRequest | Duplex;
  /**
   * What waits for the server's word: bytes that a caller sends before its connection is upgraded, or the start of a long
   * body. Bounded by the window of the body, as no credit is granted before.
   */
  #early: Uint8Array[] | null = null;
  #earlyEnded = false;
  /** It is the start of a body. */
  #isHeld = false;
  #window = HTTP_WINDOW_BYTES;
  #over = false;
  /** A request beside it has lost the server. */
  isSuspect = false;
  /** Fails the request when its connection breaks. */
  #why: string | undefined;

  constructor({ host, port }: Reach, order: HttpRequest, events: HttpEvents, deps: ProxiedDeps) {
    this.#events = events;
    this.#deps = deps;
    const { method, url, headers, body, ended, upgrade } = order;
    const path = url.slice(url.indexOf('/', url.indexOf('://') + 3));
    this.#repeatable = isIdempotent(method);
    const list = headers.flat();
    const taken = upgrade === true ? ['connection', 'Upgrade', 'upgrade', 'websocket'] : [];
    this.#request = httpRequest({
      host,
      port,
      method,
      path,
      headers: [...list, ...taken],
      agent: deps.agent,
    });
    const timer = setTimeout(() => this.#request.destroy(new Error(`no connection within ${CONNECT_MS / 1000} s`)), CONNECT_MS);
    this.#request.once('close', () => clearTimeout(timer));
    this.#request.once('socket', (socket) => {
      const connected = (): void => {
        this.#connected = true;
        clearTimeout(timer);
      };
      // The agent may hand it over once it is connected.
      if (socket.connecting) socket.once('connect', connected);
      else if (!socket.destroyed) connected();
    });
    limitInformation(this.#request);
    // Without bytes of a body the server closes in order after an early response; a reset makes pasta drop it.
    if (upgrade !== true && !ended && deps.holdMs > 0) {
      this.#early = [];
      this.#isHeld = true;
      const release = (): void => this.#sendEarly();
      const hold = setTimeout(release, deps.holdMs);
      this.#request.once('continue', release).once('response', release);
      this.#request.once('close', () => clearTimeout(hold));
    }
    this.#sink = this.#request;
    this.#request.on('response', (response) => {
      const { rawHeaders, statusCode } = response;
      events.head(statusCode ?? 502, pairs(rawHeaders), NOTHING, false);
      this.#readFrom(response);
    });
    this.#request.on('upgrade', (response, socket, head) => {
      events.head(101, pairs(response.rawHeaders), NOTHING, false);
      this.#sink = socket;
      this.#sendEarly();
      socket.on('error', (error) => this.#fail(error.message));
      if (head.length > 0) socket.unshift(head);
      this.#readFrom(socket);
    });
    this.#request.on('error', (reported: NodeJS.ErrnoException) => {
      // What Node reports at the end of a connection whose write had failed is not the cause.
      const error = failedWriteOf(this.#request.socket) ?? reported;
      // Node also reports ECONNRESET, without a system call, for a connection that ended normally.
      const isReset = error.syscall !== undefined && RESET.has(error.code ?? '');
      const isGone = isReset && deps.isRefused();
      if ((error.code === 'ECONNREFUSED' || isGone) && !this.#over) deps.onRefused();
      if (error.code?.startsWith('HPE_') === true) {
        this.#invalid(method, path, error.message);
        return;
      }
      this.#fail(error.message, isReset, isGone);
    });
    if (upgrade === true) {
      this.#early = [];
      this.#request.end();
      this.body(body, ended);
    } else {
      this.#request.flushHeaders();
      this.body(body, ended);
    }
  }

  body(bytes: Uint8Array, ended: boolean): void {
    if (this.#over) return;
    if (this.#early !== null) {
      this.#early.push(bytes);
      this.#earlyEnded ||= ended;
      // A short body is no upload to be refused: it waits no longer than its last part.
      if (ended && this.#isHeld && this.#early.reduce((sum, part) => sum + part.length, 0) <= MAX_SHORT_BYTES) this.#sendEarly();
      return;
    }
    if (bytes.length > 0) {
      this.#repeatable = false;
      // Written means handed to the kernel: the worker's own pace limits it.
      this.#sink.write(bytes, (error) => {
        if (error == null && !this.#over) this.#events.credit(bytes.length);
      });
    }
    if (ended) this.#sink.end();
  }

  credit(bytes: number): void {
    this.#window += bytes;
    if (this.#window > 0) this.#source?.resume();
  }

  /** The closed connection tells the user's server; there is nothing to stop by force. */
  abort(): void {
    if (!this.#destroy(CALLER_DISCONNECTED) || !this.#finish()) return;
    this.#events.failed('CONFLICT', CALLER_DISCONNECTED, false);
  }

  /** The server is gone. */
  fail(why: string): void {
    if (this.#destroy(why)) this.#fail(why);
  }

  /** Closes the connection; returns false when the request was over. */
  #destroy(why: string): boolean {
    this.#why ??= why;
    this.#request.destroy();
    this.#source?.destroy();
    return !this.#over;
  }

  #sendEarly(): void {
    if (this.#early === null || this.#over) return;
    const parts = this.#early;
    this.#early = null;
    this.body(Buffer.concat(parts), this.#earlyEnded);
  }

  #readFrom(source: IncomingMessage | Duplex): void {
    this.#source = source;
    source.on('data', (bytes: Buffer) => {
      if (this.#over) return;
      this.#window -= bytes.length;
      if (this.#window <= 0) source.pause();
      this.#events.body(bytes, false);
    });
    source.on('end', () => {
      if (this.#finish()) this.#events.body(NOTHING, true);
    });
    source.on('close', () => this.#fail('the worker aborted its response'));
  }

  /** The parser refused the response. */
  #invalid(method: string, path: string, reason: string): void {
    if (!this.#finish()) return;
    this.#deps.onInvalid(`the response to ${method} ${path.split('?', 1)[0] ?? ''} is invalid: ${reason}`);
    this.#events.failed('INTERNAL', `the worker's response is not valid HTTP: ${reason}`, false);
  }

  #fail(why: string, reset = false, isGone = false): void {
    if (this.#over) return;
    const isRepeatable = this.#repeatable && this.#request.socket?.bytesRead === 0;
    const workerEnd = this.#connected ? this.#deps.workerEndOf(this, reset) : undefined;
    const message = this.#why ?? `the worker did not respond: ${why}`;
    this.#finish();
    if (!this.#connected) this.#events.failed('UNAVAILABLE', message, true);
    else if (isRepeatable && isGone) this.#events.failed('UNAVAILABLE', message, true);
    else this.#events.failed('WORKER_LOST', message, isRepeatable && (reset || workerEnd !== undefined), workerEnd);
  }

  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#deps.onOver();
    return true;
  }
}

function pairs(rawHeaders: readonly string[]): [string, string][] {
  const found: [string, string][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) found.push([rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '']);
  return found;
}

/** One HTTP request to a worker that listens itself, or a connection that it takes over (WebSocket). */
import { request as httpRequest, type Agent, type ClientRequest, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

import { HTTP_WINDOW_BYTES, type HttpCall, type HttpEvents, type HttpRequest } from '../runtime.ts';
import type { Reach } from './site.ts';

const NOTHING = Buffer.alloc(0);

export class ProxiedRequest implements HttpCall {
  readonly #events: HttpEvents;
  readonly #request: ClientRequest;
  readonly #onOver: () => void;
  /** Where the answer's bytes come from. */
  #source: IncomingMessage | Duplex | undefined;
  /** Where the body's bytes go: the request, or the connection once it is taken over. */
  #sink: ClientRequest | Duplex;
  #window = HTTP_WINDOW_BYTES;
  #over = false;
  /** What fails the request when its connection breaks. */
  #why: string | undefined;

  constructor({ host, port }: Reach, agent: Agent, order: HttpRequest, events: HttpEvents, onOver: () => void) {
    this.#events = events;
    this.#onOver = onOver;
    const { method, url, headers, body, ended, upgrade } = order;
    const path = url.slice(url.indexOf('/', url.indexOf('://') + 3));
    const list = headers.flat();
    const taken = upgrade === true ? ['connection', 'Upgrade', 'upgrade', 'websocket'] : [];
    this.#request = httpRequest({
      host,
      port,
      method,
      path,
      headers: [...list, ...taken],
      // A connection that is taken over is not given back.
      ...(upgrade === true ? { agent: false } : { agent }),
    });
    this.#sink = this.#request;
    this.#request.on('response', (response) => {
      const { rawHeaders, statusCode } = response;
      events.head(statusCode ?? 502, pairs(rawHeaders), NOTHING, false);
      this.#readFrom(response);
    });
    this.#request.on('upgrade', (response, socket, head) => {
      events.head(101, pairs(response.rawHeaders), NOTHING, false);
      this.#sink = socket;
      socket.on('error', (error) => this.#fail(error.message));
      if (head.length > 0) socket.unshift(head);
      this.#readFrom(socket);
    });
    this.#request.on('error', (error: NodeJS.ErrnoException) => this.#fail(error.message, error.code === 'ECONNREFUSED'));
    if (upgrade === true) this.#request.end();
    else {
      this.#request.flushHeaders();
      this.body(body, ended);
    }
  }

  body(bytes: Uint8Array, ended: boolean): void {
    if (this.#over) return;
    if (bytes.length > 0) {
      // Written means handed to the system: the worker's own pace holds it up.
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

  /** A server of the user's own is told by the end of its connection; there is nothing to stop by force. */
  abort(): void {
    this.fail('the caller is gone');
  }

  /** Ends the request, whatever it is at. */
  fail(why: string): void {
    this.#why ??= why;
    this.#request.destroy();
    this.#source?.destroy();
    this.#fail(why);
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
    source.on('close', () => this.#fail('the worker broke its answer off'));
  }

  /** `untouched`: nobody listened, so nothing of the request has reached anyone. */
  #fail(why: string, untouched = false): void {
    if (this.#finish()) this.#events.failed('WORKER_LOST', this.#why ?? `the worker gave no answer: ${why}`, untouched);
  }

  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#onOver();
    return true;
  }
}

function pairs(rawHeaders: readonly string[]): [string, string][] {
  const found: [string, string][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) found.push([rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '']);
  return found;
}

/** The caller's side of an exchange over HTTP. Upgraded connections have theirs in tunnel.ts. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import type { CapstanError } from '../../lib/errors.ts';
import { drain } from '../http/drain.ts';
import { EARLY_DRAIN, sendError } from './answer.ts';
import type { Responder } from './exchange.ts';

/** As in nginx: the caller disconnected before the response. */
const CALLER_GONE = 499;

/** Time for written bytes to be sent before a connection is cut, ms. */
const CUT_MS = 5_000;

/** Connections whose response began before their request was complete. */
const answering = new WeakSet<Duplex>();

/** A response is being sent on the connection of an incomplete request. */
export function isAnswering(socket: Duplex): boolean {
  return answering.has(socket);
}

/** An HTTP answer. */
export class HttpResponder implements Responder {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  #ended = false;
  onDrain: () => void = () => undefined;
  /** The connection closed before the response was complete. */
  onGone: () => void = () => undefined;
  /** The response has begun, and is cut off here. */
  onBroken: (error: CapstanError) => void = () => undefined;
  /** Called once, when all is over. */
  onOver: () => void = () => undefined;
  /** The route that admitted the request; empty before. */
  route = '';

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request;
    this.#response = response;
    response.on('drain', () => this.onDrain());
    response.once('close', () => {
      if (!this.#ended) this.onGone();
      this.onOver();
    });
  }

  get status(): number {
    return this.#response.headersSent ? this.#response.statusCode : CALLER_GONE;
  }

  head(status: number, headers: string[]): void {
    if (!this.#request.complete) answering.add(this.#request.socket);
    this.#response.writeHead(status, headers);
  }

  write(bytes: Buffer): boolean {
    return this.#request.method === 'HEAD' || this.#response.write(bytes);
  }

  end(bytes: Buffer): void {
    this.#ended = true;
    // One call for a short response saves a turn of corking.
    if (bytes.length === 0 || this.#request.method === 'HEAD') this.#response.end();
    else this.#response.end(bytes);
    answering.delete(this.#request.socket);
    drain(this.#request, EARLY_DRAIN);
  }

  fail(error: CapstanError): void {
    this.#ended = true;
    if (this.#response.headersSent) {
      this.onBroken(error);
      this.#cut();
    } else sendError(this.#request, this.#response, error);
  }

  /** The output of the function before its failure is sent; the missing end shows that the response is incomplete. */
  #cut(): void {
    const { socket } = this.#response;
    if (socket === null || socket.destroyed) {
      this.#response.destroy();
      return;
    }
    this.#response.flushHeaders();
    socket.destroySoon();
    const force = setTimeout(() => socket.destroy(), CUT_MS);
    socket.once('close', () => clearTimeout(force));
  }
}

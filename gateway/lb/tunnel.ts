/**
 * The caller's side of a WebSocket: a connection whose bytes pass unchanged once the worker has responded with 101.
 *
 * Extensions, subprotocols and frames are the application's. Only when the connection must end and the worker did not
 * say so itself, the gateway adds a Close frame after the worker's last whole frame:
 *
 * | Code | Reason |
 * |---|---|
 * | 1001 | idle or open for too long; or the caller has closed its side, and the worker has not |
 * | 1008 | the caller's key no longer covers the endpoint |
 * | 1012 | the gateway stops, or the worker ended: connect again |
 * | 1014 | the connection to the worker's host was lost |
 */
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';

import type { CapstanError } from '../../lib/errors.ts';
import { hasBody } from '../../lib/response-validator.ts';
import { CALLER_DISCONNECTED } from '../../lib/http-messages.ts';
import { endSocket } from '../http/end-socket.ts';
import type { TunnelEnd } from '../metrics/lb-metrics.ts';
import type { Responder } from './exchange.ts';
import { closeFrame, FrameBoundary } from './frame-boundary.ts';

const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;
const SERVICE_RESTART = 1012;
const BAD_GATEWAY = 1014;

/** Time for a worker to end a connection whose caller has closed its side, ms. */
const HALF_CLOSED_MS = 5_000;

export interface TunnelOptions {
  /** Longest time without a byte in either direction, and in all, ms. */
  readonly idleMs: number;
  readonly longestMs: number;
  /** Sends an error response. */
  readonly refuse: (error: CapstanError) => void;
  /** The handshake has its response. */
  readonly onHead: (status: number) => void;
  /** The gateway ends the connection: the worker must learn of it. */
  readonly onCut: (why: string) => void;
  /** Called once for an open WebSocket, with the reason of its end. */
  readonly onEnd: (why: TunnelEnd) => void;
}

export class Tunnel implements Responder {
  readonly #socket: Duplex & { setTimeout?: (ms: number, done?: () => void) => unknown };
  readonly #options: TunnelOptions;
  readonly #frames = new FrameBoundary();
  #begun = false;
  #hasBody = true;
  /** The worker has responded with 101, and the connection has not ended. */
  #isOpen = false;
  #timer: NodeJS.Timeout | undefined;
  onDrain: () => void = () => undefined;

  constructor(socket: Duplex, options: TunnelOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.on('drain', () => this.onDrain());
    socket.once('close', () => this.#ended('caller'));
  }

  head(status: number, headers: string[]): void {
    this.#begun = true;
    this.#hasBody = status === 101 || hasBody('GET', status);
    const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`];
    for (let i = 0; i + 1 < headers.length; i += 2) lines.push(`${headers[i] ?? ''}: ${headers[i + 1] ?? ''}`);
    lines.push(...(status === 101 ? ['connection: Upgrade', 'upgrade: websocket'] : ['connection: close']), '', '');
    this.#socket.write(lines.join('\r\n'), 'latin1');
    if (status === 101) this.#open();
    this.#options.onHead(status);
  }

  write(bytes: Buffer): boolean {
    if (this.#isOpen) this.#frames.passed(bytes);
    return !this.#hasBody || this.#socket.write(bytes);
  }

  end(bytes: Buffer): void {
    if (this.#isOpen) {
      this.#frames.passed(bytes);
      this.#close(this.#frames.isClosed ? 'closed' : 'worker', SERVICE_RESTART, 'the worker ended the connection', bytes);
    } else endSocket(this.#socket, this.#hasBody ? bytes : '');
  }

  fail(error: CapstanError): void {
    const isLost = error.code === 'NODE_LOST';
    if (this.#isOpen) this.#close(isLost ? 'lost' : 'worker', isLost ? BAD_GATEWAY : SERVICE_RESTART, error.message);
    else if (this.#begun) this.#socket.destroy();
    else {
      this.#begun = true;
      this.#options.refuse(error);
    }
  }

  /** The caller has closed its side: the worker has a moment to end the connection. */
  halfClosed(): void {
    if (!this.#isOpen) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#cut('caller', GOING_AWAY, CALLER_DISCONNECTED), HALF_CLOSED_MS);
  }

  /** The gateway stops. */
  restart(): void {
    this.#cut('closing', SERVICE_RESTART, 'the gateway is restarting');
  }

  /** The caller may no longer call the endpoint. */
  revoke(reason: string): void {
    this.#cut('refused', POLICY_VIOLATION, reason);
  }

  #open(): void {
    const { idleMs, longestMs } = this.#options;
    this.#isOpen = true;
    this.#socket.setTimeout?.(idleMs, () => this.#cut('idle', GOING_AWAY, `idle for ${idleMs / 1000} s`));
    this.#timer = setTimeout(() => this.#cut('expired', GOING_AWAY, `open for ${longestMs / 1000} s, the maximum`), longestMs);
  }

  #cut(end: TunnelEnd, code: number, reason: string): void {
    if (!this.#isOpen) return;
    this.#options.onCut(reason);
    this.#close(end, code, reason);
  }

  /** Sends the worker's last bytes, and a Close frame if it has not sent one. */
  #close(end: TunnelEnd, code: number, reason: string, bytes: Buffer = Buffer.alloc(0)): void {
    const added = this.#frames.isOpen ? closeFrame(code, reason) : Buffer.alloc(0);
    this.#ended(end);
    endSocket(this.#socket, Buffer.concat([bytes, added]));
  }

  #ended(end: TunnelEnd): void {
    clearTimeout(this.#timer);
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#socket.setTimeout?.(0);
    this.#options.onEnd(end);
  }
}

/** One keep-alive connection with one open request at a time. Reconnects after it was closed. */
import { connect, type Socket } from 'node:net';

import { ResponseReader, type Response } from './response.ts';

export interface Exchange {
  /** From the write to the last byte, ms. */
  readonly ms: number;
  readonly response: Response;
}

export class Connection {
  readonly #host: string;
  readonly #port: number;
  #socket: Socket | null = null;
  #reader = new ResponseReader();
  #sentAt = 0;
  #done: ((exchange: Exchange) => void) | null = null;
  #fail: ((error: Error) => void) | null = null;

  constructor(host: string, port: number) {
    this.#host = host;
    this.#port = port;
  }

  /**
   * Sends a request and calls one of the two callbacks when it has ended. Callbacks, because at tens of thousands of
   * requests a second the driver's promises would take processor time from the subject.
   */
  send(bytes: Buffer, done: (exchange: Exchange) => void, fail: (error: Error) => void): void {
    this.#done = done;
    this.#fail = fail;
    const socket = this.#socket ?? this.#dial();
    this.#sentAt = performance.now();
    socket.write(bytes);
  }

  close(): void {
    this.#done = null;
    this.#fail = null;
    this.#socket?.destroy();
  }

  #dial(): Socket {
    const socket = connect({ host: this.#host, port: this.#port, noDelay: true });
    this.#reader = new ResponseReader();
    socket.on('data', (chunk) => this.#receive(socket, chunk));
    socket.on('error', (error) => this.#lost(socket, error));
    socket.on('close', () => this.#lost(socket, new Error('the server closed the connection')));
    this.#socket = socket;
    return socket;
  }

  #receive(socket: Socket, chunk: Buffer): void {
    if (socket !== this.#socket) return;
    let response: Response | null;
    try {
      response = this.#reader.push(chunk);
    } catch (error) {
      this.#lost(socket, error instanceof Error ? error : new Error(String(error)));
      return;
    }
    if (response === null) return;
    const ms = performance.now() - this.#sentAt;
    if (response.close) {
      this.#socket = null;
      socket.destroy();
    }
    const done = this.#done;
    this.#done = null;
    this.#fail = null;
    done?.({ ms, response });
  }

  #lost(socket: Socket, error: Error): void {
    if (socket !== this.#socket) return;
    this.#socket = null;
    socket.destroy();
    const fail = this.#fail;
    this.#done = null;
    this.#fail = null;
    fail?.(error);
  }
}

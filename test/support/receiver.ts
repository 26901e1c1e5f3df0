/** A receiver of webhooks: a real HTTP server that answers as it is told and keeps what it was sent. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A status to answer with, or what to do with the response; `never` leaves it open. */
export type Answer = number | 'never' | ((response: ServerResponse, request: Received) => void);

export class Receiver {
  /** Everything received, in order. */
  readonly received: Received[] = [];
  readonly #server: Server;
  readonly #answers: Answer[];
  #taken = 0;
  #wake: (() => void)[] = [];

  private constructor(answers: Answer[]) {
    this.#answers = answers;
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { method = '', url = '', headers } = request;
        const received = { method, url, headers, body: Buffer.concat(chunks) };
        this.received.push(received);
        this.#answer(response, received);
        for (const wake of this.#wake.splice(0)) wake();
      });
    });
  }

  /** Listens on loopback; answers in this order, the last one for ever. */
  static async open(t: { teardown(end: () => Promise<void>): void }, answers: Answer[] = [200], host = '127.0.0.1'): Promise<Receiver> {
    const receiver = new Receiver([...answers]);
    receiver.#server.listen(0, host);
    await once(receiver.#server, 'listening');
    t.teardown(() => receiver.close());
    return receiver;
  }

  /** Nobody listens any more. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  url(path = '/hook', host = '127.0.0.1'): string {
    return `http://${host}:${this.port}${path}`;
  }

  /** The next request that was not taken yet, waiting for it. */
  async next(): Promise<Received> {
    for (;;) {
      const found = this.received[this.#taken];
      if (found !== undefined) {
        this.#taken++;
        return found;
      }
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  #answer(response: ServerResponse, received: Received): void {
    const answer = (this.#answers.length > 1 ? this.#answers.shift() : this.#answers[0]) ?? 200;
    if (answer === 'never') return;
    if (typeof answer === 'number') response.writeHead(answer).end('whatever');
    else answer(response, received);
  }
}

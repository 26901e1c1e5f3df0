/** A proxy between a client and a server of TCP that can lose, hold back and cut what goes through it. */
import { createConnection, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

import type { ExecutionContext } from 'ava';

interface Link {
  readonly client: Socket;
  readonly server: Socket;
}

/** What happens to the bytes of a direction. */
type Passage = 'forward' | 'hold' | 'drop';

export class TcpProxy {
  readonly port: number;
  readonly #listener: Server;
  readonly #links = new Set<Link>();
  #toServer: Passage = 'forward';
  #toClient: Passage = 'forward';
  /** Bytes that still go to the server before the link is cut; null for all. */
  #left: number | null = null;
  readonly #held: { readonly link: Link; readonly bytes: Buffer }[] = [];
  #isPooler = false;
  #onPassed: (() => void) | null = null;
  /** A link that sends this is cut in place of it. */
  #cutAt: string | null = null;
  #target: number;

  private constructor(listener: Server, target: number) {
    this.#listener = listener;
    this.#target = target;
    this.port = (listener.address() as AddressInfo).port;
  }

  /** In front of a port of this host; it ends with the test. */
  static async open(t: ExecutionContext, target: number, host = '127.0.0.1'): Promise<TcpProxy> {
    const listener = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve) => listener.listen(0, host, resolve));
    const proxy = new TcpProxy(listener, target);
    listener.on('connection', (client) => proxy.#connected(client, proxy.#target));
    t.teardown(() => proxy.#close());
    return proxy;
  }

  /** Connections from now on go to another port. */
  pointTo(target: number): void {
    this.#target = target;
  }

  /** Nothing goes through any longer, and nothing ends: a server that accepts and never answers. */
  hang(): void {
    this.#toServer = 'drop';
    this.#toClient = 'drop';
  }

  /** Requests arrive, answers do not. */
  dropAnswers(): void {
    this.#toClient = 'drop';
  }

  /** A pooler of PostgreSQL has sessions of its own: the process that a client is told of is not the one that serves it. */
  actAsPooler(): void {
    this.#isPooler = true;
  }

  /** Requests are kept back until {@link deliver}, also those of clients that are gone by then. */
  hold(): void {
    this.#toServer = 'hold';
  }

  /** Everything goes through again, but for what was held back. */
  forward(): void {
    this.#toServer = 'forward';
    this.#toClient = 'forward';
    this.#left = null;
  }

  /** Gives the server what was held back; resolves when it has taken it and hung up. */
  async deliver(): Promise<void> {
    const links = new Set(this.#held.map(({ link }) => link).filter(({ server }) => !server.destroyed));
    const ended = [...links].map(({ server }) => new Promise<void>((resolve) => server.once('close', () => resolve())));
    for (const { link, bytes } of this.#held.splice(0)) link.server.write(bytes);
    for (const { server } of links) server.end();
    await Promise.all(ended);
  }

  /** So many bytes more reach the server; then every connection is cut. Resolves when that has happened. */
  cutAfter(bytes: number): Promise<void> {
    this.#left = bytes;
    return new Promise((resolve) => (this.#onPassed = resolve));
  }

  /** Cuts the next connection that sends `text`, before the server has it. Resolves when that has happened. */
  cutAt(text: string): Promise<void> {
    this.#cutAt = text;
    return new Promise((resolve) => (this.#onPassed = resolve));
  }

  cut(): void {
    for (const { client, server } of this.#links) {
      client.destroy();
      server.destroy();
    }
  }

  #connected(client: Socket, target: number): void {
    const server = createConnection({ port: target, host: '127.0.0.1', allowHalfOpen: true });
    const link = { client, server };
    this.#links.add(link);
    client.on('data', (bytes) => this.#request(link, bytes));
    server.on('data', (bytes) => {
      if (this.#toClient !== 'forward') return;
      if (this.#isPooler) renumber(bytes);
      client.write(bytes);
    });
    for (const socket of [client, server]) socket.on('error', () => socket.destroy());
    for (const event of ['end', 'close']) {
      client.once(event, () => {
        if (!this.#held.some((held) => held.link === link)) server.destroy();
      });
    }
    server.once('end', () => server.destroy());
    server.once('close', () => {
      this.#links.delete(link);
      client.destroy();
    });
  }

  #request(link: Link, bytes: Buffer): void {
    if (this.#cutAt !== null && bytes.includes(this.#cutAt)) {
      this.#cutAt = null;
      link.client.resetAndDestroy();
      link.server.destroy();
      this.#onPassed?.();
      return;
    }
    if (this.#toServer === 'hold') this.#held.push({ link, bytes });
    if (this.#toServer !== 'forward') return;
    if (this.#left === null) {
      link.server.write(bytes);
      return;
    }
    const part = bytes.subarray(0, this.#left);
    this.#left -= part.byteLength;
    link.server.write(part, () => {
      if (this.#left !== 0) return;
      this.cut();
      this.#onPassed?.();
    });
  }

  async #close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#listener.close(resolve));
  }
}

/** Changes the process of a BackendKeyData message of PostgreSQL: 'K', length 12, process, key. */
function renumber(bytes: Buffer): void {
  const at = bytes.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]));
  if (at >= 0) bytes.writeInt32BE(1, at + 5);
}

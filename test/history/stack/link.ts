/** A TCP proxy on one link of the stack, which can break every connection, or hold back all bytes for a while. */
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export class Link {
  readonly name: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #silent = false;

  private constructor(name: string, target: () => string) {
    this.name = name;
    this.#server = createServer({ pauseOnConnect: true }, (near) => this.#join(near, target()));
  }

  /** Listens on a free port of `host`; each connection goes on to the target as it is then, `host:port`. */
  static async open(name: string, target: () => string, host = '127.0.0.1'): Promise<Link> {
    const link = new Link(name, target);
    link.#server.listen(0, host);
    await once(link.#server, 'listening');
    return link;
  }

  /** `host:port` */
  get address(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return `${address}:${port}`;
  }

  /** Resets every connection; new ones pass. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Accepts connections and passes nothing in either direction until {@link resume}: to both sides the other is silent. */
  silence(): void {
    this.#silent = true;
    for (const socket of this.#sockets) socket.pause();
  }

  /** Passes what was held back. */
  resume(): void {
    this.#silent = false;
    for (const socket of this.#sockets) socket.resume();
  }

  async close(): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }

  #join(near: Socket, target: string): void {
    const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(target) ?? [];
    const far = connect({ host, port: Number(port), noDelay: true });
    near.setNoDelay(true);
    this.#pass(near, far);
    this.#pass(far, near);
  }

  /** Without `pipe`, which would resume a socket that is to be silent. */
  #pass(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    if (this.#silent) from.pause();
    from.on('data', (chunk) => {
      if (to.write(chunk)) return;
      from.pause();
      to.once('drain', () => {
        if (!this.#silent) from.resume();
      });
    });
    from.on('end', () => to.end());
    // What ends one side ends the other; the error itself is the other side's to notice.
    from.on('error', () => to.destroy());
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroySoon();
    });
    if (!this.#silent) from.resume();
  }
}

/** The bench's end of the probes in the parts: one socket, over which each part is asked for profiles. */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type { ProbeCommand, ProbeReply } from './probe.ts';

interface Probe {
  readonly socket: Socket;
  readonly lines: AsyncIterator<string>;
}

export class Probes {
  readonly #server: Server;
  readonly #path: string;
  readonly #probes = new Map<string, Probe>();
  #known = Promise.withResolvers<void>();

  /** `folder`: an existing folder for the socket. */
  constructor(folder: string) {
    this.#path = join(folder, 'probe.sock');
    this.#server = createServer((socket) => {
      socket.on('error', () => socket.destroy());
      const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
      void lines.next().then((line) => {
        if (line.done === true) return;
        this.#probes.set((JSON.parse(line.value) as ProbeReply).role, { socket, lines });
        this.#known.resolve();
        this.#known = Promise.withResolvers();
      });
    });
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#path);
    await once(this.#server, 'listening');
  }

  /** The environment of the processes that are to have a probe. */
  get env(): Readonly<Record<string, string>> {
    const preload = join(import.meta.dirname, 'probe.ts');
    return { NODE_OPTIONS: `--import=${preload}`, CAPSTAN_BENCH_PROBE: this.#path };
  }

  /** Sends a command to a part, which connects when it starts. Returns its reply. */
  async request(role: string, command: ProbeCommand): Promise<ProbeReply> {
    let probe = this.#probes.get(role);
    while (probe === undefined) {
      await this.#known.promise;
      probe = this.#probes.get(role);
    }
    probe.socket.write(`${command}\n`);
    const line = await probe.lines.next();
    if (line.done === true) throw new Error(`the ${role} ended while it was recorded`);
    return JSON.parse(line.value) as ProbeReply;
  }

  close(): void {
    for (const { socket } of this.#probes.values()) socket.destroy();
    this.#server.close();
  }
}

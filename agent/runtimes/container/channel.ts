/**
 * The private channel between the agent and one worker's container: a socket in a folder that is mounted in this
 * container only.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { chmod, mkdir, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';

import { ROLES, SOCKET } from './layout.ts';

/** Longest path of a socket, bytes (Linux sockaddr_un, including the terminator). */
const MAX_SOCKET_PATH = 107;

export interface Connections {
  /** Frames in both directions (host-protocol.ts). */
  readonly channel: Socket;
  /** Keys of the entered tasks. */
  readonly entry: Socket;
  /** Its close tells the container that the agent is gone; the container reports on it how the host ended. */
  readonly lifeline: Socket;
}

export class WorkerChannel {
  readonly folder: string;
  readonly #server: Server;
  readonly #waiting = new Set<Socket>();
  /** Resolves once the container's first process has connected; never rejects. */
  readonly connected: Promise<Connections>;

  private constructor(folder: string, server: Server) {
    this.folder = folder;
    this.#server = server;
    this.connected = this.#accept();
  }

  /** Creates the folder and listens in it. Rejects when the folder cannot be created. */
  static async open(folder: string): Promise<WorkerChannel> {
    await mkdir(folder, { recursive: true });
    // Independent of the umask: the image's user may be any user. On the host, the parent folders deny access.
    await chmod(folder, 0o755);
    await rm(join(folder, SOCKET), { force: true });
    const server = createServer();
    const channel = new WorkerChannel(folder, server);
    await listen(server, folder);
    await chmod(join(folder, SOCKET), 0o666);
    return channel;
  }

  /** Removes the folder; open connections continue. */
  async close(): Promise<void> {
    this.#server.close();
    for (const socket of this.#waiting) socket.destroy();
    await rm(this.folder, { recursive: true, force: true });
  }

  #accept(): Promise<Connections> {
    const { promise, resolve } = Promise.withResolvers<Connections>();
    const byRole = new Map<string, Socket>();
    this.#server.on('connection', (socket) => {
      this.#waiting.add(socket);
      // A broken connection means a dying container: its exit reports more.
      socket.on('error', () => undefined);
      socket.once('readable', () => {
        const role = (socket.read(1) as Buffer | null)?.toString() ?? '';
        if (byRole.has(role)) socket.destroy();
        else byRole.set(role, socket);
        const channel = byRole.get(ROLES.channel);
        const entry = byRole.get(ROLES.entry);
        const lifeline = byRole.get(ROLES.lifeline);
        if (channel === undefined || entry === undefined || lifeline === undefined) return;
        // Refuses further connections: the worker's own code could open one.
        this.#server.close();
        this.#server.removeAllListeners('connection');
        for (const each of [channel, entry, lifeline]) this.#waiting.delete(each);
        resolve({ channel, entry, lifeline });
      });
    });
    return promise;
  }
}

async function listen(server: Server, folder: string): Promise<void> {
  const path = join(folder, SOCKET);
  // Reaches a long path through a descriptor of its folder.
  const fd = Buffer.byteLength(path) > MAX_SOCKET_PATH ? openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY) : undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(fd === undefined ? path : `/proc/self/fd/${fd}/${SOCKET}`, () => {
        server.off('error', reject);
        resolve();
      });
    });
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * Accepts connections for a gRPC server. A connection is trusted once a call on it has had valid credentials. Untrusted
 * connections are limited in number, per peer and in total, and in time: the oldest is closed for a new one, since
 * honest callers send their credentials immediately.
 */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer, isIP, type AddressInfo, type Server as Listener, type Socket } from 'node:net';

import type { Server, ServerCredentials } from '@grpc/grpc-js';

import { CapstanError } from './errors.ts';
import { peerOf, type ConnectionEnd } from './grpc-admission.ts';
import { isErrno, messageOf } from './to-error.ts';

export interface ConnectionLimits {
  /** Untrusted connections of one peer, and of all. */
  readonly untrustedPerPeer: number;
  readonly untrusted: number;
  /** Connections in all. */
  readonly all: number;
  /** How long a connection may stay untrusted, ms. */
  readonly untrustedMs: number;
}

export const defaultConnectionLimits: ConnectionLimits = { untrustedPerPeer: 256, untrusted: 1_024, all: 16_384, untrustedMs: 60_000 };

/** During shutdown: how long untrusted connections may remain, ms. */
const STRANGERS_GRACE_MS = 500;

interface Connection {
  readonly socket: Socket;
  readonly peer: string;
  readonly name: string;
  readonly timer: NodeJS.Timeout;
}

export class GrpcListener {
  readonly #limits: ConnectionLimits;
  readonly #listeners: Listener[] = [];
  /** Oldest first. */
  readonly #untrusted = new Map<string, Connection>();
  readonly #untrustedOf = new Map<string, Set<Connection>>();
  readonly #sockets = new Set<Socket>();

  constructor(limits: ConnectionLimits = defaultConnectionLimits) {
    this.#limits = limits;
  }

  /** Numbers of open connections and of untrusted ones. */
  get counts(): { readonly all: number; readonly untrusted: number } {
    return { all: this.#sockets.size, untrusted: this.#untrusted.size };
  }

  /**
   * Listens on every address of `host`, all on one port, and passes connections to the server. Returns the port. Throws
   * ADDRESS_IN_USE when another program has the port, CONFIG when the address cannot be used; `field` names the
   * setting.
   */
  async listen(server: Server, { host, port, field }: ListenAt, credentials: ServerCredentials): Promise<number> {
    const injector = server.createConnectionInjector(credentials);
    const hosts = isIP(host) > 0 ? [host] : (await addressesOf(host, field)).map(({ address }) => address);
    let bound = port;
    let failure: unknown;
    for (const each of hosts) {
      const listener = createServer({ noDelay: true }, (socket) => {
        if (this.#admit(socket)) injector.injectConnection(socket);
      });
      try {
        // Processes of a cluster would share the port.
        listener.listen({ host: each, port: bound, exclusive: true });
        await once(listener, 'listening');
      } catch (error) {
        failure ??= error;
        continue;
      }
      bound = (listener.address() as AddressInfo).port;
      this.#listeners.push(listener);
    }
    if (this.#listeners.length > 0) return bound;
    if (isErrno(failure, 'EADDRINUSE'))
      throw new CapstanError('ADDRESS_IN_USE', `${field}: another program is listening on ${host}:${port}`, { field, cause: failure });
    throw new CapstanError('CONFIG', `${field}: cannot listen on ${host}:${port}: ${messageOf(failure)}`, { field, cause: failure });
  }

  /** A call on the connection had valid credentials. */
  trust({ remoteAddress, remotePort }: ConnectionEnd): void {
    this.#forget(this.#untrusted.get(nameOf(remoteAddress, remotePort)));
  }

  /** Accepts no new connection. */
  stop(): void {
    for (const listener of this.#listeners) listener.close();
  }

  /**
   * Shuts the server down: accepts no new call, lets open ones end, and cancels those still open after `graceMs`.
   * Resolves when no connection is left.
   */
  async shutDown(server: Server, graceMs: number): Promise<void> {
    this.stop();
    const strangers = setTimeout(
      () => {
        for (const connection of [...this.#untrusted.values()]) this.#drop(connection);
      },
      Math.min(graceMs, STRANGERS_GRACE_MS),
    );
    const deadline = setTimeout(() => {
      server.forceShutdown();
      for (const socket of this.#sockets) socket.destroy();
    }, graceMs);
    // An error here means that there is nothing (left) to close.
    await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
    // The library does not wait for connections that were passed to it.
    await Promise.all([...this.#sockets].map((socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()))));
    clearTimeout(strangers);
    clearTimeout(deadline);
  }

  #admit(socket: Socket): boolean {
    const { all, untrusted, untrustedPerPeer, untrustedMs } = this.#limits;
    const peer = peerOf(socket.remoteAddress);
    const others = this.#untrustedOf.get(peer) ?? new Set();
    if (others.size >= untrustedPerPeer) this.#drop(first(others));
    else if (this.#untrusted.size >= untrusted || this.#sockets.size >= all) this.#drop(first(this.#untrusted.values()));
    if (this.#sockets.size >= all) {
      socket.destroy();
      return false;
    }
    const connection: Connection = {
      socket,
      peer,
      name: nameOf(socket.remoteAddress, socket.remotePort),
      timer: setTimeout(() => this.#drop(connection), untrustedMs).unref(),
    };
    this.#sockets.add(socket);
    this.#untrusted.set(connection.name, connection);
    this.#untrustedOf.set(peer, (this.#untrustedOf.get(peer) ?? new Set()).add(connection));
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.#forget(connection);
    });
    return true;
  }

  #drop(connection: Connection | undefined): void {
    if (connection === undefined) return;
    this.#forget(connection);
    this.#sockets.delete(connection.socket);
    connection.socket.destroy();
  }

  /** The connection is trusted now, or closed. */
  #forget(connection: Connection | undefined): void {
    if (connection === undefined) return;
    clearTimeout(connection.timer);
    if (this.#untrusted.get(connection.name) === connection) this.#untrusted.delete(connection.name);
    const others = this.#untrustedOf.get(connection.peer);
    others?.delete(connection);
    if (others?.size === 0) this.#untrustedOf.delete(connection.peer);
  }
}

export interface ListenAt {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Setting named in errors. */
  readonly field: string;
}

async function addressesOf(host: string, field: string): Promise<{ readonly address: string }[]> {
  try {
    return await lookup(host, { all: true });
  } catch (cause) {
    throw new CapstanError('CONFIG', `${field}: ${host} is not an address of this host`, { field, cause });
  }
}

function nameOf(address: string | undefined, port: number | undefined): string {
  return `${address ?? ''} ${port ?? ''}`;
}

function first<T>(items: Iterable<T>): T | undefined {
  for (const item of items) return item;
  return undefined;
}

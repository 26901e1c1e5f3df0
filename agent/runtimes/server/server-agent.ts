/** Connections to a worker's server. */
import { Agent, type ClientRequestArgs } from 'node:http';
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import type { ReadingShare } from '../reading-shares.ts';
import { meterReads } from './metered-socket.ts';
import { readBeforeClose } from './read-before-close.ts';

/** Time-out of connecting, ms: the kernel would try for two minutes. */
export const CONNECT_MS = 5_000;

/**
 * Refuses a connection, as the kernel would, when nothing listens: where a worker has a network of its own, pasta accepts
 * connections in its place, and a request that was only accepted could not be sent to another worker. It looks again once the
 * connection is made and before anything is sent: its server may have ended meanwhile.
 */
export class ServerAgent extends Agent {
  readonly #isRefused: () => boolean;
  readonly #share: () => ReadingShare | undefined;

  /** `share`: what reading the connections counts for. */
  constructor(isRefused: () => boolean, share: () => ReadingShare | undefined = () => undefined) {
    super({ keepAlive: false });
    this.#isRefused = isRefused;
    this.#share = share;
  }

  /** Always calls back, and never returns the connection. */
  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    // With an error there is no stream.
    const done = callback as ((error: Error | null, stream?: Duplex) => void) | undefined;
    if (this.#isRefused()) {
      process.nextTick(() => done?.(refusal(options)));
      return undefined;
    }
    const socket: Socket = connect(options as NetConnectOpts);
    socket.setTimeout(CONNECT_MS, () => socket.destroy(new Error(`no connection within ${CONNECT_MS / 1000} s`)));
    const failed = (error: Error): void => done?.(error);
    socket.once('error', failed);
    socket.once('connect', () => {
      socket.off('error', failed).setTimeout(0).removeAllListeners('timeout');
      if (!this.#isRefused()) {
        readBeforeClose(socket);
        const share = this.#share();
        if (share !== undefined) meterReads(socket, share);
        done?.(null, socket);
        return;
      }
      socket.on('error', () => undefined).destroy();
      done?.(refusal(options));
    });
    return undefined;
  }
}

function refusal({ host, port }: ClientRequestArgs): Error {
  const text = `connect ECONNREFUSED ${host ?? ''}:${port ?? ''}`;
  return Object.assign(new Error(text), { code: 'ECONNREFUSED', syscall: 'connect' });
}

/** Connections to a worker's server. */
import { Agent, type ClientRequestArgs } from 'node:http';
import type { Duplex } from 'node:stream';

/**
 * Refuses a connection, as the kernel would, when nothing listens: where a worker has a network of its own, pasta accepts
 * connections in its place, and a request that was only accepted could not be sent to another worker.
 */
export class ServerAgent extends Agent {
  readonly #isRefused: () => boolean;

  constructor(isRefused: () => boolean) {
    super({ keepAlive: false });
    this.#isRefused = isRefused;
  }

  override createConnection(
    options: ClientRequestArgs,
    callback?: (error: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    if (!this.#isRefused()) return super.createConnection(options, callback);
    const text = `connect ECONNREFUSED ${options.host ?? ''}:${options.port ?? ''}`;
    const error = Object.assign(new Error(text), { code: 'ECONNREFUSED', syscall: 'connect' });
    // With an error there is no stream.
    process.nextTick(() => (callback as ((error: Error) => void) | undefined)?.(error));
    return undefined;
  }
}

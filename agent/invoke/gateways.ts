/**
 * Keeps one stream to each gateway that the scheduler lists. One that is no longer listed keeps its stream for a while: a
 * scheduler that took the queue over lists a gateway once that gateway has found it, and requests go on meanwhile.
 */
import type { Logger } from 'pino';

import { clientCredentials, type TlsConfig } from '../../lib/grpc-tls.ts';
import type { ServingWorker } from '../../proto/gen/capstan/v1/invoke.ts';
import type { Gateways as GatewayList } from '../../proto/gen/capstan/v1/nodes.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { HttpCall, HttpEvents, HttpRequest } from '../runtimes/runtime.ts';
import { GatewayLink } from './gateway-link.ts';

/** How long a stream outlives its place in the list, ms: gateways find a new owner within seconds. */
const GRACE_MS = 30_000;

export interface GatewaysOptions {
  readonly tls: TlsConfig;
  readonly log: Logger;
  readonly nodeId: () => string;
  readonly workers: () => ServingWorker[];
  readonly serve: (workerId: string, request: HttpRequest, events: HttpEvents) => HttpCall | null;
  /** How long a stream outlives its place in the list, ms. */
  readonly graceMs?: number;
}

export class Gateways {
  readonly #options: GatewaysOptions;
  readonly #links = new Map<string, GatewayLink>();
  /** Gateways that are no longer listed, with the end of their streams. */
  readonly #leaving = new Map<string, NodeJS.Timeout>();

  constructor(options: GatewaysOptions) {
    this.#options = options;
  }

  /** Sets the complete list of gateways from the scheduler. */
  set({ gateways }: GatewayList): void {
    const { tls, log, nodeId, workers, serve } = this.#options;
    const named = new Set(gateways.map(({ address }) => address));
    for (const address of this.#links.keys()) if (!named.has(address)) this.#leave(address);
    for (const { address, token } of gateways) {
      clearTimeout(this.#leaving.get(address));
      this.#leaving.delete(address);
      const known = this.#links.get(address);
      if (known !== undefined) {
        known.token = token;
        continue;
      }
      const serving = () => ({ nodeId: nodeId(), workers: workers() });
      try {
        const credentials = clientCredentials(address, tls);
        this.#links.set(address, new GatewayLink({ address, credentials, log, serving, serve }, token));
      } catch (error) {
        log.error({ gateway: address, error: messageOf(error) }, 'connecting to the gateway failed');
      }
    }
  }

  /** The set of workers that accept requests may have changed. */
  workersChanged(): void {
    for (const link of this.#links.values()) link.tellServing();
  }

  close(): void {
    for (const timer of this.#leaving.values()) clearTimeout(timer);
    this.#leaving.clear();
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }

  #leave(address: string): void {
    if (this.#leaving.has(address)) return;
    const timer = setTimeout(() => {
      this.#leaving.delete(address);
      this.#links.get(address)?.close();
      this.#links.delete(address);
    }, this.#options.graceMs ?? GRACE_MS);
    this.#leaving.set(address, timer);
  }
}

/** Keeps one stream to each gateway that the scheduler lists, for as long as it is listed. */
import type { Logger } from 'pino';

import { clientCredentials, type TlsConfig } from '../../lib/grpc-tls.ts';
import type { ServingWorker } from '../../proto/gen/capstan/v1/invoke.ts';
import type { Gateways as GatewayList } from '../../proto/gen/capstan/v1/nodes.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { HttpCall, HttpEvents, HttpRequest } from '../runtimes/runtime.ts';
import { GatewayLink } from './gateway-link.ts';

export interface GatewaysOptions {
  readonly tls: TlsConfig;
  readonly log: Logger;
  readonly nodeId: () => string;
  readonly workers: () => ServingWorker[];
  readonly serve: (workerId: string, request: HttpRequest, events: HttpEvents) => HttpCall | null;
}

export class Gateways {
  readonly #options: GatewaysOptions;
  readonly #links = new Map<string, GatewayLink>();

  constructor(options: GatewaysOptions) {
    this.#options = options;
  }

  /** Sets the complete list of gateways from the scheduler. */
  set({ gateways }: GatewayList): void {
    const { tls, log, nodeId, workers, serve } = this.#options;
    const named = new Set(gateways.map(({ address }) => address));
    for (const [address, link] of this.#links) {
      if (named.has(address)) continue;
      link.close();
      this.#links.delete(address);
    }
    for (const { address, token } of gateways) {
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
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }
}

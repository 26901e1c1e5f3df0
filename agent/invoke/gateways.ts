/**
 * Keeps one stream to each gateway that the scheduler lists. One that is no longer listed keeps its stream for a while: a
 * scheduler that took the queue over lists a gateway once that gateway has found it, and requests go on meanwhile.
 */
import type { Logger } from 'pino';

import { clientCredentials, type TlsConfig } from '../../lib/grpc-tls.ts';
import type { ServingWorker } from '../../proto/gen/capstan/v1/invoke.ts';
import type { Gateways as GatewayList, UnreachableGateway } from '../../proto/gen/capstan/v1/nodes.ts';
import { messageOf } from '../../lib/to-error.ts';
import { withHost } from '../../lib/unspecified-host.ts';
import type { HttpCall, HttpEvents, HttpRequest } from '../runtimes/runtime.ts';
import { GatewayLink } from './gateway-link.ts';

/** How long a stream outlives its place in the list, ms: gateways find a new owner within seconds. */
const GRACE_MS = 30_000;
/** Time out of reach after which a gateway is reported, ms: one that restarts is back sooner. */
const REPORTED_MS = 3_000;
/** Characters of a reason that is reported. */
const MAX_REASON = 500;

export interface GatewaysOptions {
  readonly tls: TlsConfig;
  readonly log: Logger;
  readonly nodeId: () => string;
  readonly workers: () => ServingWorker[];
  readonly serve: (workerId: string, request: HttpRequest, events: HttpEvents) => HttpCall | null;
  /** The host of the scheduler as this agent reaches it: also that of gateways without a host of their own. */
  readonly schedulerHost: () => string;
  /** How long a stream outlives its place in the list, ms. */
  readonly graceMs?: number;
}

interface Linked {
  readonly link: GatewayLink;
  /** The address that is dialed. */
  readonly dialed: string;
}

export class Gateways {
  readonly #options: GatewaysOptions;
  /** By address as listed. */
  readonly #links = new Map<string, Linked>();
  /** Gateways that cannot be dialed, with the reason. */
  readonly #refused = new Map<string, Omit<UnreachableGateway, 'address'>>();
  /** Gateways that are no longer listed, with the end of their streams. */
  readonly #leaving = new Map<string, NodeJS.Timeout>();

  constructor(options: GatewaysOptions) {
    this.#options = options;
  }

  /** Sets the complete list of gateways from the scheduler. */
  set({ gateways }: GatewayList): void {
    const { tls, log, nodeId, workers, serve, schedulerHost } = this.#options;
    const named = new Set(gateways.map(({ address }) => address));
    for (const address of this.#links.keys()) if (!named.has(address)) this.#leave(address);
    this.#refused.clear();
    for (const { address, token } of gateways) {
      clearTimeout(this.#leaving.get(address));
      this.#leaving.delete(address);
      const dialed = withHost(address, schedulerHost());
      const known = this.#links.get(address);
      if (known?.dialed === dialed) {
        known.link.token = token;
        continue;
      }
      known?.link.close();
      this.#links.delete(address);
      const serving = () => ({ nodeId: nodeId(), workers: workers() });
      try {
        const credentials = clientCredentials(dialed, tls);
        this.#links.set(address, { dialed, link: new GatewayLink({ address: dialed, credentials, log, serving, serve }, token) });
      } catch (error) {
        log.error({ gateway: dialed, error: messageOf(error) }, 'connecting to the gateway failed');
        this.#refused.set(address, { dialed, reason: messageOf(error).slice(0, MAX_REASON) });
      }
    }
  }

  /** The listed gateways that have been out of reach for some seconds. */
  get unreachable(): UnreachableGateway[] {
    const found = [...this.#refused].map(([address, why]): UnreachableGateway => ({ address, ...why }));
    for (const [address, { link, dialed }] of this.#links) {
      const out = this.#leaving.has(address) ? undefined : link.outOfReach;
      if (out !== undefined && out.ms >= REPORTED_MS) found.push({ address, dialed, reason: out.reason.slice(0, MAX_REASON) });
    }
    return found;
  }

  /** The set of workers that accept requests may have changed. */
  workersChanged(): void {
    for (const { link } of this.#links.values()) link.tellServing();
  }

  close(): void {
    for (const timer of this.#leaving.values()) clearTimeout(timer);
    this.#leaving.clear();
    for (const { link } of this.#links.values()) link.close();
    this.#links.clear();
  }

  #leave(address: string): void {
    if (this.#leaving.has(address)) return;
    const timer = setTimeout(() => {
      this.#leaving.delete(address);
      this.#links.get(address)?.link.close();
      this.#links.delete(address);
    }, this.#options.graceMs ?? GRACE_MS);
    this.#leaving.set(address, timer);
  }
}

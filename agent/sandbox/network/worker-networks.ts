/**
 * The network namespaces of this node's workers with the network `outbound`: each worker has one of its own, so that
 * workers do not meet on a loopback address either. Some are made in advance.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { isLoopback, type Destination } from './destinations.ts';
import { firewall, RESOLVER } from './firewall.ts';
import { NO_WAY, wayTo, type GatewayWay } from './gateway-address.ts';
import { NetworkSpace, type NetworkTools } from './network-space.ts';

export interface WorkerNetworksOptions {
  readonly tools: NetworkTools;
  /** As NetworkSpaceOptions. */
  readonly uid: number | undefined;
  /** As NetworkSpaceOptions. */
  readonly within?: readonly string[] | undefined;
  /** The agent's folder. */
  readonly folder: string;
  /** CAPSTAN_WORKER_NETWORK_ALLOW. */
  readonly allowed: readonly Destination[];
  /** How many are made in advance. */
  readonly spares: number;
  readonly log: Pick<Logger, 'warn'>;
}

/** Ports of a worker that listens, or that talks to the agent. */
export interface WorkerPorts {
  /** Of this host's loopback address. */
  readonly reached: readonly number[];
  /** Of the worker, for this host. */
  readonly published: readonly number[];
}

export const NO_PORTS: WorkerPorts = { reached: [], published: [] };

export class WorkerNetworks {
  /** Of workers in these namespaces. */
  readonly resolvConf: string;
  readonly #options: WorkerNetworksOptions;
  /** With no ports but the gateway's. */
  #spares: Promise<NetworkSpace>[] = [];
  readonly #open = new Set<NetworkSpace>();
  #url = '';
  #way: Promise<GatewayWay> = Promise.resolve(NO_WAY);
  /** Counts addresses of the gateway. */
  #generation = 0;
  readonly #gatewayKnown = Promise.withResolvers<void>();
  #isClosed = false;

  constructor(options: WorkerNetworksOptions) {
    this.#options = options;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    this.resolvConf = join(options.folder, 'resolv.conf');
    writeFileSync(this.resolvConf, `nameserver ${RESOLVER}\n`, { mode: 0o644 });
  }

  /** Changes with the gateway's address: a namespace that was made before does not lead to the present one. */
  get generation(): number {
    return this.#generation;
  }

  /** Resolves when the address of the gateway is known, or known not to be. */
  get gatewayKnown(): Promise<void> {
    return this.#gatewayKnown.promise;
  }

  /** Called with the address that workers get as CAPSTAN_URL. */
  setGateway(url: string): void {
    this.#gatewayKnown.resolve();
    if (url === this.#url) return;
    this.#url = url;
    this.#way = wayTo(url);
    this.#generation++;
    for (const spare of this.#spares.splice(0)) void spare.then((space) => this.release(space)).catch(() => undefined);
    this.#fill();
  }

  /** Rejects with UNAVAILABLE. */
  async take(ports: WorkerPorts = NO_PORTS): Promise<NetworkSpace> {
    const isCommon = ports.reached.length === 0 && ports.published.length === 0;
    const spare = isCommon ? this.#spares.shift() : undefined;
    if (spare !== undefined) {
      this.#fill();
      const space = await spare.catch(() => undefined);
      if (space?.works === true) return space;
      if (space !== undefined) await this.release(space);
    }
    return this.#make(ports);
  }

  /** Never rejects. */
  async release(space: NetworkSpace): Promise<void> {
    await space.close();
    this.#open.delete(space);
  }

  /** Ends all of them. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#gatewayKnown.resolve();
    // Those that are being made are among the open ones afterwards.
    await Promise.allSettled(this.#spares.splice(0));
    await Promise.all([...this.#open].map((space) => this.release(space)));
  }

  #fill(): void {
    while (!this.#isClosed && this.#url !== '' && this.#spares.length < this.#options.spares) {
      const made = this.#make(NO_PORTS);
      this.#spares.push(made);
      made.catch((error: unknown) => {
        this.#spares = this.#spares.filter((spare) => spare !== made);
        this.#options.log.warn({ error: messageOf(error) }, 'creating the network of a worker in advance failed');
      });
    }
  }

  async #make({ reached, published }: WorkerPorts): Promise<NetworkSpace> {
    if (this.#isClosed) throw new CapstanError('UNAVAILABLE', 'the agent stops');
    const { tools, uid, within, allowed } = this.#options;
    const way = await this.#way;
    const space = await NetworkSpace.open({
      tools,
      uid,
      within,
      rules: firewall({ allowed: [...allowed, ...way.allowed], own: ownAddresses() }),
      reached: [...new Set([...way.reached, ...reached])],
      published,
    });
    this.#open.add(space);
    return space;
  }
}

/** Addresses of this host that others reach. */
function ownAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .map(({ address }) => address.split('%')[0] ?? '')
    .filter((address) => address !== '' && !isLoopback(address));
}

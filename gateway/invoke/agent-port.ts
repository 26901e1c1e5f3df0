/** The server for agents and its address. While that is not known, for want of a route or a name, it is looked for again. */
import { messageOf } from '../../lib/to-error.ts';
import type { Certificate } from '../http/tls.ts';
import type { GatewayConfig } from '../config.ts';
import { announcedAddress, httpUrlOf, ownHosts, type OwnHosts } from './own-address.ts';
import { InvokeServer, type InvokeServerOptions } from './invoke-server.ts';
import type { Announced } from './report.ts';

const RETRY_MS = 1_000;

export interface AgentPortOptions extends Omit<InvokeServerOptions, 'host' | 'port' | 'tls'> {
  readonly config: GatewayConfig;
  readonly certificate: Certificate | null;
  /** Called once, when the server listens. */
  readonly onAnnounced: (announced: Announced) => void;
}

export class AgentPort {
  readonly #options: AgentPortOptions;
  #server: InvokeServer | undefined;
  #removed: readonly string[] = [];
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: AgentPortOptions) {
    this.#options = options;
  }

  /**
   * Listens and announces it, now or as soon as the address is known. `httpPort`: of the HTTP server.
   * @throws CapstanError ADDRESS_IN_USE, CONFIG.
   */
  async open(httpPort: string): Promise<void> {
    const { config, log } = this.#options;
    let hosts: OwnHosts;
    try {
      hosts = await ownHosts(config);
    } catch (error) {
      log.warn(
        { scheduler: config.scheduler, reason: messageOf(error) },
        'no address for agents yet: the scheduler has no route or no name',
      );
      this.#again(httpPort);
      return;
    }
    await this.#listen(hosts, httpPort);
  }

  /** Ends the streams of these nodes and rejects new ones. The set replaces the previous one. */
  refuse(nodes: readonly string[]): void {
    this.#removed = nodes;
    this.#server?.refuse(nodes);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#server?.close();
  }

  #again(httpPort: string): void {
    if (this.#closed) return;
    this.#retry = setTimeout(() => {
      ownHosts(this.#options.config)
        .then((hosts) => this.#listen(hosts, httpPort))
        .catch(() => this.#again(httpPort));
    }, RETRY_MS);
  }

  async #listen(hosts: OwnHosts, httpPort: string): Promise<void> {
    const { config, certificate, log, onAnnounced } = this.#options;
    const { server, address } = await InvokeServer.listen({
      ...this.#options,
      host: hosts.listen,
      port: config.invokePort,
      tls: config,
    });
    if (this.#closed) {
      await server.close();
      return;
    }
    this.#server = server;
    server.refuse(this.#removed);
    const invokeAddress = config.invokeAddress ?? announcedAddress(address, hosts);
    log.info({ invokeAddress }, 'agents reach this gateway here');
    onAnnounced({ invokeAddress, httpUrl: httpUrlOf(httpPort, hosts.reached, { config, certificate }) });
  }
}

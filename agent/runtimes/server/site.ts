/** Where a worker with its own server must listen, and where the agent reaches it. */
import { createServer, type AddressInfo } from 'node:net';

import type { Launcher } from '../foreign/launcher.ts';

export interface Reach {
  readonly host: string;
  /** Port for requests. */
  readonly port: number;
  /** Port for GET /ping; usually the same. */
  readonly healthPort: number;
}

export interface ServerSite {
  /** Ports, the address to listen on, and the build's folder, as the worker sees them. */
  readonly variables: {
    readonly PORT: string;
    readonly PORT_HEALTH: string;
    readonly CAPSTAN_HOST: string;
    readonly CAPSTAN_BUILD: string;
  };
  readonly launcher: Launcher;
  /** Called once the program runs. Rejects when the worker cannot be reached. */
  reach(): Promise<Reach>;
}

/** On this host's network, which others use as well: each worker gets free ports. */
export async function siteOnHost(env: Readonly<Record<string, string>>, build: string, launcher: Launcher): Promise<ServerSite> {
  const hasTwo = env['PORT_HEALTH'] !== undefined && env['PORT_HEALTH'] !== env['PORT'];
  const [port = 0, healthPort = port] = await freePorts(hasTwo ? 2 : 1);
  return {
    variables: { PORT: String(port), PORT_HEALTH: String(healthPort), CAPSTAN_HOST: '127.0.0.1', CAPSTAN_BUILD: build },
    launcher,
    reach: () => Promise.resolve({ host: '127.0.0.1', port, healthPort }),
  };
}

/** Returns ports that are free now; the worker opens them a moment later. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  try {
    return await Promise.all(
      servers.map(async (server) => {
        await new Promise<void>((resolve, reject) => {
          server.once('error', reject);
          server.listen(0, '127.0.0.1', resolve);
        });
        return (server.address() as AddressInfo).port;
      }),
    );
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

/** Where a worker that listens itself is to listen, and where the agent finds it. */
import { createServer, type AddressInfo } from 'node:net';

import type { Launcher } from '../foreign/launcher.ts';

export interface Reach {
  readonly host: string;
  /** Where requests go. */
  readonly port: number;
  /** Where GET /ping is asked; mostly the same. */
  readonly healthPort: number;
}

export interface ServerSite {
  /** Ports as the worker sees them. */
  readonly variables: { readonly PORT: string; readonly PORT_HEALTH: string };
  readonly carry: Launcher;
  /** Asked once the program runs. Rejects when there is no way to it. */
  reach(): Promise<Reach>;
}

/** On this host's own network, where others listen, too: each worker gets ports that are free. */
export async function siteOnHost(env: Readonly<Record<string, string>>, carry: Launcher): Promise<ServerSite> {
  const hasTwo = env['PORT_HEALTH'] !== undefined && env['PORT_HEALTH'] !== env['PORT'];
  const [port = 0, healthPort = port] = await freePorts(hasTwo ? 2 : 1);
  return {
    variables: { PORT: String(port), PORT_HEALTH: String(healthPort) },
    carry,
    reach: () => Promise.resolve({ host: '127.0.0.1', port, healthPort }),
  };
}

/** Ports that are free now; the worker takes them a moment later. */
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

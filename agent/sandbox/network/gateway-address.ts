/** How a worker without this host's network reaches the gateway, whose address it is given as CAPSTAN_URL. */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';

import { isLoopback, type Destination } from './destinations.ts';

export interface GatewayWay {
  /** Ports of this host's loopback address. */
  readonly reached: readonly number[];
  readonly allowed: readonly Destination[];
}

export const NO_WAY: GatewayWay = { reached: [], allowed: [] };

/**
 * Returns the way to an address. Its name is looked up here, since it may have private addresses; a name that cannot be
 * looked up leaves what public addresses it will have.
 */
export async function wayTo(url: string): Promise<GatewayWay> {
  if (!URL.canParse(url)) return NO_WAY;
  const { hostname, port, protocol } = new URL(url);
  const number = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
  const name = hostname.replace(/^\[(.*)\]$/, '$1');
  const addresses = isIP(name) === 0 ? await addressesOf(name) : [name];
  const isLocal = addresses.some(isLoopback);
  return {
    reached: isLocal ? [number] : [],
    allowed: addresses.filter((address) => !isLoopback(address)).map((address) => destinationOf(address, number)),
  };
}

async function addressesOf(name: string): Promise<string[]> {
  try {
    return (await lookup(name, { all: true })).map(({ address }) => address);
  } catch {
    return [];
  }
}

function destinationOf(address: string, port: number): Destination {
  const family = isIP(address) === 6 ? 6 : 4;
  return { family, address, prefix: family === 6 ? 128 : 32, port };
}

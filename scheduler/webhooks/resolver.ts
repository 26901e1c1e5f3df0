/**
 * Resolves host names: the hosts file first, then the name servers, by c-ares. The system's getaddrinfo uses a pool of
 * a few threads, where names with unresponsive servers block all others. Names must therefore be fully qualified.
 */
import { Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';

import { isLocalName } from './guard.ts';

/** Returns the addresses of a host, at least one. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/** Timeout per name server and try, ms. */
const QUERY_MS = 2_000;
const QUERY_TRIES = 2;

/** Creates a resolver; `hostsFile` defaults to the system's. */
export function systemResolver(hostsFile = '/etc/hosts'): Resolve {
  const servers = new Resolver({ timeout: QUERY_MS, tries: QUERY_TRIES });
  return async (host) => {
    const listed = listedIn(await readFile(hostsFile, 'utf8').catch(() => ''), host);
    if (listed.length > 0) return listed;
    if (isLocalName(host)) return ['127.0.0.1', '::1'];
    const [v4, v6] = await Promise.allSettled([servers.resolve4(host), servers.resolve6(host)]);
    const found = [...(v4.status === 'fulfilled' ? v4.value : []), ...(v6.status === 'fulfilled' ? v6.value : [])];
    if (found.length > 0) return found;
    // Both give a reason; the first is sufficient.
    throw v4.status === 'rejected' ? v4.reason : new Error(`${host} has no address`);
  };
}

/** Returns the addresses of a name in a hosts file. */
export function listedIn(hosts: string, name: string): string[] {
  const found: string[] = [];
  for (const line of hosts.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    if (isIP(address) !== 0 && names.some((listed) => listed.toLowerCase() === name)) found.push(address);
  }
  return found;
}

/** The rules of nftables in a worker's network namespace: public addresses, and what is allowed by name. */
import { isIP } from 'node:net';

import type { Destination } from './destinations.ts';

/** Address in the namespace at which names are resolved; pasta passes the questions on to the host's resolver. */
export const RESOLVER = '169.254.53.53';

/** No public host has them: private, shared, loopback, link-local (metadata services), documentation, benchmarks, multicast. */
const NOT_PUBLIC_4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
/** Within global unicast: addresses that stand for IPv4 addresses (Teredo, 6to4), and documentation. */
const NOT_PUBLIC_6 = ['2001::/32', '2001:db8::/32', '2002::/16', '3fff::/20'];
const GLOBAL_UNICAST = '2000::/3';
const REFUSE = 'reject with icmpx type admin-prohibited';

export interface FirewallOptions {
  readonly allowed: readonly Destination[];
  /** Addresses of this host, whose services are not for workers. */
  readonly own: readonly string[];
}

/** Returns a script for `nft -f`. It is loaded before anything of a tenant runs in the namespace. */
export function firewall({ allowed, own }: FirewallOptions): string {
  const ownOf = (family: 4 | 6): readonly string[] => own.filter((address) => isIP(address) === family);
  return [
    'table inet capstan {',
    'chain output {',
    'type filter hook output priority 0; policy drop;',
    'oif "lo" accept',
    'icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit } accept',
    `ip daddr ${RESOLVER} meta l4proto { tcp, udp } th dport 53 accept`,
    ...allowed.map(accept),
    `ip daddr { ${[...NOT_PUBLIC_4].join(', ')} } ${REFUSE}`,
    `ip6 daddr != ${GLOBAL_UNICAST} ${REFUSE}`,
    `ip6 daddr { ${NOT_PUBLIC_6.join(', ')} } ${REFUSE}`,
    ...([4, 6] as const).flatMap((family) => ownOf(family).map((address) => `${family === 4 ? 'ip' : 'ip6'} daddr ${address} ${REFUSE}`)),
    // Only TCP, UDP and echo requests leave: no other protocol is needed, and none may reach what these rules do not name.
    'meta l4proto { tcp, udp, icmp, ipv6-icmp } accept',
    REFUSE,
    '}',
    '}',
    '',
  ].join('\n');
}

function accept({ family, address, prefix, port }: Destination): string {
  const destination = `${family === 4 ? 'ip' : 'ip6'} daddr ${address}/${prefix}`;
  return port === undefined ? `${destination} accept` : `${destination} meta l4proto { tcp, udp } th dport ${port} accept`;
}

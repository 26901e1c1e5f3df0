/**
 * Decides which addresses webhooks may reach: public ones, and those on the operator's list. The same rule applies
 * twice: at submission, where the URL alone may be refused, and at every connection, with the addresses that the name
 * has at that moment.
 */
import ipaddr, { type IPv4, type IPv6 } from 'ipaddr.js';

import { CapstanError } from '../../lib/errors.ts';

type Network = readonly [address: IPv4 | IPv6, bits: number];

/** NAT64: the last 32 bits are the IPv4 address that the connection reaches. */
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');
/** The routed part of IPv6. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

/** `CAPSTAN_WEBHOOK_ALLOW`: networks, single addresses and host names. */
export interface AllowList {
  readonly networks: readonly Network[];
  readonly names: ReadonlySet<string>;
}

/**
 * Parses a list of CIDRs, addresses and host names, separated by commas. @throws CapstanError CONFIG, naming the entry.
 */
export function parseAllowList(text: string, setting = 'CAPSTAN_WEBHOOK_ALLOW'): AllowList {
  const networks: Network[] = [];
  const names = new Set<string>();
  for (const entry of text.split(',').map((part) => part.trim().toLowerCase())) {
    if (entry === '') continue;
    const network = parseNetwork(entry);
    if (network !== null) networks.push(network);
    else if (/^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/.test(entry) && !/(^|\.)\d+$/.test(entry))
      names.add(entry);
    else throw new CapstanError('CONFIG', `${setting}: '${entry}' must be a network, an address or a host name`);
  }
  return { networks, names };
}

/** RFC 1035: no resolver knows a longer name. */
const MAX_NAME_LENGTH = 253;

export class AddressGuard {
  readonly #allow: AllowList;

  constructor(allow: AllowList) {
    this.#allow = allow;
  }

  /** Returns why a webhook's URL is refused whatever its name resolves to; null if only the connection can decide. */
  refusal(url: string): string | null {
    if (!URL.canParse(url)) return 'must be an http or https URL';
    const { protocol, hostname } = new URL(url);
    if (protocol !== 'http:' && protocol !== 'https:') return 'must be an http or https URL';
    const host = bareHost(hostname);
    if (host.length > MAX_NAME_LENGTH) return `must have a host name of at most ${MAX_NAME_LENGTH} characters`;
    const addresses = isLocalName(host) ? ['127.0.0.1', '::1'] : [host];
    const known = addresses.filter((address) => ipaddr.isValid(address));
    if (known.length === 0 || known.some((address) => this.admits(host, address))) return null;
    return 'must not resolve to a private address; an operator can allow some with CAPSTAN_WEBHOOK_ALLOW';
  }

  /** Whether a connection for this host may be made to this address. */
  admits(host: string, address: string): boolean {
    if (this.#allow.names.has(bareHost(host))) return true;
    if (!ipaddr.isValid(address)) return false;
    const real = unwrap(ipaddr.parse(address));
    return isPublic(real) || this.#allow.networks.some((network) => within(real, network));
  }
}

/** Normalizes a host for comparison: without brackets and the trailing dot, in lower case. */
export function bareHost(hostname: string): string {
  return hostname
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.+$/, '')
    .toLowerCase();
}

/** RFC 6761: these names always mean this host, whatever a resolver returns. */
export function isLocalName(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost');
}

/** Returns the IPv4 address inside an IPv6 address that only represents it. */
function unwrap(address: IPv4 | IPv6): IPv4 | IPv6 {
  if (!isV6(address)) return address;
  if (address.isIPv4MappedAddress()) return address.toIPv4Address();
  return address.match(nat64) ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address;
}

/** Refuses every address that is not clearly public, including those in no table of special ranges. */
function isPublic(address: IPv4 | IPv6): boolean {
  return address.range() === 'unicast' && (!isV6(address) || address.match(globalUnicast));
}

function within(address: IPv4 | IPv6, [network, bits]: Network): boolean {
  if (isV6(address)) return isV6(network) && address.match(network, bits);
  return !isV6(network) && address.match(network, bits);
}

function isV6(address: IPv4 | IPv6): address is IPv6 {
  return address.kind() === 'ipv6';
}

function parseNetwork(text: string): Network | null {
  const [address = '', bits] = text.split('/');
  if (!ipaddr.isValid(address) || (address.includes(':') ? false : !ipaddr.IPv4.isValidFourPartDecimal(address))) return null;
  try {
    const parsed = ipaddr.parse(address);
    return bits === undefined ? [parsed, isV6(parsed) ? 128 : 32] : ipaddr.parseCIDR(text);
  } catch {
    return null; // Bits beyond the address.
  }
}

/** Addresses that workers with the network `outbound` may reach beside public ones: CAPSTAN_WORKER_NETWORK_ALLOW. */
import { BlockList, isIP } from 'node:net';

export interface Destination {
  readonly family: 4 | 6;
  readonly address: string;
  /** Length of the prefix, bits. */
  readonly prefix: number;
  /** Absent: all ports. */
  readonly port?: number;
}

export const DESTINATION_RULE =
  'must be an address, a network or a port of one, such as 10.0.0.5, 10.1.0.0/16, 10.0.0.5:5432 or [fd00::5]:5432';

const BITS = { 4: 32, 6: 128 } as const;
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8);
LOOPBACK.addAddress('::1', 'ipv6');

/** Returns what a text names; undefined if it is none. */
export function readDestination(text: string): Destination | undefined {
  const [, bracketed, plain, prefix, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9a-fA-F:.]+?))(?:\/(\d{1,3}))?(?::(\d{1,5}))?$/.exec(text) ?? [];
  const address = bracketed ?? plain ?? '';
  // Without brackets, the end of an IPv6 address could be taken for a port.
  if (bracketed === undefined && isIP(text.replace(/\/\d{1,3}$/, '')) === 6)
    return destination(text.replace(/\/\d{1,3}$/, ''), text.split('/')[1], undefined);
  if (bracketed === undefined && isIP(address) === 6) return undefined;
  return destination(address, prefix, port);
}

function destination(address: string, prefix: string | undefined, port: string | undefined): Destination | undefined {
  const family = isIP(address);
  if (family !== 4 && family !== 6) return undefined;
  const bits = prefix === undefined ? BITS[family] : Number(prefix);
  const number = port === undefined ? undefined : Number(port);
  if (bits > BITS[family] || (number !== undefined && (number < 1 || number > 65_535))) return undefined;
  return { family, address, prefix: bits, ...(number === undefined ? {} : { port: number }) };
}

export function isLoopback(address: string): boolean {
  return LOOPBACK.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

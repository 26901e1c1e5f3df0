/** The setting CAPSTAN_SCHEDULER: the schedulers that may own the queue, and the addresses to dial for them. */
import { lookup } from 'node:dns/promises';
import { isIP, isIPv4 } from 'node:net';

/** What the setting must be, for its refusal. */
export const SCHEDULER_RULE = 'must be host:port, several of them separated by commas (IPv6 in brackets), or unix:<path>';

/** One scheduler that may own the queue. */
export interface Candidate {
  /** Identifies it among the candidates. */
  readonly key: string;
  /** Target for gRPC. */
  readonly target: string;
  /** The configured host name with its port where `target` is an address of it: TLS verifies the name. */
  readonly authority?: string;
}

/** Resolves a host name to all of its addresses; rejects when it has none. */
export type LookUp = (host: string) => Promise<readonly string[]>;

/** Resolves by the host's own rules: its hosts file, then DNS. */
export const systemLookUp: LookUp = async (host) => (await lookup(host, { all: true })).map(({ address }) => address);

const ADDRESS = /^(\[[^\]]+\]|[^:\s,[\]]+):(\d{1,5})$/;
const SCHEME = /^(dns|ipv4|ipv6):(\/\/\/)?/;

export function isSchedulerAddress(text: string): boolean {
  if (/^unix:./.test(text)) return true;
  return entriesOf(text).every((entry) => partsOf(entry) !== undefined);
}

/** Returns the addresses of the setting, as they were written. */
export function schedulerAddresses(text: string): string[] {
  return /^unix:./.test(text) ? [text] : entriesOf(text);
}

/**
 * Returns the schedulers that a setting stands for: each address of a list, and each address of a host name. A name
 * that cannot be resolved is left out as long as there are others.
 * @throws what the look-up threw, when no scheduler is left.
 */
export async function resolveCandidates(text: string, lookUp: LookUp): Promise<Candidate[]> {
  const failures: unknown[] = [];
  const found = await Promise.all(
    schedulerAddresses(text).map(async (entry) => {
      const parts = partsOf(entry);
      if (parts === undefined || isFixed(parts.host)) return [{ key: keyOf(entry), target: entry }];
      try {
        const addresses = await lookUp(parts.host);
        return addresses.map((address) => ({ ...addressed(address, parts.port), authority: keyOf(entry) }));
      } catch (error) {
        failures.push(error);
        return [];
      }
    }),
  );
  const candidates = new Map(found.flat().map((candidate) => [candidate.key, candidate]));
  if (candidates.size === 0) throw failures[0];
  return [...candidates.values()];
}

/** The only scheduler of a setting whose address never changes: nothing has to be resolved or searched. */
export function fixedCandidate(text: string): Candidate | undefined {
  const [entry = '', ...more] = schedulerAddresses(text);
  const parts = partsOf(entry);
  return more.length === 0 && (parts === undefined || isFixed(parts.host)) ? { key: keyOf(entry), target: entry } : undefined;
}

/**
 * Returns the candidate that a scheduler named as the owner; undefined when it is not among them. The name comes from a
 * peer that may not own anything: it chooses among the configured schedulers and never adds one.
 */
export function namedCandidate(named: string, candidates: Iterable<Candidate>): Candidate | undefined {
  for (const candidate of candidates) if (candidate.key === keyOf(named) || candidate.authority === keyOf(named)) return candidate;
  return undefined;
}

/** Addresses that gRPC dials as they are. `localhost` is one scheduler, however many addresses it has. */
function isFixed(host: string): boolean {
  return host === 'localhost' || isIP(host) !== 0;
}

function entriesOf(text: string): string[] {
  return text.split(',').map((entry) => entry.trim());
}

function partsOf(entry: string): { readonly host: string; readonly port: string } | undefined {
  const [, host, port] = ADDRESS.exec(entry.replace(SCHEME, '')) ?? [];
  if (host === undefined || port === undefined || Number(port) > 65_535) return undefined;
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  // Brackets are for IPv6 only, and a host of digits and dots is an address or a slip.
  if (bare !== host ? isIP(bare) !== 6 : /^[\d.]+$/.test(host) && !isIPv4(host)) return undefined;
  return { host: bare, port };
}

function addressed(address: string, port: string): Candidate {
  const isV4 = isIPv4(address);
  const text = isV4 ? `${address}:${port}` : `[${address}]:${port}`;
  return { key: text, target: `${isV4 ? 'ipv4' : 'ipv6'}:${text}` };
}

function keyOf(entry: string): string {
  return entry.replace(SCHEME, '').toLowerCase();
}

/** Returns the host of a scheduler as it is dialed, the configured name where there is one; 127.0.0.1 for a socket, or without an owner. */
export function hostOfScheduler(owner: Candidate | undefined): string {
  const entry = owner?.authority ?? owner?.target ?? '';
  return partsOf(entry)?.host ?? '127.0.0.1';
}

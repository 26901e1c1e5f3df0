/**
 * Headers that describe the caller to a function: those of the request, and X-Forwarded-*, which are accepted from
 * trusted proxies only.
 */
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';

import ipaddr from 'ipaddr.js';

import { CapstanError } from '../../lib/errors.ts';
import { peerOf } from '../../lib/grpc-admission.ts';
import type { Header } from '../../proto/gen/capstan/v1/invoke.ts';
import { PREFIX_HEADER } from '../../lib/redirects.ts';
import { HOP_BY_HOP, type HeaderPair } from '../../lib/response-validator.ts';
import { traceHeaders } from '../../lib/trace-context.ts';

export const FORWARDED: ReadonlySet<string> = new Set([
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-port',
  PREFIX_HEADER,
  'forwarded',
]);

const TRACE_HEADERS = new Set(['traceparent', 'tracestate']);

/** What an exchange needs of a request: one that a caller sent, or one that the console's form describes. */
export type RequestHead = Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders' | 'socket'>;

export class TrustedProxies {
  readonly #ranges: readonly [ipaddr.IPv4 | ipaddr.IPv6, number][];

  /** @throws CapstanError CONFIG for an entry that is neither an address nor a range. */
  constructor(list: readonly string[]) {
    this.#ranges = list.map((entry) => {
      try {
        return entry.includes('/') ? ipaddr.parseCIDR(entry) : [ipaddr.process(entry), entry.includes(':') ? 128 : 32];
      } catch (cause) {
        throw new CapstanError('CONFIG', `CAPSTAN_TRUSTED_PROXIES: ${entry} must be an IP address or a CIDR range`, {
          field: 'CAPSTAN_TRUSTED_PROXIES',
          cause,
        });
      }
    });
  }

  trusts(address: string | undefined): boolean {
    if (this.#ranges.length === 0 || address === undefined || !ipaddr.isValid(address)) return false;
    const found = ipaddr.process(address);
    return this.#ranges.some(([range, bits]) => range.kind() === found.kind() && found.match(range, bits));
  }
}

/** Returns the party that shares a limit with the sender of a request: its address, as reported by trusted proxies. */
export function peerOfRequest({ headers, socket }: IncomingMessage, proxies: TrustedProxies): string {
  let peer = socket.remoteAddress;
  if (!proxies.trusts(peer)) return peerOf(peer);
  // Each proxy appends the address that it saw: the last one that is not a trusted proxy is the sender.
  for (const address of String(headers['x-forwarded-for'] ?? '')
    .split(',')
    .reverse()) {
    const seen = address.trim();
    if (!ipaddr.isValid(seen)) break;
    peer = seen;
    if (!proxies.trusts(seen)) break;
  }
  return peerOf(peer);
}

export interface Origin {
  readonly scheme: 'http' | 'https';
  /** Host and port of the request. */
  readonly authority: string;
}

/** Protocol, host and port of the caller's request, as reported by trusted proxies. */
export function originOf({ headers, socket }: Pick<RequestHead, 'headers' | 'socket'>, proxies: TrustedProxies): Origin {
  const trusted = proxies.trusts(socket.remoteAddress);
  const encrypted = (socket as Partial<TLSSocket>).encrypted === true;
  const scheme = (trusted ? first(headers['x-forwarded-proto']) : undefined) ?? (encrypted ? 'https' : 'http');
  const authority = (trusted ? first(headers['x-forwarded-host']) : undefined) ?? headers.host ?? '';
  return { scheme: scheme === 'https' ? 'https' : 'http', authority };
}

export interface Caller extends Origin {
  /** Returns the request's headers for the function. */
  readonly headers: Header[];
}

export interface CallerRules {
  /** The Authorization header belongs to the application, not to this service. */
  readonly keepKey: boolean;
  /** Trace context that replaces the caller's; empty: the caller's is passed on. */
  readonly trace: string;
}

export function callerOf(request: RequestHead, proxies: TrustedProxies, { keepKey, trace }: CallerRules): Caller {
  const { headers: given, rawHeaders, socket } = request;
  const remote = socket.remoteAddress ?? '';
  const { scheme, authority } = originOf(request, proxies);
  const before = proxies.trusts(remote) ? given['x-forwarded-for'] : undefined;
  const named = given.connection === undefined ? undefined : new Set(given.connection.toLowerCase().split(/[\s,]+/));
  const headers: Header[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (HOP_BY_HOP.has(name) || FORWARDED.has(name) || named?.has(name) === true) continue;
    if (name === 'authorization' && !keepKey) continue;
    if (trace !== '' && TRACE_HEADERS.has(name)) continue;
    headers.push({ name, value: rawHeaders[i + 1] ?? '' });
  }
  headers.push(
    { name: 'x-forwarded-for', value: before === undefined ? remote : `${String(before)}, ${remote}` },
    { name: 'x-forwarded-proto', value: scheme },
    { name: 'x-forwarded-host', value: authority },
  );
  if (trace !== '') for (const [name, value] of Object.entries(traceHeaders(trace))) headers.push({ name, value: String(value) });
  return { scheme, authority, headers };
}

/** Returns the validated headers of a response in the form of Node's HTTP server: names and values alternate. */
export function answerHeaders(headers: readonly HeaderPair[]): string[] {
  return headers.flat();
}

function first(value: string | string[] | undefined): string | undefined {
  const text = Array.isArray(value) ? value[0] : value;
  const [head] = (text ?? '').split(',');
  return head === undefined || head.trim() === '' ? undefined : head.trim();
}

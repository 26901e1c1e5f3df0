/**
 * Opening handshakes of WebSockets (RFC 6455, section 4): what is refused before a worker hears of it, and the key of a
 * caller that cannot send headers. Pure.
 *
 * A browser can send no Authorization header with a WebSocket, but a list of subprotocols:
 *
 *     new WebSocket(url, ['capstan', `capstan-key.${key}`, …those of the application])
 *
 * The entries of this service are removed before the request is passed on. A browser refuses a response that selects
 * none of its subprotocols, so the gateway selects `capstan` where the worker selects none. A key in the query would
 * appear in logs and histories, and is therefore not read.
 */
import type { IncomingMessage } from 'node:http';

import type { Header } from '../../proto/gen/capstan/v1/invoke.ts';
import { CapstanError } from '../../lib/errors.ts';

/** Subprotocol that is selected when the worker selects none. */
const OWN_PROTOCOL = 'capstan';
/** Prefix of the subprotocol that holds the key. */
const KEY_PROTOCOL = 'capstan-key.';
const PROTOCOL_HEADER = 'sec-websocket-protocol';
/** 16 bytes in base64. */
const NONCE = /^[A-Za-z0-9+/]{22}==$/;

/** Returns why the request is no opening handshake of a WebSocket, else null. */
export function handshakeViolation({ method, headers, httpVersion }: IncomingMessage): CapstanError | null {
  if (method !== 'GET') return invalid('a WebSocket is opened with GET');
  if (httpVersion !== '1.1') return invalid('a WebSocket is opened with HTTP/1.1');
  // The bytes of a body would reach the worker as the first bytes of the connection.
  const length = headers['content-length'];
  if (headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')) {
    return invalid('a request with Upgrade must have no body');
  }
  const nonce = headers['sec-websocket-key'];
  if (nonce === undefined || !NONCE.test(nonce)) return invalid('Sec-WebSocket-Key: must be 16 bytes in base64');
  return null;
}

export interface OfferedProtocols {
  /** The entries for the worker; undefined when none is left. */
  readonly forwarded: string | undefined;
  /** The value of an Authorization header with the key among the entries. */
  readonly authorization: string | undefined;
  /** Selected when the worker selects none. */
  readonly fallback: string | undefined;
}

/** Separates the entries of this service from those of the application. Returns null when there is no key among them. */
export function readProtocols(value: string | undefined): OfferedProtocols | null {
  if (value === undefined || !value.includes(KEY_PROTOCOL)) return null;
  const entries = value.split(',').map((entry) => entry.trim());
  const isKey = (entry: string): boolean => entry.startsWith(KEY_PROTOCOL);
  const key = entries.find(isKey);
  if (key === undefined) return null;
  const rest = entries.filter((entry) => entry !== '' && entry !== OWN_PROTOCOL && !isKey(entry));
  return {
    forwarded: rest.length === 0 ? undefined : rest.join(', '),
    authorization: `Bearer ${key.slice(KEY_PROTOCOL.length)}`,
    fallback: entries.includes(OWN_PROTOCOL) ? OWN_PROTOCOL : undefined,
  };
}

/** Returns the headers for the worker: without the key, and without cookies when another site's page asks. */
export function handshakeHeaders(headers: readonly Header[], protocols: OfferedProtocols | null, foreign: boolean): Header[] {
  const kept = headers.filter(({ name }) => !(foreign && name === 'cookie') && !(protocols !== null && name === PROTOCOL_HEADER));
  if (protocols?.forwarded !== undefined) kept.push({ name: PROTOCOL_HEADER, value: protocols.forwarded });
  return kept;
}

/** Adds the subprotocol that the gateway selects. `flat`: names and values alternate. */
export function withProtocol(flat: readonly string[], fallback: string | undefined): string[] {
  if (fallback === undefined || flat.some((text, i) => i % 2 === 0 && text.toLowerCase() === PROTOCOL_HEADER)) return [...flat];
  return [...flat, PROTOCOL_HEADER, fallback];
}

/**
 * Whether a page of another host opens the WebSocket. The same-origin policy does not apply to WebSockets, and hosts
 * of other endpoints belong to the same site, so their pages would act with the cookies of this one.
 */
export function isForeign(origin: string | undefined, authority: string): boolean {
  return origin !== undefined && (!URL.canParse(origin) || new URL(origin).host !== hostOf(new URL(origin).protocol, authority));
}

/** Without the scheme's own port, which URLs omit. */
function hostOf(scheme: string, authority: string): string {
  const url = `${scheme}//${authority}`;
  return URL.canParse(url) ? new URL(url).host : authority.toLowerCase();
}

function invalid(message: string): CapstanError {
  return new CapstanError('INVALID_ARGUMENT', message);
}

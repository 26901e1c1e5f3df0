/**
 * Opening handshakes of WebSockets (RFC 6455, section 4): what is refused before a worker hears of it, and the headers
 * that it receives. Pure.
 */
import type { IncomingMessage } from 'node:http';

import type { Header } from '../../proto/gen/capstan/v1/invoke.ts';
import { CapstanError } from '../../lib/errors.ts';
import { PROTOCOL_HEADER, type OfferedProtocols } from '../../lib/websocket-key.ts';

/** 16 bytes in base64. */
const NONCE = /^[A-Za-z0-9+/]{22}==$/;

/** Returns why the request is no opening handshake of a WebSocket, else null. */
export function handshakeViolation({ method, headers, httpVersion }: IncomingMessage): CapstanError | null {
  if (method !== 'GET') return invalid('a WebSocket must be opened with GET');
  if (httpVersion !== '1.1') return invalid('a WebSocket must be opened with HTTP/1.1');
  // The bytes of a body would reach the worker as the first bytes of the connection.
  const length = headers['content-length'];
  if (headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')) {
    return invalid('a request with Upgrade must have no body');
  }
  const nonce = headers['sec-websocket-key'];
  if (nonce === undefined || !NONCE.test(nonce)) return invalid('Sec-WebSocket-Key: must be 16 bytes in base64');
  return null;
}

/** Returns the headers for the worker: without the key, and without cookies when another site's page asks. */
export function handshakeHeaders(headers: readonly Header[], protocols: OfferedProtocols | null, foreign: boolean): Header[] {
  const kept = headers.filter(({ name }) => !(foreign && name === 'cookie') && !(protocols !== null && name === PROTOCOL_HEADER));
  if (protocols?.forwarded !== undefined) kept.push({ name: PROTOCOL_HEADER, value: protocols.forwarded });
  return kept;
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

/**
 * Where requests come in: what is wrong with the HTTP itself is refused here, for the queue API and
 * for load-balanced endpoints alike, before anyone looks at the path.
 */
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import { isAnswering } from '../lb/responders.ts';
import { JSON_TYPE, problemText } from './problem.ts';
import { rewriteAbsoluteTarget } from './request-target.ts';
import type { Services } from './services.ts';
import { followRenewals, type Certificate } from './tls.ts';

/** Time for the headers of a request, ms, where a whole request has more. */
const MAX_HEADERS_MS = 60_000;
/** How often it is looked for requests that are out of time: so many times in that time, and at least so often, ms. */
const CHECKS = 10;
const MAX_CHECK_MS = 5_000;

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The server: load-balanced requests are taken out before the framework's `handler` sees them. `certificate`: null for plain HTTP. */
export function openListener(
  { config, log, loadBalancer }: Pick<Services, 'config' | 'log' | 'loadBalancer'>,
  certificate: Certificate | null,
  handler: Listener,
): Server {
  const listener: Listener = (request, response) => {
    const wrong = violation(request) ?? rewriteAbsoluteTarget(request);
    if (wrong !== null) {
      // What follows on this connection cannot be told from this request's body.
      const body = bodyOf(400, 'Bad Request', wrong);
      const headers = { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body), connection: 'close' };
      response.writeHead(400, headers).end(body);
    } else if (!loadBalancer.take(request, response)) handler(request, response);
  };
  const options = {
    requestTimeout: config.requestTimeoutMs,
    headersTimeout: Math.min(config.requestTimeoutMs, MAX_HEADERS_MS),
    connectionsCheckingInterval: Math.min(MAX_CHECK_MS, config.requestTimeoutMs / CHECKS),
    keepAliveTimeout: config.keepAliveMs,
    // Refused below, with a body that says so.
    requireHostHeader: false,
    // Clients that would rather speak HTTP/2 offer it with their first request (Java's does always): it is served as it is.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) => headers.upgrade?.toLowerCase() === 'websocket',
  };
  const encrypted = certificate === null ? null : createHttps({ ...options, ...certificate }, listener);
  const server = encrypted === null ? createHttp(options, listener) : (encrypted as unknown as Server);
  if (certificate !== null && encrypted !== null) {
    const use = encrypted.setSecureContext.bind(encrypted);
    server.once('close', followRenewals(certificate, { files: config, everyMs: config.httpTlsCheckMs, log, use }));
  }
  // An expectation that nobody knows may be ignored (RFC 9110 section 10.1.1).
  server.on('checkExpectation', listener);
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    refuse(socket, 405, 'Method Not Allowed', 'CONNECT is not allowed');
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const wrong = violation(request) ?? rewriteAbsoluteTarget(request);
    if (wrong !== null) refuse(socket, 400, 'Bad Request', wrong);
    else if (!loadBalancer.takeUpgrade(request, socket, head))
      refuse(socket, 404, 'Not Found', 'only load-balanced endpoints accept WebSockets; see /docs');
  });
  return server;
}

/** What this server and a proxy before it could read differently (RFC 9112 sections 3.2 and 6.1); null when there is nothing. */
function violation({ rawHeaders, headers, httpVersionMinor }: IncomingMessage): string | null {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts > 1) return 'Host: must occur once';
  if (hosts === 0 && httpVersionMinor > 0) return 'Host: is required';
  const encoding = headers['transfer-encoding'];
  return encoding === undefined || encoding.toLowerCase() === 'chunked' ? null : 'Transfer-Encoding: must be chunked';
}

/** Requests that never became one: the parser's errors, answered on the raw socket. */
export function refuseSocket(error: Error & { code?: string }, socket: Socket): void {
  refuse(socket, ...problemOf(error.code));
}

/** Answers on the bare socket and ends the connection. */
function refuse(socket: Duplex, status: number, title: string, message: string): void {
  // Into an answer that has begun nothing else may be written.
  if (socket.destroyed || !socket.writable || isAnswering(socket)) {
    socket.destroy();
    return;
  }
  const body = bodyOf(status, title, message);
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** A problem document that has `error`, too: it may have been for the host of a load-balanced endpoint. */
function bodyOf(status: number, title: string, message: string): string {
  return JSON.stringify({ ...(JSON.parse(problemText(status, title, message)) as object), error: title });
}

function problemOf(code: string | undefined): [number, string, string] {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return [431, 'Request Header Fields Too Large', 'headers: exceeded the max size of all headers'];
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return [413, 'Payload Too Large', 'body: exceeded the max size of chunk extensions'];
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return [408, 'Request Timeout', 'the request was not complete in time'];
    case 'HPE_INVALID_EOF_STATE':
      return [400, 'Bad Request', 'the connection ended before the request was complete'];
    case 'HPE_INVALID_CONTENT_LENGTH':
    case 'HPE_UNEXPECTED_CONTENT_LENGTH':
      return [400, 'Bad Request', 'Content-Length: must be one number, and must not be combined with Transfer-Encoding'];
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return [400, 'Bad Request', 'Transfer-Encoding: must be chunked'];
    case 'HPE_INVALID_METHOD':
      return [400, 'Bad Request', 'the request line must begin with an HTTP method'];
    case 'HPE_INVALID_CHUNK_SIZE':
      return [400, 'Bad Request', 'body: each chunk must begin with its size'];
    default:
      return [400, 'Bad Request', 'the request is not HTTP/1.1'];
  }
}

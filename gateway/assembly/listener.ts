/**
 * Receives requests and rejects invalid HTTP, for the queue API and for load-balanced endpoints alike, before the path
 * is examined.
 */
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { Server as NetServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import { isAnswering } from '../lb/responders.ts';
import { endSocket } from '../http/end-socket.ts';
import { JSON_TYPE, problemText } from '../http/problem.ts';
import { rewriteAbsoluteTarget } from '../http/request-target.ts';
import type { ConsoleServices } from '../console/services.ts';
import { followRenewals, type Certificate } from '../http/tls.ts';

/** Time for the headers of a request, ms, when the whole request may take longer. */
const MAX_HEADERS_MS = 60_000;
/** Timed-out requests are checked for this many times within the time-out, and at least this often, ms. */
const CHECKS = 10;
const MAX_CHECK_MS = 5_000;

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Creates the server. Load-balanced requests are handled before the framework's `handler`. `certificate`: null for
 * plain HTTP.
 */
export function openListener(
  { config, log, loadBalancer, draining }: Pick<ConsoleServices, 'config' | 'log' | 'loadBalancer' | 'draining'>,
  certificate: Certificate | null,
  handler: Listener,
): Server {
  const listener: Listener = (request, response) => {
    if (draining.aborted) response.shouldKeepAlive = false;
    const wrong = violation(request) ?? rewriteAbsoluteTarget(request);
    if (wrong !== null) {
      // The next request on this connection cannot be separated from this request's body.
      const body = bodyOf(400, 'Bad Request', wrong);
      const headers = { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body), connection: 'close' };
      response.writeHead(400, headers).end(body);
    } else if (!loadBalancer.take(request, response, () => handler(request, response))) handler(request, response);
  };
  const options = {
    requestTimeout: config.requestTimeoutMs,
    headersTimeout: Math.min(config.requestTimeoutMs, MAX_HEADERS_MS),
    connectionsCheckingInterval: Math.min(MAX_CHECK_MS, config.requestTimeoutMs / CHECKS),
    keepAliveTimeout: config.keepAliveMs,
    // Rejected below, with a body that names the reason.
    requireHostHeader: false,
    // Clients that prefer HTTP/2 offer an upgrade with their first request (Java's always does); it is served as
    // HTTP/1.1.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) => headers.upgrade?.toLowerCase() === 'websocket',
  };
  const encrypted = certificate === null ? null : createHttps({ ...options, ...certificate }, listener);
  const server = encrypted === null ? createHttp(options, listener) : (encrypted as unknown as Server);
  if (certificate !== null && encrypted !== null) {
    const use = encrypted.setSecureContext.bind(encrypted);
    server.once('close', followRenewals(certificate, { files: config, everyMs: config.httpTlsCheckMs, log, use }));
  }
  // An unknown expectation may be ignored (RFC 9110 section 10.1.1).
  server.on('checkExpectation', listener);
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    surviveReset(socket);
    refuse(socket, 405, 'Method Not Allowed', 'CONNECT is not allowed');
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    surviveReset(socket);
    const wrong = violation(request) ?? rewriteAbsoluteTarget(request);
    if (wrong !== null) refuse(socket, 400, 'Bad Request', wrong);
    else if (!loadBalancer.takeUpgrade(request, socket, head))
      refuse(socket, 404, 'Not Found', 'only load-balanced endpoints accept WebSockets; see /docs');
  });
  return server;
}

/**
 * Stops accepting connections and leaves the open ones, also idle ones, which the server's own `close` would close: a proxy may be
 * sending a request on one of them. `close` does so later.
 */
export function stopListening(server: Server): void {
  const close = server.close.bind(server);
  NetServer.prototype.close.call(server);
  server.close = (done) => close(() => done?.()); // that it does not listen any more is no error
}

/**
 * Returns what this server and a proxy in front of it could interpret differently (RFC 9112 sections 3.2 and 6.1), else
 * null.
 */
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

/** Sends a response to the parser's errors, on the raw socket. */
export function refuseSocket(error: Error & { code?: string }, socket: Socket): void {
  refuse(socket, ...problemOf(error.code));
}

/** The server no longer listens on a socket that it hands over: a reset by the peer would end the process. */
function surviveReset(socket: Duplex): void {
  socket.on('error', () => socket.destroy());
}

/** Sends a response on the raw socket and ends the connection. */
function refuse(socket: Duplex, status: number, title: string, message: string): void {
  // Nothing else may be written into a response that has begun.
  if (socket.destroyed || !socket.writable || isAnswering(socket)) {
    socket.destroy();
    return;
  }
  const body = bodyOf(status, title, message);
  endSocket(
    socket,
    `HTTP/1.1 ${status} ${title}\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** A problem document that also has `error`, because the request may have been for a load-balanced endpoint. */
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
      return [400, 'Bad Request', 'the request line must start with an HTTP method'];
    case 'HPE_INVALID_CHUNK_SIZE':
      return [400, 'Bad Request', 'body: each chunk must start with its size'];
    default:
      return [400, 'Bad Request', 'the request is not HTTP/1.1'];
  }
}

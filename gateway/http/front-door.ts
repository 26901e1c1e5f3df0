/**
 * Where requests come in: what is wrong with the HTTP itself is refused here, for the queue API and
 * for load-balanced endpoints alike, before anyone looks at the path.
 */
import { createServer as createHttp, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttps } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

import { JSON_TYPE, problemText } from './problem.ts';
import type { Services } from './services.ts';
import { tlsOptions } from './tls.ts';

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** The server: load-balanced requests are taken out before the framework's `handler` sees them. */
export function openFrontDoor({ config, loadBalancer }: Pick<Services, 'config' | 'loadBalancer'>, handler: Listener): Server {
  const tls = tlsOptions(config);
  const listener: Listener = (request, response) => {
    const wrong = breach(request);
    if (wrong !== null) {
      // What follows on this connection cannot be told from this request's body.
      const body = problemText(400, 'Bad Request', wrong);
      const headers = { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body), connection: 'close' };
      response.writeHead(400, headers).end(body);
    } else if (!loadBalancer.take(request, response)) handler(request, response);
  };
  const options = {
    requestTimeout: config.requestTimeoutMs,
    keepAliveTimeout: config.keepAliveMs,
    // Refused below, with a body that says so.
    requireHostHeader: false,
    // Clients that would rather speak HTTP/2 offer it with their first request (Java's does always): it is served as it is.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) => headers.upgrade?.toLowerCase() === 'websocket',
  };
  const server = tls === null ? createHttp(options, listener) : (createHttps({ ...options, ...tls }, listener) as unknown as Server);
  // An expectation that nobody knows may be ignored (RFC 9110 section 10.1.1).
  server.on('checkExpectation', listener);
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    refuse(socket, 405, 'Method Not Allowed', 'CONNECT is not allowed here');
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const wrong = breach(request);
    if (wrong !== null) refuse(socket, 400, 'Bad Request', wrong);
    else if (!loadBalancer.takeUpgrade(request, socket, head))
      refuse(socket, 404, 'Not Found', 'only load-balanced endpoints take WebSockets; see /docs');
  });
  return server;
}

/** What this server and a proxy before it could read differently (RFC 9112 sections 3.2 and 6.1); null when there is nothing. */
function breach({ rawHeaders, headers, httpVersionMinor }: IncomingMessage): string | null {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts > 1) return 'Host: must be given once';
  if (hosts === 0 && httpVersionMinor > 0) return 'Host: is required';
  const encoding = headers['transfer-encoding'];
  return encoding === undefined || encoding.toLowerCase() === 'chunked' ? null : 'Transfer-Encoding: must be chunked, and nothing else';
}

/** Requests that never became one: the parser's errors, answered on the raw socket. */
export function refuseSocket(error: Error & { code?: string }, socket: Socket): void {
  refuse(socket, ...problemOf(error.code));
}

/** Answers on the bare socket and ends the connection. */
function refuse(socket: Duplex, status: number, title: string, message: string): void {
  if (socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const body = problemText(status, title, message);
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\nContent-Type: ${JSON_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
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
      return [400, 'Bad Request', 'Content-Length: must be one number, and not stand beside Transfer-Encoding'];
    case 'HPE_INVALID_TRANSFER_ENCODING':
      return [400, 'Bad Request', 'Transfer-Encoding: must be chunked, and nothing else'];
    case 'HPE_INVALID_CHUNK_SIZE':
      return [400, 'Bad Request', 'body: its chunks must begin with their size'];
    default:
      return [400, 'Bad Request', 'the request is not HTTP/1.1'];
  }
}

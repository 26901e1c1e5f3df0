/** Passes an upgraded connection (WebSocket) to a web server, or to a function with the parameter `websocket`. */
import { STATUS_CODES, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

import type { HttpCall } from '../agent/local-workers.ts';
import { PROTOCOL_HEADER, readProtocols, withProtocol } from '../lib/websocket-key.ts';
import type { DeclaredEndpoint } from '../compiler/discovery/declared.ts';
import { mustLoad, requestOf, serverOf, type CallDeps } from './calls.ts';
import { Window, WINDOW_BYTES } from './http-answer.ts';
import type { Project } from './project.ts';
import { deployedRoutesOf, matchRoute } from './routes.ts';

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** What the caller sent already. */
  readonly head: Buffer;
}

/** Where a WebSocket goes. */
export interface UpgradeTarget {
  readonly endpoint: DeclaredEndpoint;
  readonly prefix: string;
  /** Empty for a web server. */
  readonly functionName: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/** Returns null when nothing at the path takes WebSockets. */
export function upgradeTarget(project: Project, pathname: string): UpgradeTarget | null {
  const server = serverOf(project, pathname);
  if (server !== null) return { ...server, functionName: '', parameters: {} };
  const found = matchRoute(pathname.startsWith('/lb/') ? deployedRoutesOf(project.routes) : project.routes, 'GET', pathname);
  if (!('route' in found)) return null;
  const { endpoint, fn, prefix } = found.route;
  if (fn.route === null || !fn.reading.parameters.some(({ name }) => name === 'websocket')) return null;
  return { endpoint, prefix, functionName: fn.name, parameters: found.parameters };
}

/** Settles when the connection has ended or was refused. */
export async function answerUpgrade(
  deps: CallDeps,
  { endpoint, prefix, functionName, parameters }: UpgradeTarget,
  { request, socket, head }: Upgrade,
): Promise<void> {
  // The key that a page sends to a deployed endpoint is not needed here, and no more for the application than there.
  const protocols = readProtocols(request.headers[PROTOCOL_HEADER]);
  const forwardedRequest = requestOf(request, functionName, prefix, parameters);
  const others = protocols === null ? forwardedRequest.headers : forwardedRequest.headers.filter(([name]) => name !== PROTOCOL_HEADER);
  const forwarded = protocols?.forwarded === undefined ? [] : [[PROTOCOL_HEADER, protocols.forwarded] as const];
  const window = new Window(WINDOW_BYTES);
  let call: HttpCall | undefined;
  const send = (bytes: Buffer, ended: boolean): void => {
    if (bytes.length > 0) socket.write(bytes, () => call?.credit(bytes.length));
    if (ended) socket.end();
  };
  socket.on('error', () => socket.destroy());
  socket.once('close', () => {
    // Nothing happens to a call that has ended.
    call?.abort(true);
    window.close();
  });
  try {
    const worker = await mustLoad(deps, endpoint);
    const opened = await worker.serve(
      { ...forwardedRequest, headers: [...others, ...forwarded], body: new Uint8Array(), ended: false, upgrade: true },
      {
        head(status, headers, bytes, ended) {
          const flat = withProtocol(headers.flat(), status === 101 ? protocols?.fallback : undefined);
          const fields = flat.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
          const taken = status === 101 ? 'Connection: Upgrade\r\nUpgrade: websocket\r\n' : 'Connection: close\r\n';
          socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${taken}${fields}\r\n`);
          send(bytes, ended);
        },
        body: send,
        credit: (bytes) => window.grant(bytes),
        failed: () => socket.destroy(),
      },
    );
    call = opened;
    if (socket.destroyed) {
      opened.abort(true);
      return;
    }
    if (head.length > 0) socket.unshift(head);
    for await (const bytes of socket as AsyncIterable<Buffer>) {
      if (!(await window.take(bytes.length))) return;
      opened.body(bytes, false);
    }
    opened.body(new Uint8Array(), true);
  } catch {
    // It did not load, which the terminal shows, or the caller disconnected.
    refuseUpgrade(socket, 500);
  }
}

export function refuseUpgrade(socket: Duplex, status: 403 | 404 | 500): void {
  if (socket.destroyed || !socket.writable) socket.destroy();
  else socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

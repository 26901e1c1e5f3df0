/** Passes an upgraded connection (WebSocket) to an endpoint that is a web server. */
import { STATUS_CODES, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';

import type { HttpCall } from '../../agent/local-workers.ts';
import { mustLoad, requestOf, type CallDeps, type ServerMatch } from './calls.ts';
import { Window, WINDOW_BYTES } from './http-answer.ts';

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** What the caller sent already. */
  readonly head: Buffer;
}

/** Settles when the connection has ended or was refused. */
export async function answerUpgrade(deps: CallDeps, { endpoint, prefix }: ServerMatch, { request, socket, head }: Upgrade): Promise<void> {
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
      { ...requestOf(request, '', prefix, {}), body: new Uint8Array(), ended: false, upgrade: true },
      {
        head(status, headers, bytes, ended) {
          const fields = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
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
    refuseUpgrade(socket, 502);
  }
}

export function refuseUpgrade(socket: Duplex, status: 403 | 404 | 502): void {
  if (socket.destroyed || !socket.writable) socket.destroy();
  else socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

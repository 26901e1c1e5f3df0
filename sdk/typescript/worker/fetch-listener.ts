/** Serves an application of the Fetch API (Hono, Elysia, `{ fetch }`) with Node's HTTP server. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { inspect } from 'node:util';

export interface FetchApp {
  fetch(request: Request, env?: unknown): Response | Promise<Response>;
}

const WITHOUT_BODY = new Set(['GET', 'HEAD']);

export function fetchListener(app: FetchApp): RequestListener {
  return (incoming, outgoing) => {
    answer(app, incoming, outgoing).catch((error: unknown) => {
      // The caller disconnected, or the application failed: it logs its own errors, and this one reached nobody.
      if (outgoing.destroyed) return;
      process.stderr.write(`${inspect(error)}\n`);
      if (outgoing.headersSent) outgoing.destroy();
      else outgoing.writeHead(500, { 'content-type': 'text/plain' }).end('Internal Server Error');
    });
  };
}

async function answer(app: FetchApp, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) gone.abort();
  });
  // The names that adapters of such frameworks pass.
  const response = await app.fetch(requestOf(incoming, gone.signal), { incoming, outgoing });
  outgoing.statusCode = response.status;
  if (response.statusText !== '') outgoing.statusMessage = response.statusText;
  const cookies = response.headers.getSetCookie();
  for (const [name, value] of response.headers) if (name !== 'set-cookie') outgoing.setHeader(name, value);
  if (cookies.length > 0) outgoing.setHeader('set-cookie', cookies);
  if (response.body === null) {
    outgoing.end();
    return;
  }
  outgoing.flushHeaders();
  await pipeline(Readable.fromWeb(response.body), outgoing);
}

function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request {
  const { method = 'GET', url = '/', headers, rawHeaders } = incoming;
  const given = new Headers();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) given.append(rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '');
  const scheme = headers['x-forwarded-proto'] === 'https' ? 'https' : 'http';
  const address = `${scheme}://${headers.host ?? 'localhost'}${url}`;
  if (WITHOUT_BODY.has(method)) return new Request(address, { method, headers: given, signal });
  return new Request(address, {
    method,
    headers: given,
    signal,
    body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>,
    duplex: 'half',
  });
}

/** The state manager and the endpoints that a worker calls, as far as a caller sees them. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { ExecutionContext } from 'ava';

export interface Asked {
  readonly request: string;
  readonly authorization: string | undefined;
  readonly accept: string | undefined;
  readonly idempotencyKey: string | undefined;
  readonly body: unknown;
}

interface Submitted {
  readonly input: Readonly<Record<string, unknown>>;
}

export interface FakePeers {
  readonly url: string;
  readonly asked: Asked[];
  /** Waits until a request that begins so was made. */
  heard(request: string): Promise<Asked>;
}

/**
 * Queue endpoint `gpu` echoes its input, load-balanced endpoint `api` its request; `gone` is not there. A job with the
 * text `held` never ends, and neither does what `/held` streams: LEFT is told when its caller goes away.
 */
export async function fakePeers(t: ExecutionContext): Promise<FakePeers> {
  const asked: Asked[] = [];
  const listeners = new Set<() => void>();
  const tell = (request: Asked): void => {
    asked.push(request);
    for (const listener of listeners) listener();
  };
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const { method = '', url = '' } = request;
      const { authorization, accept, 'idempotency-key': key } = request.headers;
      tell({ request: `${method} ${url}`, authorization, accept, idempotencyKey: Array.isArray(key) ? key[0] : key, body });
      if (url.startsWith('/lb/api/lines')) {
        response.writeHead(200, { 'content-type': 'application/x-ndjson' });
        response.write('"a"\n{"n":');
        if (!url.includes('held')) response.end('1}\n');
        else response.write('1}\n');
        response.once('close', () => {
          if (!response.writableFinished) tell({ request: 'LEFT', authorization, accept, idempotencyKey: undefined, body: undefined });
        });
        return;
      }
      if (isHeld(url, body)) return;
      const [status, answer] = answerTo(method, url, body, `http://${request.headers.host ?? ''}`);
      response.writeHead(status, { 'content-type': 'application/json', 'capstan-stream-cursor': '1.2' });
      response.end(JSON.stringify(answer));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const heard = async (wanted: string): Promise<Asked> => {
    for (;;) {
      const found = asked.find(({ request }) => request.startsWith(wanted));
      if (found !== undefined) return found;
      const { promise, resolve } = Promise.withResolvers<void>();
      listeners.add(resolve);
      await promise;
      listeners.delete(resolve);
    }
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, heard };
}

function isHeld(url: string, body: unknown): boolean {
  if (url.startsWith('/v2/id-gpu/stream/job-held')) return url.includes('after=1.2');
  return url.startsWith('/v2/id-gpu/runsync') && (body as Submitted).input['text'] === 'held';
}

function answerTo(method: string, url: string, body: unknown, base: string): readonly [status: number, answer: unknown] {
  if (url === '/graphql') {
    const { name } = (body as { readonly variables: { readonly name: string } }).variables;
    const kind = name === 'api' ? 'LOAD_BALANCED' : 'QUEUE';
    const endpoint = name === 'gone' ? null : { id: `id-${name}`, name, kind, url: kind === 'QUEUE' ? '' : `${base}/lb/${name}` };
    return [200, { data: { endpoint } }];
  }
  if (url.startsWith('/v2/id-gpu/runsync')) {
    const { input } = body as Submitted;
    if (input['text'] === 'bad') return [200, { id: 'sync-1', status: 'FAILED', error: 'the text is bad' }];
    return [200, { id: 'sync-1', status: 'COMPLETED', output: input }];
  }
  if (url.startsWith('/v2/id-gpu/run'))
    return [200, { id: (body as Submitted).input['text'] === 'held' ? 'job-held' : 'job-1', status: 'IN_QUEUE' }];
  if (url.startsWith('/v2/id-gpu/cancel')) return [200, { id: 'job-held', status: 'CANCELLED' }];
  if (url.startsWith('/v2/id-gpu/stream/job-held')) return [200, { status: 'IN_PROGRESS', stream: [{ output: 'a' }] }];
  if (url.startsWith('/v2/id-gpu/stream')) return [200, { status: 'COMPLETED', stream: [{ output: 'a' }, { output: 'b' }] }];
  if (url.startsWith('/lb/api/items/bad')) return [422, { error: 'Unprocessable', detail: 'id: must be a number' }];
  if (url.startsWith('/lb/api/')) return [200, { method, url, body: body ?? null }];
  return [404, { status: 404, title: 'Not Found' }];
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? undefined : (JSON.parse(text) as unknown);
}

/** The state manager and the endpoints that a worker calls, as far as a caller sees them. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { ExecutionContext } from 'ava';

export interface Asked {
  readonly request: string;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

interface Submitted {
  readonly input: Readonly<Record<string, unknown>>;
}

/** Queue endpoint `gpu` echoes its input, load-balanced endpoint `api` its request; `gone` is not there. */
export async function fakePeers(t: ExecutionContext): Promise<{ readonly url: string; readonly asked: Asked[] }> {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const { method = '', url = '' } = request;
      asked.push({ request: `${method} ${url}`, authorization: request.headers.authorization, body });
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
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
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
  if (url.startsWith('/v2/id-gpu/run')) return [200, { id: 'job-1', status: 'IN_QUEUE' }];
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

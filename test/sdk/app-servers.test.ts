/** What a worker in Node serves as an application, and how it ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';

const servers = pathToFileURL(join(import.meta.dirname, '../../sdk/typescript/worker/servers.ts')).href;

interface Serving {
  readonly url: string;
  readonly ended: Promise<number | null>;
  readonly stop: () => void;
  readonly stderr: () => string;
}

async function serving(t: ExecutionContext, source: string, name = ''): Promise<Serving> {
  const folder = await folderOf(t, { 'app.mjs': source });
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port } = free.address() as AddressInfo;
  await new Promise((resolve) => free.close(resolve));
  const program = `import { serveApp } from ${JSON.stringify(servers)};
await serveApp({ name: ${JSON.stringify(name)}, load: () => import(${JSON.stringify(pathToFileURL(join(folder, 'app.mjs')).href)}) });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { PATH: process.env['PATH'], PORT: String(port), CAPSTAN_HOST: '127.0.0.1' },
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)));
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { url: `http://127.0.0.1:${port}`, ended, stop: () => child.kill('SIGTERM'), stderr: () => stderr };
}

const LISTENER = "(request, response) => response.end('by ' + request.method)";
const KINDS: readonly [name: string, source: string, exported?: string][] = [
  ['a request listener', `export default ${LISTENER};`],
  ['an export app', `export const app = ${LISTENER};`],
  ['a named export', `export const api = ${LISTENER}; export default 5;`, 'api'],
  ['a promise', `export default Promise.resolve(${LISTENER});`],
  ['a server of node:http', `import { createServer } from 'node:http'; export default createServer(${LISTENER});`],
  ['an object with fetch', "export default { fetch: (request) => new Response('by ' + request.method) };"],
  ['an application of Koa', `export default { use() {}, callback: () => ${LISTENER} };`],
  [
    'a file that listens itself, whatever it exports',
    `import { createServer } from 'node:http'; createServer(${LISTENER}).listen(process.env.PORT); export default () => undefined;`,
  ],
];
for (const [name, source, exported] of KINDS) {
  test(`served: ${name}`, async (t) => {
    const { url, stop, ended } = await serving(t, source, exported);
    const answer = await until('it answers', async () => fetch(url, { method: 'POST', body: 'x' }).catch(() => null));
    t.is(await answer.text(), 'by POST');
    stop();
    // In order, unless the file has a server of its own: the signal ends that.
    t.is(await ended, name.startsWith('a file') ? null : 0);
  });
}

test('a Fetch application gets body and headers, and sends several cookies and a stream', async (t) => {
  const { url } = await serving(
    t,
    `export default { async fetch(request) {
  const text = await request.text();
  const headers = new Headers({ 'x-given': request.headers.get('x-given') ?? '' });
  headers.append('set-cookie', 'a=1');
  headers.append('set-cookie', 'b=2');
  const parts = [text, ' ', new URL(request.url).pathname];
  return new Response(new ReadableStream({ pull(c) { const part = parts.shift(); part === undefined ? c.close() : c.enqueue(new TextEncoder().encode(part)); } }), { status: 201, headers });
} };`,
  );
  const ask = (): Promise<Response | null> =>
    fetch(`${url}/p?q`, { method: 'PUT', body: 'text', headers: { 'x-given': 'y' } }).catch(() => null);
  const answer = await until('it answers', ask);
  t.is(answer.status, 201);
  t.is(answer.headers.get('x-given'), 'y');
  t.deepEqual(answer.headers.getSetCookie(), ['a=1', 'b=2']);
  t.is(await answer.text(), 'text /p');
});

for (const [name, source, message] of [
  ['a file without an application', 'export const other = 1;', /exports no application and does not listen on process\.env\.PORT/],
  ['a value that is none', 'export default 5;', /app must be an application of Express, .*, not number/],
  ['a file that throws', "throw new Error('no model here');", /no model here/],
] as const) {
  test(`ends with its reason: ${name}`, async (t) => {
    const { ended, stderr } = await serving(t, source);
    t.is(await ended, 1);
    t.regex(stderr(), message);
  });
}

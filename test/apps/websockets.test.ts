/** WebSockets from real clients (undici's, which is a browser's, and `ws`) to unmodified servers: Node's `ws`, and uvicorn. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import { WebSocket } from 'undici';

import { run as start } from '../cli/fakes/run.ts';
import { Stack } from '../support/stack.ts';
import { Signals } from '../agent/signals.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const SOURCE = join(import.meta.dirname, 'websockets');
const NAMES = ['node', 'python'] as const;

let stack: Stack;
let folder: string;
let packages: string;
let ids: ReadonlyMap<string, string>;

/** Deploys the two servers; another version replaces their workers. */
async function deploy(version: number): Promise<void> {
  const manifest = (await readFile(join(SOURCE, 'tool_manifest.json'), 'utf8')).replaceAll('$PACKAGES', packages);
  await writeFile(join(folder, 'tool_manifest.json'), manifest.replaceAll(/"env": \{/g, `"env": { "RELEASE": "${version}",`));
  const rows = JSON.parse(await stack.tool('deploy', folder, '--json')) as { id: string; name: string }[];
  ids = new Map(rows.map(({ id, name }) => [name, id]));
}

test.before(async () => {
  stack = await Stack.start({}, (own) => Promise.resolve({ CAPSTAN_SANDBOX_PATHS: join(own, 'tmp/packages') }));
  packages = join(stack.scratch, 'packages');
  folder = join(stack.scratch, 'servers');
  await mkdir(packages);
  await cp(SOURCE, folder, { recursive: true });
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-compile', '--target', packages];
  await Promise.all([
    run('python3', [...pip, 'uvicorn==0.38.0', 'websockets==15.0.1']),
    run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--prefix', packages, 'ws@8.18.3']),
  ]);
  await deploy(1);
});

test.after.always(async () => stack.close());

interface Hello {
  readonly path: string;
  readonly protocols: string | null;
  readonly deflate: string;
}

interface Open {
  readonly socket: WebSocket;
  readonly hello: Hello;
  readonly messages: Signals<unknown>;
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
}

/** As a browser's page does it: no headers, but subprotocols. */
function connect(name: string, path: string, protocols: readonly string[] = []): WebSocket {
  const url = `${stack.url.replace('http', 'ws')}/lb/${ids.get(name) ?? ''}${path}`;
  return new WebSocket(url, ['capstan', `capstan-key.${stack.apiKey}`, ...protocols]);
}

async function open(name: string, path: string, protocols: readonly string[] = []): Promise<Open> {
  const socket = connect(name, path, protocols);
  socket.binaryType = 'arraybuffer';
  const messages = new Signals<unknown>(60_000);
  socket.addEventListener('message', ({ data }) => messages.push(data));
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.addEventListener('close', ({ code, reason }) => resolve({ code, reason }));
  });
  const refused = closed.then(({ code, reason }) => {
    throw new Error(`${name}${path} was closed before its first message: ${code} ${reason}`);
  });
  const hello = JSON.parse(String(await Promise.race([messages.next(() => true), refused]))) as Hello;
  // Its later end is no fault.
  refused.catch(() => undefined);
  return { socket, hello, messages, closed };
}

for (const name of NAMES) {
  test.serial(`${name}: subprotocols, compression and messages of any size pass, and the server's own end`, async (t) => {
    const plain = await open(name, '/chat/a');
    t.deepEqual(plain.hello, { path: '/chat/a', protocols: null, deflate: 'permessage-deflate' });
    t.is(plain.socket.protocol, 'capstan');
    t.is(plain.socket.extensions.split(';')[0], 'permessage-deflate');
    const { socket, hello, messages, closed } = await open(name, '/', ['echo.v1', 'echo.v2']);
    t.is(hello.protocols?.replaceAll(' ', ''), 'echo.v1,echo.v2');
    t.is(socket.protocol, 'echo.v2');
    // Within the limit of a message that uvicorn and ws have.
    for (const bytes of [0, 1, 125, 126, 65_535, 65_536, 900_000]) {
      const sent = randomBytes(bytes);
      const from = messages.items.length;
      socket.send(sent);
      t.true(Buffer.from((await messages.next(() => true, from)) as ArrayBuffer).equals(sent), String(bytes));
    }
    const from = messages.items.length;
    for (let n = 0; n < 500; n++) socket.send(`message ${n} ${'x'.repeat(n)}`);
    await messages.next((message) => String(message).startsWith('message 499'), from);
    t.is(messages.items.length - from, 500);
    const metrics = await (await stack.call('/metrics?part=gateway')).text();
    t.true(metrics.includes(`capstan_lb_websockets_open{endpoint="${ids.get(name) ?? ''}"} 2`), metrics);
    socket.send('bye');
    t.deepEqual(await closed, { code: 4001, reason: 'as asked' });
    plain.socket.close(1000);
    t.is((await plain.closed).code, 1000);
  });

  test.serial(`${name}: a client that sends headers, on the endpoint's own host`, async (t) => {
    const { WebSocket: Client } = createRequire(`${packages}/`)('ws') as {
      WebSocket: new (...args: unknown[]) => NodeJS.EventEmitter & { close(): void };
    };
    const host = `${ids.get(name) ?? ''}.lb.localhost:${new URL(stack.url).port}`;
    const socket = new Client(stack.url.replace('http', 'ws'), { headers: { host, authorization: `Bearer ${stack.apiKey}` } });
    const [hello] = (await once(socket, 'message')) as [Buffer];
    t.like(JSON.parse(hello.toString()), { path: '/', protocols: null });
    socket.close();
    t.is(((await once(socket, 'close')) as [number])[0], 1005);
  });

  test.serial(`${name}: a worker that ends says 1012, and the next one takes who comes again`, async (t) => {
    const first = await open(name, '/');
    first.socket.send('exit');
    t.is((await first.closed).code, 1012);
    // One that comes while the server ends may be cut twice; 1012 asks callers to come again.
    const again = await until('the next worker takes it', () => open(name, '/again').catch(() => null));
    t.is(again.hello.path, '/again');
    again.socket.close();
    await again.closed;
  });
}

test.serial('functions have the caller’s WebSocket, with the values of path and query, in Python and TypeScript', async (t) => {
  const functions = await stack.deploy(join(import.meta.dirname, 'websocket-functions'));
  ids = new Map([...ids, ...functions]);
  for (const name of ['talk', 'speak']) {
    const socket = connect(name, '/rooms/blue?loud=1', ['chat']);
    await once(socket as unknown as NodeJS.EventEmitter, 'open');
    t.is(socket.protocol, 'chat');
    socket.send('hello');
    const [{ data }] = (await once(socket as unknown as NodeJS.EventEmitter, 'message')) as [{ data: unknown }];
    t.is(data, 'blue: HELLO');
    const closed = once(socket as unknown as NodeJS.EventEmitter, 'close');
    socket.close(4000, 'done');
    t.is(((await closed) as [{ code: number }])[0].code, 4000);
  }
  // A function without the parameter is called by HTTP alone, and the other one by a WebSocket alone.
  const refused = connect('talk', '/plain');
  await once(refused as unknown as NodeJS.EventEmitter, 'error');
  const plain = await stack.call(`/lb/${ids.get('talk') ?? ''}/rooms/blue`);
  t.deepEqual(await plain.json(), { error: 'Bad Request', detail: 'websocket: is required' });
  const { paths } = (await (await stack.call(`/lb/${ids.get('talk') ?? ''}/openapi.json`)).json()) as { paths: Record<string, object> };
  t.deepEqual(Object.keys(paths), ['/rooms/{room}', '/plain']);
});

test.serial('functions have WebSockets under capstan run as they are deployed', async (t) => {
  const project = join(stack.scratch, 'run');
  await cp(join(import.meta.dirname, 'websocket-functions'), project, { recursive: true });
  const server = start([join(import.meta.dirname, '../../cli/main.ts'), 'run', '--port', '0'], {
    cwd: project,
    env: { TMPDIR: stack.scratch },
  });
  t.teardown(() => server.child.kill('SIGTERM'));
  const [, base = ''] = await server.hear(/development server: http:\/\/localhost(:\d+)/);
  for (const path of ['/talk/rooms/blue', '/lb/talk/rooms/blue', '/speak/rooms/blue']) {
    // A page's code is the same: its key is neither needed nor passed on.
    const socket = new WebSocket(`ws://127.0.0.1${base}${path}`, ['capstan', 'capstan-key.cap_any']);
    await once(socket as unknown as NodeJS.EventEmitter, 'open');
    t.is(socket.protocol, 'capstan');
    socket.send('hello');
    const [{ data }] = (await once(socket as unknown as NodeJS.EventEmitter, 'message')) as [{ data: unknown }];
    t.is(data, 'blue: hello');
    socket.close();
    await once(socket as unknown as NodeJS.EventEmitter, 'close');
  }
  const refused = new WebSocket(`ws://127.0.0.1${base}/talk/plain`);
  await once(refused as unknown as NodeJS.EventEmitter, 'error');
  server.child.kill('SIGTERM');
  await server.ended;
});

test.serial('a deployment replaces the workers; the old ones have their WebSockets closed by their servers', async (t) => {
  const old = await Promise.all(NAMES.map((name) => open(name, '/')));
  await deploy(2);
  for (const name of NAMES) {
    const { socket, closed } = await until('a worker of the new release', () => open(name, '/new'));
    socket.close();
    await closed;
  }
  // Still there, until the half minute is over.
  for (const { socket, messages } of old) {
    const from = messages.items.length;
    socket.send('still');
    t.is(await messages.next(() => true, from), 'still');
  }
  const ends = await Promise.all(old.map(({ closed }) => closed));
  t.deepEqual(ends, [
    { code: 1001, reason: 'the server stops' },
    { code: 1012, reason: '' },
  ]);
});

test.serial('a stack that stops tells its WebSockets so', async (t) => {
  const all = await Promise.all(NAMES.map((name) => open(name, '/')));
  await stack.interrupt();
  for (const { closed } of all) t.true([1001, 1012, 1014].includes((await closed).code));
});

/** Requests to workers that listen themselves: which of those that came to nothing another worker may have, and who is asked no more. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, createServer as createHttpServer } from 'node:http';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

import test, { type ExecutionContext } from 'ava';

import type { HttpRequest } from '../../agent/runtimes/runtime.ts';
import { ProxiedRequest } from '../../agent/runtimes/server/proxied-request.ts';
import { ServerWorker } from '../../agent/runtimes/server/server-worker.ts';
import { until } from '../support/until.ts';
import { Signals } from './signals.ts';

const EMPTY = Buffer.alloc(0);
const GET: HttpRequest = {
  function: '',
  method: 'GET',
  url: 'http://h.test/',
  headers: [['host', 'h.test']],
  pathValues: {},
  body: EMPTY,
  ended: true,
};

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly untouched: boolean;
}

async function listening(t: ExecutionContext, server: Server): Promise<number> {
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

/** How a request to a port of this host fails. */
async function failureOf(port: number, order: Partial<HttpRequest> = {}, isGone = false): Promise<Failure & { readonly refused: boolean }> {
  let refused = false;
  const failed = await new Promise<Failure>((resolve, reject) => {
    const request: ProxiedRequest = new ProxiedRequest(
      { host: '127.0.0.1', port, healthPort: port },
      { ...GET, ...order },
      {
        head: () => undefined,
        body: (_bytes, ended) => {
          if (ended) reject(new Error('it was answered'));
        },
        credit: () => undefined,
        failed: (code, message, untouched) => resolve({ code, message, untouched }),
      },
      {
        agent: new Agent({ keepAlive: false }),
        isRefused: () => isGone,
        onRefused: () => (refused = true),
        onInvalid: reject,
        holdMs: 0,
        workerEndOf: () => undefined,
        onOver: () => request.credit(0),
      },
    );
  });
  return { ...failed, refused };
}

test('nobody listens: whatever the method and the body, another worker may have it', async (t) => {
  const server = createServer();
  const port = await listening(t, server);
  await new Promise((resolve) => server.close(resolve));
  for (const order of [
    {},
    { method: 'POST', body: Buffer.from('body') },
    { method: 'POST', body: Buffer.from('begun'), ended: false },
    { upgrade: true, ended: false },
  ]) {
    t.like(await failureOf(port, order), { code: 'UNAVAILABLE', untouched: true, refused: true });
  }
});

test('a server that goes before it accepted the connection has not read it', async (t) => {
  const source = `
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(5)
print(s.getsockname()[1], flush=True)
# Until the request is in the connection, which is accepted by the system alone.
def unread(line):
    local, _, state, queues = line.split()[1:5]
    return int(local.split(":")[1], 16) == s.getsockname()[1] and state == "01" and int(queues.split(":")[1], 16) > 0
while not any(unread(line) for line in open("/proc/net/tcp").readlines()[1:]): pass
s.close()
input()
`;
  for (const [method, untouched] of [
    ['GET', true],
    ['POST', false],
  ] as const) {
    const child = spawn('python3', ['-c', source], { stdio: ['pipe', 'pipe', 'inherit'] });
    t.teardown(() => child.kill());
    const [printed] = (await once(child.stdout, 'data')) as [Buffer];
    t.like(await failureOf(Number(printed.toString()), { method }), { code: 'WORKER_LOST', untouched, refused: false }, method);
  }
});

test('of what a server may have read, another worker gets nothing', async (t) => {
  const RESET = (socket: Socket): void => void socket.resetAndDestroy();
  const cases: readonly [name: string, order: Partial<HttpRequest>, act: (socket: Socket) => void, untouched: boolean][] = [
    ['reset, idempotent, no body', { method: 'DELETE' }, RESET, true],
    ['reset, a body has begun', { method: 'PUT', body: Buffer.from('body') }, RESET, false],
    ['reset, not idempotent', { method: 'PATCH' }, RESET, false],
    ['ended in order', {}, (socket) => socket.end(), false],
    ['reset in the middle of the head', {}, (socket) => socket.write('HTTP/1.1 200', () => RESET(socket)), false],
  ];
  for (const [name, order, act, untouched] of cases) {
    const server = createServer((socket) => socket.once('data', () => act(socket)).on('error', () => undefined));
    const port = await listening(t, server);
    t.like(await failureOf(port, order), { code: 'WORKER_LOST', untouched, refused: false }, name);
  }
});

test('a reset of a server that is gone is a refusal of what can be sent again', async (t) => {
  // As pasta does: it accepts, finds that nothing listens behind it, and resets.
  const server = createServer((socket) => socket.once('data', () => socket.resetAndDestroy()).on('error', () => undefined));
  const port = await listening(t, server);
  for (const order of [{}, { method: 'DELETE' }, { upgrade: true, ended: false }])
    t.like(await failureOf(port, order, true), { code: 'UNAVAILABLE', untouched: true, refused: true });
  for (const order of [{ method: 'PATCH' }, { method: 'PUT', body: Buffer.from('body') }])
    t.like(await failureOf(port, order, true), { code: 'WORKER_LOST', untouched: false, refused: true });
});

function isRefused(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  return new Promise((resolve) => {
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
    socket.once('close', () => resolve(false));
  });
}

test('one that refuses connections gets no request before it has answered GET /ping again', async (t) => {
  const says = new Signals<boolean | 'loaded'>();
  const serve = createHttpServer((_request, response) => response.end('here'));
  const port = await listening(t, serve);
  const worker = new ServerWorker({
    preparing: () => undefined,
    startFailed: (_reason, detail) => t.fail(detail),
    started: () => undefined,
    waiting: (detail) => t.fail(detail),
    loaded: () => says.push('loaded'),
    loadFailed: (detail) => t.fail(detail),
    entered: () => undefined,
    chunk: () => undefined,
    progress: () => undefined,
    ended: () => undefined,
    reloading: () => undefined,
    reachable: (is) => says.push(is),
    violation: (detail) => t.fail(detail),
    log: () => undefined,
    exited: () => undefined,
  });
  const spec = { workerId: 'w', endpointId: 'e', folder: '', workFolder: '', functions: [], env: {}, deviceUuids: [], maxConcurrency: 1 };
  worker.launch(
    { ...spec, memoryBytes: 0, cpuMillis: 0, image: '', command: [] },
    {},
    Promise.resolve({
      variables: { PORT: String(port), PORT_HEALTH: String(port), CAPSTAN_HOST: '127.0.0.1', CAPSTAN_BUILD: '' },
      launcher: (_spec, _env, events) => {
        process.nextTick(() => events.started());
        return { pid: undefined, terminate: () => events.exited('ended'), kill: () => events.exited('killed') };
      },
      reach: () => Promise.resolve({ host: '127.0.0.1', port, healthPort: port }),
    }),
  );
  await says.next((said) => said === 'loaded');
  await new Promise((resolve) => serve.close(resolve));
  // A process that another test starts in this moment holds the socket, too, until it has become its own program.
  await until('nobody listens', () => isRefused(port));
  const ask = (): Promise<unknown> =>
    new Promise((resolve) =>
      worker.serve(GET, {
        head: (status) => resolve(status),
        body: () => undefined,
        credit: () => undefined,
        failed: (code, _message, untouched) => resolve({ code, untouched }),
      }),
    );
  t.deepEqual(await Promise.all([ask(), ask()]), [
    { code: 'UNAVAILABLE', untouched: true },
    { code: 'UNAVAILABLE', untouched: true },
  ]);
  t.deepEqual(says.items, ['loaded', false]);
  serve.listen(port, '127.0.0.1');
  await says.next((said) => said === true);
  t.is(await ask(), 200);
  worker.end(true);
});

test('what a caller sends before its connection is upgraded is the first of what the server reads after it', async (t) => {
  const server = createHttpServer();
  server.on('upgrade', (_request, socket, head) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    socket.write(head);
    socket.pipe(socket);
  });
  const port = await listening(t, server);
  const echoed = new Signals<string>();
  let text = '';
  const call: ProxiedRequest = new ProxiedRequest(
    { host: '127.0.0.1', port, healthPort: port },
    { ...GET, upgrade: true, ended: false, body: Buffer.from('early ') },
    {
      head: (status) => t.is(status, 101),
      body: (bytes, ended) => {
        text += bytes.toString();
        if (ended) echoed.push(text);
      },
      credit: () => undefined,
      failed: (_code, message) => t.fail(message),
    },
    {
      agent: new Agent({ keepAlive: false }),
      isRefused: () => false,
      onRefused: () => t.fail(),
      onInvalid: (line) => t.fail(line),
      holdMs: 0,
      workerEndOf: () => undefined,
      onOver: () => undefined,
    },
  );
  // Before the connection exists.
  call.body(Buffer.from('and late'), true);
  t.is(await echoed.next(() => true), 'early and late');
});

/** When a worker with its own server is ready, what it waits for until then, and when it counts as dead. */
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Server } from 'node:net';

import test, { type ExecutionContext } from 'ava';

import { checkAgain, checkServer, describeCheck, isHealthy, readyBy, type CheckResult } from '../../agent/runtimes/server/health-check.ts';
import type { LauncherEvents } from '../../agent/runtimes/foreign/launcher.ts';
import { ServerWorker } from '../../agent/runtimes/server/server-worker.ts';
import { Signals } from './signals.ts';

async function portOf(t: ExecutionContext, server: Server): Promise<number> {
  t.teardown(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

async function check(t: ExecutionContext, server: Server): Promise<CheckResult> {
  const port = await portOf(t, server);
  return checkServer({ host: '127.0.0.1', port, healthPort: port });
}

const answering =
  (status: number): RequestListener =>
  (_request, response) =>
    void response.writeHead(status).end();

test('GET /ping decides where the server has it; any other answer shows that it serves', async (t) => {
  const cases: readonly [status: number, by: string | null][] = [
    [200, 'ping'],
    [201, 'ping'],
    [204, null],
    [503, null],
    [500, null],
    [404, 'http'],
    [405, 'http'],
    [401, 'http'],
    [302, 'http'],
  ];
  for (const [status, by] of cases) t.is(readyBy(await check(t, createServer(answering(status)))), by as never, String(status));
});

test('a server that speaks something else accepts connections, and a port without one does not', async (t) => {
  const closing = await check(
    t,
    createTcpServer((socket) => socket.end('SSH-2.0-x\r\n')),
  );
  t.like(closing, { kind: 'connected', silent: false });
  t.is(readyBy(closing), null);
  t.true(isHealthy(closing, 'connection'));
  t.false(isHealthy(closing, 'ping'));
  const server = createTcpServer();
  const port = await portOf(t, server);
  await new Promise((resolve) => server.close(resolve));
  const nobody = await checkServer({ host: '127.0.0.1', port, healthPort: port });
  t.false(isHealthy(nobody, 'connection'));
  t.is(
    describeCheck(nobody, { host: '127.0.0.1', port, healthPort: port }),
    `GET /ping on port ${port}: connect ECONNREFUSED 127.0.0.1:${port}`,
  );
});

test('later a server with a health check must answer it, and one without must accept a connection and gets no request', async (t) => {
  let requests = 0;
  const port = await portOf(
    t,
    createServer((request, response) => {
      requests += 1;
      answering(500)(request, response);
    }),
  );
  const reach = { host: '127.0.0.1', port, healthPort: port };
  t.true(isHealthy(await checkAgain(reach, 'http'), 'http'));
  t.true(isHealthy(await checkAgain(reach, 'connection'), 'connection'));
  t.is(requests, 0);
  t.false(isHealthy(await checkAgain(reach, 'ping'), 'ping'));
  t.is(requests, 1);
  for (const [status, healthy] of [
    [200, true],
    [201, true],
    [204, true],
    [404, false],
    [503, false],
  ] as const)
    t.is(isHealthy({ kind: 'status', status }, 'ping'), healthy, String(status));
});

type Said = { readonly say: 'loaded' } | { readonly say: 'waiting' | 'log' | 'exited'; readonly text: string };

/** A worker whose program is this test's own server. */
function workerOn(
  t: ExecutionContext,
  port: number,
  startTimeoutMs = 0,
): { said: Signals<Said>; program: Promise<LauncherEvents>; worker: ServerWorker } {
  const said = new Signals<Said>();
  const program = Promise.withResolvers<LauncherEvents>();
  const none = (): void => undefined;
  const worker = new ServerWorker({
    preparing: none,
    startFailed: (_reason, detail) => t.fail(detail),
    started: none,
    waiting: (text) => said.push({ say: 'waiting', text }),
    loaded: () => said.push({ say: 'loaded' }),
    loadFailed: (detail) => t.fail(detail),
    violation: (detail) => t.fail(detail),
    entered: none,
    chunk: none,
    progress: none,
    ended: none,
    reloading: none,
    reachable: none,
    log: ({ text, stream }) => {
      if (stream === 'system') said.push({ say: 'log', text });
    },
    exited: (text) => said.push({ say: 'exited', text }),
  });
  const spec = { workerId: 'w', endpointId: 'e', folder: '', workFolder: '', functions: [], env: {}, deviceUuids: [], maxConcurrency: 1 };
  worker.launch(
    { ...spec, memoryBytes: 0, cpuMillis: 0, image: '', command: [], startTimeoutMs },
    {},
    Promise.resolve({
      variables: { PORT: String(port), PORT_HEALTH: String(port), CAPSTAN_HOST: '127.0.0.1', CAPSTAN_BUILD: '' },
      launcher: (_spec, _env, events) => {
        process.nextTick(() => {
          events.started();
          program.resolve(events);
        });
        return { pid: undefined, terminate: () => events.exited('ended'), kill: (why) => events.exited(why) };
      },
      reach: () => Promise.resolve({ host: '127.0.0.1', port, healthPort: port }),
    }),
  );
  t.teardown(() => worker.end(true));
  return { said, program: program.promise, worker };
}

test('a start that waits says what was tried, what came back and what the program printed', async (t) => {
  const port = await portOf(t, createServer(answering(503)));
  const { said, program } = workerOn(t, port);
  const events = await program;
  for (let n = 1; n <= 7; n += 1) events.line('stderr', n === 7 ? 'x'.repeat(400) : `line ${n}`);
  const { text } = (await said.next(({ say }) => say === 'waiting')) as { readonly text: string };
  // The last lines only, none longer than a limit.
  t.is(text, `GET /ping on port ${port}: status 503; its last output: line 3 | line 4 | line 5 | line 6 | ${'x'.repeat(300)}…`);
});

test('a program that ends repeats its last output', async (t) => {
  const server = createServer();
  const port = await portOf(t, server);
  await new Promise((resolve) => server.close(resolve));
  const { said, program } = workerOn(t, port);
  const events = await program;
  events.line('stderr', 'ModuleNotFoundError: no module x');
  events.exited('the process exited with code 1');
  const { text } = (await said.next(({ say }) => say === 'exited')) as { readonly text: string };
  t.is(text, 'the process exited with code 1; its last output: ModuleNotFoundError: no module x');
});

test('a server without a health check is ready at its first answer, and says so once in its log', async (t) => {
  const port = await portOf(t, createServer(answering(404)));
  const { said } = workerOn(t, port);
  const { text } = (await said.next(({ say }) => say === 'log')) as { readonly text: string };
  t.is(text, `the server is ready: GET /ping on port ${port}: status 404; it has no health check`);
  await said.next(({ say }) => say === 'loaded');
});

test('a server that accepts connections and never answers in HTTP is ready after half of its start-up time', async (t) => {
  const port = await portOf(
    t,
    createTcpServer((socket) => socket.end('hello\r\n')),
  );
  const { said } = workerOn(t, port, 3_000);
  await said.next(({ say }) => say === 'waiting');
  await said.next(({ say }) => say === 'loaded');
  t.deepEqual(said.items.filter(({ say }) => say === 'log').length, 1);
});

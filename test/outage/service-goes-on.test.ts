/** Days on which something around the service fails: a whole stack goes on, and nothing is left behind. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';
import { Agent, request } from 'undici';

import { smallDisk, whyNoSmallDisk } from '../support/small-disk.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const app = join(import.meta.dirname, 'app');
const tool = join(import.meta.dirname, '../../cli/main.ts');
const UNLIMITED = ['run', 'runsync', 'status', 'stream', 'cancel'].map((operation) => `${operation}=0/0`).join();

async function stackOf(t: ExecutionContext, variables: Readonly<Record<string, string>> = {}): Promise<Stack> {
  const stack = await Stack.start({ CAPSTAN_RATE_LIMITS: UNLIMITED, ...variables });
  t.teardown(() => stack.close());
  return stack;
}

/** Accepts connections, reads what is sent, and never responds. */
async function swallowingReceiver(t: ExecutionContext): Promise<{ url: string; readonly connections: number }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    get connections() {
      return sockets.size;
    },
  };
}

async function runsync(stack: Stack, endpoint: string, input: object): Promise<string> {
  const response = await stack.call(`/v2/${endpoint}/runsync?wait=60000`, { method: 'POST', body: JSON.stringify({ input }) });
  return ((await response.json()) as { status: string }).status;
}

test.serial('a receiver of traces that never responds delays no job and no end of the service', async (t) => {
  const receiver = await swallowingReceiver(t);
  const stack = await stackOf(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_EXPORTER_OTLP_TIMEOUT: '60000',
  });
  const echo = (await stack.deploy(app)).get('echo') ?? '';
  const first = await Promise.all(Array.from({ length: 100 }, (_, n) => runsync(stack, echo, { n })));
  await until('every part exports', () => receiver.connections >= 3);
  const more = await Promise.all(Array.from({ length: 100 }, (_, n) => runsync(stack, echo, { n })));
  t.deepEqual(new Set([...first, ...more]), new Set(['COMPLETED']));
  t.is(await stack.interrupt(), 0);
  await stack.gone();
});

const onSmallDisk = whyNoSmallDisk === '' ? test.serial : test.serial.skip;

onSmallDisk(`a full disk of the logs costs lines, not jobs, and lines are kept again when it has room${whyNoSmallDisk}`, async (t) => {
  const stack = await stackOf(t);
  const logs = join(stack.dataDir, 'agent', 'logs');
  await mkdir(logs, { recursive: true });
  const disk = await smallDisk(t, '1m', logs);
  const speak = (await stack.deploy(app)).get('speak') ?? '';
  disk.fill();
  for (let n = 0; n < 5; n += 1) t.is(await runsync(stack, speak, { text: 'into a full disk', times: 2_000 }), 'COMPLETED');
  disk.free();
  await until('a line is kept again', async () => {
    t.is(await runsync(stack, speak, { text: 'after the flood', times: 1 }), 'COMPLETED');
    const response = await stack.call(`/v2/${speak}/logs?contains=after`);
    return (await response.text()).includes('after the flood');
  });
  // Its files are open until then.
  await stack.close(() => disk.unmount());
});

test.serial('aborted streams and waits leave nothing behind in the gateway', async (t) => {
  const stack = await stackOf(t);
  const endpoints = await stack.deploy(app);
  const ticking = endpoints.get('ticking') ?? '';
  const parked = endpoints.get('parked') ?? '';
  const streamed = await stack.run(ticking, {});
  const waiting = await stack.run(parked, {});
  const gateway = stack.pid('gateway') ?? 0;
  const descriptors = (): number => readdirSync(`/proc/${gateway}/fd`).length;
  const pending = async (): Promise<number> => {
    const text = await (await stack.call('/metrics')).text();
    return Number(/^capstan_gateway_pending_requests (\S+)$/m.exec(text)?.[1]);
  };
  const before = descriptors();
  const headers = { authorization: `Bearer ${stack.apiKey}` };
  const paths = [`/v2/${ticking}/stream/${streamed}?wait=10000`, `/v2/${parked}/status-sync/${waiting}?wait=60000`];
  for (let round = 0; round < 10; round += 1) {
    const dispatcher = new Agent();
    const calls = Array.from({ length: 100 }, (_, n) => request(`${stack.url}${paths[n % paths.length] ?? ''}`, { headers, dispatcher }));
    const ends = Promise.allSettled(calls.map(async (call) => (await call).body.text()));
    await until('requests wait for the scheduler', async () => (await pending()) >= 50);
    // Ends the connections, whatever their responses have sent so far.
    await dispatcher.destroy();
    await ends;
  }
  await until('no request is pending', async () => (await pending()) === 0);
  await until('its connections are closed', () => descriptors() <= before + 10);
  const response = await stack.call(`/v2/${ticking}/stream/${streamed}`);
  const { status, stream } = (await response.json()) as { status: string; stream: unknown[] };
  t.is(status, 'IN_PROGRESS');
  t.true(stream.length > 0);
});

test.serial('the cancellation of a long queue goes on beside the jobs of another account', async (t) => {
  const stack = await stackOf(t);
  const parked = (await stack.deploy(app)).get('parked') ?? '';
  const created = await stack.tool('account', 'create', 'neighbour', '--workers', '5', '--json');
  const { key: apiKey } = JSON.parse(created) as { key: string };
  const env = { ...stack.variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '', SERVICE_API_KEY: apiKey };
  const { stdout } = await promisify(execFile)(process.execPath, [tool, 'deploy', app, '--json', '--no-wait'], { cwd: stack.scratch, env });
  const echo = (JSON.parse(stdout) as { id: string; name: string }[]).find(({ name }) => name === 'echo')?.id ?? '';

  const jobs = 5_000;
  for (let sent = 0; sent < jobs; sent += 250) await Promise.all(Array.from({ length: 250 }, (_, n) => stack.run(parked, { n: sent + n })));
  t.is((await stack.health(parked)).jobs.inQueue, jobs);

  const graphql = async (query: string): Promise<Readonly<Record<string, { state: string; changed: number; id: string }>>> => {
    const response = await stack.call('/graphql', { method: 'POST', body: JSON.stringify({ query }) });
    return ((await response.json()) as { data: Readonly<Record<string, { state: string; changed: number; id: string }>> }).data;
  };
  await graphql(`mutation { started: startBulkOperation(endpoint: "${parked}", action: CANCEL) { id state changed } }`);
  const over = new AbortController();
  const cancelled = until('the operation is over', async () => {
    const { operations } = (await graphql(`{ operations: bulkOperations(endpoint: "${parked}") { id state changed } }`)) as unknown as {
      operations: readonly { state: string; changed: number }[];
    };
    const [operation] = operations;
    return operation?.state === 'RUNNING' ? null : operation;
  }).finally(() => over.abort());
  const statuses: string[] = [];
  do {
    const response = await fetch(`${stack.url}/v2/${echo}/runsync?wait=60000`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ input: { n: statuses.length } }),
    });
    statuses.push(((await response.json()) as { status: string }).status);
  } while (!over.signal.aborted);
  t.deepEqual(new Set(statuses), new Set(['COMPLETED']));
  t.is((await cancelled).changed, jobs);
  t.is((await stack.health(parked)).jobs.inQueue, 0);
});

/** People without valid credentials in front of the gRPC servers: they are refused before their messages are kept. */
import { existsSync, readFileSync } from 'node:fs';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { Client, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import { NodeServiceClient } from '../../proto/gen/capstan/v1/nodes.ts';
import { ownFolder } from '../support/own-folder.ts';
import { unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { Part, Stranger } from './stranger.ts';

const MEBIBYTE = 1024 * 1024;
const canMeasure = process.platform === 'linux' && existsSync('/proc/self/clear_refs');
const measured = canMeasure ? test.serial : test.serial.skip;
const why = canMeasure ? '' : ' (skipped: the memory of a process can be read on Linux alone)';

async function startScheduler(t: ExecutionContext): Promise<{ part: Part; secret(name: string): string }> {
  const folder = await ownFolder('capstan-strangers');
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const part = await Part.start(t, 'scheduler', { CAPSTAN_DATA_DIR: folder, CAPSTAN_GRPC_PORT: '0' });
  return { part, secret: (name) => readFileSync(join(folder, 'secrets', name), 'utf8').trim() };
}

/** The gateway of a scheduler that nobody reaches; where agents would dial it. */
async function startGateway(t: ExecutionContext): Promise<{ part: Part; invoke: string }> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  const variables = {
    CAPSTAN_HTTP_PORT: '0',
    CAPSTAN_INVOKE_PORT: String(port),
    CAPSTAN_SCHEDULER: '127.0.0.1:1',
    CAPSTAN_GATEWAY_TOKEN: 'token',
  };
  return { part: await Part.start(t, 'gateway', variables), invoke: `127.0.0.1:${port}` };
}

test('bytes that are no request of the open services are refused, and the scheduler serves on', async (t) => {
  const { part } = await startScheduler(t);
  const client = new Client(part.address, credentials.createInsecure());
  t.teardown(() => client.close());
  const raw = (bytes: Buffer): Buffer => bytes;
  for (let round = 0; round < 2; round += 1) {
    for (const bytes of [Buffer.from([0x0a]), Buffer.from([0x10, 0x80]), Buffer.alloc(3, 0xff)]) {
      const checked = await new Promise<number | undefined>((resolve) => {
        client.makeUnaryRequest('/grpc.health.v1.Health/Check', raw, raw, bytes, (error) => resolve(error?.code));
      });
      t.is(checked, status.INVALID_ARGUMENT);
      const watched = await new Promise<number | undefined>((resolve) => {
        const call = client.makeServerStreamRequest('/grpc.health.v1.Health/Watch', raw, raw, bytes);
        call.on('data', () => undefined);
        call.on('error', (error: ServiceError) => resolve(error.code));
        call.on('end', () => resolve(undefined));
      });
      t.is(watched, status.INVALID_ARGUMENT);
    }
  }
  const serving = await new Promise<Buffer | undefined>((resolve) => {
    client.makeUnaryRequest('/grpc.health.v1.Health/Check', raw, raw, Buffer.alloc(0), (_error, reply) => resolve(reply));
  });
  t.deepEqual(serving, Buffer.from([0x08, 1]));
});

measured(`20 strangers with messages of 30 MiB cost the scheduler no memory, and it serves meanwhile${why}`, async (t) => {
  const { part, secret } = await startScheduler(t);
  const operator = new Metadata();
  operator.set('authorization', `Bearer ${secret('api-key')}`);
  const control = new ControlServiceClient(part.address, credentials.createInsecure());
  t.teardown(() => control.close());
  const serves = (): Promise<unknown> =>
    unary((done) => control.listEndpoints({ environment: '' }, operator, { deadline: Date.now() + 30_000 }, done));
  await serves();
  part.resetPeak();
  const before = part.residentBytes;
  const paths = [
    '/capstan.v1.ControlService/Deploy',
    '/capstan.v1.JobService/Channel',
    '/capstan.v1.BlobService/Put',
    '/capstan.v1.NodeService/Session',
    '/capstan.v1.NodeService/Join',
    '/capstan.v1.ControlService/NoSuchMethod',
    '/grpc.health.v1.Health/Check',
    '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  ];
  // The last byte of each message never comes: whoever keeps messages keeps these to the end.
  const size = 30 * MEBIBYTE;
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      const stranger = new Stranger(t, part.address);
      const forged = { authorization: 'Bearer wrong', 'capstan-node': 'node-1' };
      const path = paths[index % paths.length] ?? '';
      return { path, ...(await stranger.send(path, size, size - 1, index % 2 === 0 ? {} : forged)) };
    }),
  );
  await serves();
  const grown = part.peakBytes - before;
  t.log(`${Math.round(grown / MEBIBYTE)} MiB at most beyond the ${Math.round(before / MEBIBYTE)} MiB before`);
  t.true(grown < 150 * MEBIBYTE, `${grown} bytes`);
  for (const { path, code } of outcomes) {
    const expected = /Join|grpc\./.test(path)
      ? status.RESOURCE_EXHAUSTED
      : path.includes('NoSuch')
        ? status.UNIMPLEMENTED
        : status.UNAUTHENTICATED;
    t.is(code, expected, path);
  }
});

measured(`20 strangers with messages of 30 MiB cost the gateway no memory${why}`, async (t) => {
  const { part, invoke } = await startGateway(t);
  part.resetPeak();
  const before = part.residentBytes;
  const size = 30 * MEBIBYTE;
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, () => new Stranger(t, invoke).send('/capstan.v1.InvokeService/Invoke', size, size - 1)),
  );
  for (const { code } of outcomes) t.is(code, status.UNAUTHENTICATED);
  const grown = part.peakBytes - before;
  t.log(`${Math.round(grown / MEBIBYTE)} MiB at most beyond the ${Math.round(before / MEBIBYTE)} MiB before`);
  t.true(grown < 150 * MEBIBYTE, `${grown} bytes`);
  t.true(part.running);
});

test.serial('headers beyond the limit, and calls beyond the number of a connection, cost their connection alone', async (t) => {
  const { part, secret } = await startScheduler(t);
  const stranger = new Stranger(t, part.address);
  const { code } = await stranger.send('/capstan.v1.ControlService/Deploy', 1, 1, { 'x-long': 'x'.repeat(MEBIBYTE) });
  t.is(code, -1);
  const many = new Stranger(t, part.address);
  await once(many.session, 'remoteSettings');
  t.true((many.session.remoteSettings.maxConcurrentStreams ?? Infinity) <= 1_024);
  const joined = await join1(part.address, secret('join-token'));
  t.is(joined, 'joined');
});

test.serial('idle strangers make room for a node: the oldest connection without credentials is ended', async (t) => {
  const { part, secret } = await startScheduler(t);
  const [host = '', port = ''] = part.address.split(':');
  const sockets: Socket[] = [];
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  let closed = 0;
  for (let each = 0; each < 300; each += 1) {
    const socket = connect(Number(port), host);
    socket.on('error', () => undefined);
    socket.once('close', () => (closed += 1));
    socket.resume();
    await once(socket, 'connect');
    sockets.push(socket);
  }
  await until('the first of them are closed', () => closed >= 300 - 256);
  t.true(sockets[0]?.destroyed === true);
  t.is(await join1(part.address, secret('join-token')), 'joined');
});

test.serial('wrong join tokens are limited in rate, and say when to come back', async (t) => {
  const { part, secret } = await startScheduler(t);
  const outcomes = new Set<string>();
  for (let each = 0; each < 100_000 && !outcomes.has('RATE_LIMITED'); each += 50) {
    for (const outcome of await Promise.all(Array.from({ length: 50 }, () => join1(part.address, 'wrong')))) outcomes.add(outcome);
  }
  t.deepEqual([...outcomes].sort(), ['RATE_LIMITED', 'UNAUTHENTICATED']);
  // The rate is that of failures: it comes back by itself.
  await until('a right token is taken again', async () => (await join1(part.address, secret('join-token'))) === 'joined');
});

async function join1(address: string, joinToken: string): Promise<string> {
  const client = new NodeServiceClient(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  try {
    await unary((done) => client.join({ joinToken, name: 'node' }, done));
    return 'joined';
  } catch (error) {
    return error instanceof CapstanError ? error.code : String(error);
  } finally {
    client.close();
  }
}

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';

import { fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import {
  credentials,
  loadPackageDefinition,
  Metadata,
  Server,
  ServerCredentials,
  status,
  type Client,
  type ClientDuplexStream,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { fromServiceError } from '../../../lib/grpc-errors.ts';
import { peerOf } from '../../../lib/grpc-admission.ts';
import { BlobServiceClient, BlobServiceService } from '../../../proto/gen/capstan/v1/blobs.ts';
import { Health } from '../../../scheduler/services/health.ts';
import { addLateService } from '../../../scheduler/services/late-service.ts';
import { makeGrpcServer } from '../../../scheduler/services/server.ts';
import { healthClient, healthOf } from '../../support/grpc-health.ts';

const root = join(import.meta.dirname, '../../..');
/** These tests are about the server: everybody may call. */
const identify = () => ({ name: 'anyone', calls: Infinity, messageBytes: Infinity });
const plain = ServerCredentials.createInsecure();

async function serve(t: ExecutionContext) {
  const server = makeGrpcServer({ identify });
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let entered: () => void = () => undefined;
  const inCall = new Promise<void>((resolve) => {
    entered = resolve;
  });
  server.add(BlobServiceService, {
    put: () => undefined,
    get: (call: { end(): void }) => {
      entered();
      void held.then(() => call.end());
    },
  });
  const address = await server.bind('127.0.0.1:0', plain);
  t.teardown(() => server.close(0));
  const client = <T extends Client>(make: (address: string) => T): T => {
    const made = make(address);
    t.teardown(() => made.close());
    return made;
  };
  return { server, address, client, release, inCall };
}

type Reflection = Client & { ServerReflectionInfo(): ClientDuplexStream<object, Record<string, unknown>> };
/** A client of a service that we have no generated code for, from its public description. */
// oxlint-disable-next-line no-unnecessary-type-parameters -- the caller knows what the description holds
function dynamicClient<T extends Client>(address: string, file: string, folder: string, name: readonly string[]): T {
  let at: unknown = loadPackageDefinition(
    loadSync(file, { includeDirs: [join(root, 'node_modules', folder)], keepCase: true, enums: String }),
  );
  for (const step of name) at = (at as Record<string, unknown>)[step];
  return new (at as new (address: string, credentials: unknown) => T)(address, credentials.createInsecure());
}

for (const version of ['v1', 'v1alpha']) {
  test(`a reflection client (${version}) lists the services and describes them`, async (t) => {
    const { client } = await serve(t);
    const reflection = client<Reflection>((address) =>
      dynamicClient(address, `grpc/reflection/${version}/reflection.proto`, '@grpc/reflection/build/proto', [
        'grpc',
        'reflection',
        version,
        'ServerReflection',
      ]),
    );
    const call = reflection.ServerReflectionInfo();
    call.on('error', () => undefined);
    call.write({ list_services: '*' });
    const [listed] = (await once(call, 'data')) as [{ list_services_response: { service: { name: string }[] } }];
    const names = listed.list_services_response.service.map((service) => service.name);
    for (const name of ['JobService', 'NodeService', 'ControlService', 'BlobService', 'ClusterService'])
      t.true(names.includes(`capstan.v1.${name}`), name);
    t.true(names.includes('grpc.health.v1.Health'));

    call.write({ file_containing_symbol: 'capstan.v1.ControlService' });
    const [found] = (await once(call, 'data')) as [{ file_descriptor_response: { file_descriptor_proto: Buffer[] } }];
    const files = found.file_descriptor_response.file_descriptor_proto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
    t.true(files.some((file) => file.service.some((service) => service.name === 'ControlService')));
    const spec = files.flatMap((file) => file.messageType).find((message) => message.name === 'EndpointSpec');
    // Strict clients, grpcurl among them, refuse files whose map entries are named otherwise.
    t.deepEqual(spec?.nestedType.map((nested) => nested.name).sort(), ['EnvEntry', 'RateLimitsEntry', 'RoutesEntry']);
    t.deepEqual(
      spec?.field
        .filter((field) => field.typeName.endsWith('Entry'))
        .map((field) => field.typeName)
        .sort(),
      ['EnvEntry', 'RateLimitsEntry', 'RoutesEntry'],
    );
    call.end();
    await once(call, 'end');
  });
}

test('health tells of the server and of each service whether it may get calls', async (t) => {
  const { server, client } = await serve(t);
  const checker = client(healthClient);
  t.is(await healthOf(checker, ''), 'NOT_SERVING');
  t.is(await healthOf(checker, 'capstan.v1.BlobService'), 'NOT_SERVING');
  server.setServing(true);
  t.is(await healthOf(checker, ''), 'SERVING');
  t.is(await healthOf(checker, 'capstan.v1.BlobService'), 'SERVING');
  t.is(await healthOf(checker, 'capstan.v1.Unheard'), `error ${status.NOT_FOUND}`);
});

test('who watches the health of a server hears when it changes', async (t) => {
  const { server, client } = await serve(t);
  const watch = client(healthClient).Watch({ service: 'capstan.v1.BlobService' });
  const heard = watch[Symbol.asyncIterator]() as AsyncIterator<{ status: string }>;
  t.like(await heard.next(), { value: { status: 'NOT_SERVING' } });
  server.setServing(true);
  t.like(await heard.next(), { value: { status: 'SERVING' } });
  watch.on('error', () => undefined);
  watch.cancel();
});

test('a standby refuses calls whatever their credentials, before they are read, and names the owner', async (t) => {
  let refusal: CapstanError | null = new CapstanError('NOT_OWNER', 'another scheduler owns the queue', { owner: '10.0.0.2:7070' });
  let term: bigint | null = null;
  const seen: string[] = [];
  const server = makeGrpcServer({
    identify: (metadata) => {
      seen.push(String(metadata.get('authorization')[0]));
      return identify();
    },
    refusal: () => refusal,
    term: () => term,
  });
  server.add(BlobServiceService, {
    put: (call: { on(event: 'data', listener: () => void): void }) => call.on('data', () => seen.push('message')),
    stat: (_call: unknown, done: (error: null, reply: object) => void) => done(null, { exists: true, size: 0, received: 0 }),
  });
  const address = await server.bind('127.0.0.1:0', plain);
  t.teardown(() => server.close(0));
  const blobs = new BlobServiceClient(address, credentials.createInsecure());
  const checker = healthClient(address);
  t.teardown(() => {
    blobs.close();
    checker.close();
  });
  const valid = new Metadata();
  valid.set('authorization', 'Bearer valid');
  const stat = (): Promise<{ error: ServiceError | null; term: unknown }> =>
    new Promise((resolve) => {
      let ahead: unknown;
      const call = blobs.stat({ id: 'x' }, valid, (error) => resolve({ error, term: ahead }));
      call.on('metadata', (metadata: Metadata) => (ahead = metadata.get('capstan-term')[0]));
    });

  const { error } = await stat();
  t.is(error?.code, status.UNAVAILABLE);
  t.deepEqual(error?.metadata.get('capstan-error'), ['NOT_OWNER']);
  t.deepEqual(error?.metadata.get('capstan-owner'), ['10.0.0.2:7070']);
  t.like(fromServiceError(error), { code: 'NOT_OWNER', owner: '10.0.0.2:7070' });
  const putError = await new Promise<ServiceError | null>((resolve) => {
    blobs.put(valid, resolve).write({ part: { $case: 'data', value: Buffer.from('x') } });
  });
  t.deepEqual(putError?.metadata.get('capstan-error'), ['NOT_OWNER']);
  t.deepEqual(seen, [], 'neither credentials nor messages were looked at');
  t.is(await healthOf(checker, ''), 'NOT_SERVING', 'health is answered');

  refusal = null;
  term = 1_800_000_000n;
  t.deepEqual(await stat(), { error: null, term: '1800000000' });
  t.deepEqual(seen, ['Bearer valid']);
  refusal = new CapstanError('UNAUTHENTICATED', 'unknown caller');
  t.deepEqual((await stat()).error?.metadata.get('capstan-term'), ['1800000000'], 'a status alone carries the term too');
});

test('health tells who owns the cell, and is loaded before it is asked for', async (t) => {
  const server = makeGrpcServer({ identify, cell: 'blue' });
  await server.preload();
  const address = await server.bind('127.0.0.1:0', plain);
  t.teardown(() => server.close(0));
  const checker = healthClient(address);
  t.teardown(() => checker.close());
  t.is(await healthOf(checker, 'capstan.cell.blue'), 'NOT_SERVING');
  server.setServing(true);
  t.is(await healthOf(checker, 'capstan.cell.blue'), 'SERVING');
  t.is(await healthOf(checker, 'capstan.cell.red'), `error ${status.NOT_FOUND}`);
});

test('a service that cannot be loaded is an error of its call, and loaded again with the next', async (t) => {
  const server = new Server();
  let loads = 0;
  addLateService(server, {
    name: 'grpc.health.v1.Health',
    methods: { Check: 'unary', Watch: 'server-stream' },
    load: async (taker) => {
      loads++;
      if (loads <= 2) throw new Error('no such file');
      await new Health().load(taker);
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', plain, (error, bound) => (error === null ? resolve(bound) : reject(error)));
  });
  t.teardown(() => server.forceShutdown());
  const checker = healthClient(`127.0.0.1:${port}`);
  t.teardown(() => checker.close());
  t.is(await healthOf(checker, ''), `error ${status.INTERNAL}`);
  const [error] = (await once(checker.Watch({ service: '' }), 'error')) as [ServiceError];
  t.is(error.code, status.INTERNAL);
  t.is(error.details, 'no such file');
  t.is(await healthOf(checker, ''), 'NOT_SERVING');
});

test('a port in use is ADDRESS_IN_USE and named; an address that is none is CONFIG', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const server = makeGrpcServer({ identify });
  t.teardown(() => server.close(0));
  const inUse = await t.throwsAsync(server.bind(`127.0.0.1:${port}`, plain), { instanceOf: CapstanError });
  t.is(inUse.code, 'ADDRESS_IN_USE');
  t.true(inUse.message.includes(`127.0.0.1:${port}`));
  for (const address of ['nowhere', '203.0.113.7:7070']) {
    const error = await t.throwsAsync(async () => server.bind(address, plain), { instanceOf: CapstanError });
    t.is(error.code, 'CONFIG');
    t.true(error.message.includes(address));
  }
});

test('closing lets an open call end, and takes no new one', async (t) => {
  const { server, client, release, inCall } = await serve(t);
  const blobs = client((address) => new BlobServiceClient(address, credentials.createInsecure()));
  const open = blobs.get({ id: 'x' });
  open.resume();
  const ended = once(open, 'status') as Promise<[{ code: number }]>;
  await inCall;
  const closed = server.close(60_000);
  release();
  await closed;
  t.is((await ended)[0].code, status.OK);
  const late = blobs.get({ id: 'x' });
  late.resume();
  const [error] = (await once(late, 'error')) as [ServiceError];
  t.is(error.code, status.UNAVAILABLE);
});

test('closing cuts off what does not end in the time given', async (t) => {
  const { server, client, inCall } = await serve(t);
  const open = client((address) => new BlobServiceClient(address, credentials.createInsecure())).get({ id: 'x' });
  open.resume();
  const failed = once(open, 'error');
  await inCall;
  await server.close(1);
  await failed;
  t.pass();
});

test('a connection without credentials is ended after its time; one with credentials stays', async (t) => {
  const connections = { untrustedPerPeer: 10, untrusted: 10, all: 10, untrustedMs: 100 };
  const server = makeGrpcServer({ identify, connections });
  server.add(BlobServiceService, {
    stat: (_call: unknown, done: (error: null, reply: object) => void) => done(null, { exists: false, size: 0, received: 0 }),
  });
  const address = await server.bind('127.0.0.1:0', plain);
  t.teardown(() => server.close(0));
  const blobs = new BlobServiceClient(address, credentials.createInsecure());
  t.teardown(() => blobs.close());
  const stat = (): Promise<unknown> =>
    new Promise((resolve, reject) => blobs.stat({ id: 'x' }, (error, reply) => (error === null ? resolve(reply) : reject(error))));
  await stat();
  t.deepEqual(server.connections, { all: 1, untrusted: 0 });
  const [host = '', port = ''] = address.split(':');
  const stranger = connect(Number(port), host).resume();
  await once(stranger, 'close');
  t.deepEqual(server.connections, { all: 1, untrusted: 0 });
  await stat();
});

test('connections beyond all limits are refused, and those with credentials are not', async (t) => {
  const server = makeGrpcServer({ identify, connections: { untrustedPerPeer: 2, untrusted: 2, all: 3, untrustedMs: 60_000 } });
  server.add(BlobServiceService, {
    stat: (_call: unknown, done: (error: null, reply: object) => void) => done(null, { exists: false, size: 0, received: 0 }),
  });
  const address = await server.bind('127.0.0.1:0', plain);
  t.teardown(() => server.close(0));
  const stat = (): Promise<unknown> => {
    const blobs = new BlobServiceClient(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
    t.teardown(() => blobs.close());
    return new Promise((resolve, reject) => blobs.stat({ id: 'x' }, (error, reply) => (error === null ? resolve(reply) : reject(error))));
  };
  const [host = '', port = ''] = address.split(':');
  const strangers = Array.from({ length: 5 }, () => connect(Number(port), host).resume());
  await Promise.all(strangers.slice(0, 3).map((socket) => once(socket, 'close')));
  await stat();
  await stat();
  await stat();
  t.deepEqual(server.connections, { all: 3, untrusted: 0 });
  const late = connect(Number(port), host).resume();
  await once(late, 'close');
  t.is(server.connections.all, 3);
});

test('a peer is an IPv4 address, however it is written, or the /64 of an IPv6 address', (t) => {
  for (const [address, peer] of [
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
  ] as const)
    t.is(peerOf(address), peer);
});

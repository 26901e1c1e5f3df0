import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { credentials, Metadata, Server, ServerCredentials, status, type ServiceError } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';

import { CapstanError } from '../../../lib/errors.ts';
import {
  BlobPurpose,
  BlobServiceClient,
  BlobServiceService,
  type GetBlobResponse,
  type PutBlobRequest,
  type PutBlobResponse,
} from '../../../proto/gen/capstan/v1/blobs.ts';
import { fromServiceError } from '../../../lib/grpc-errors.ts';
import { blobService, MAX_FRAME_BYTES } from '../../../scheduler/blobs/service.ts';
import { blobPath } from '../../../scheduler/blobs/ids.ts';
import { UploadRoom } from '../../../scheduler/blobs/upload-room.ts';
import { UnfinishedBuilds } from '../../../scheduler/blobs/unfinished-builds.ts';
import { flip } from '../../conformance/store/killed-store.ts';
import { filesIn, openStore, pieces, someBytes } from './blobs.ts';

async function serve(t: ExecutionContext) {
  const { store, root } = await openStore(t);
  const unfinished = await UnfinishedBuilds.open(join(root, 'unfinished'));
  const faults: unknown[] = [];
  const owned = new Set<string>();
  const server = new Server();
  server.addService(
    BlobServiceService,
    blobService({
      store,
      unfinished,
      uploads: new UploadRoom({ unfinished, built: () => ({ bytes: 0, builds: 0 }), quota: () => 1_000_000_000 }),
      bodyRefusal: () => null,
      authorize: (metadata) => {
        const token = metadata.get('authorization')[0]?.toString() ?? '';
        if (token === 'Bearer good') return { kind: 'account', account: 'good' };
        if (token === 'Bearer gateway') return { kind: 'gateway' };
        if (token === 'Bearer other') return { kind: 'account', account: 'other' };
        if (token === 'Bearer node') return { kind: 'node', node: 'n' };
        throw new CapstanError('UNAUTHENTICATED', 'a valid token is needed');
      },
      owners: {
        owns: (account, digest) => owned.has(`${account} ${digest}`),
        runs: () => false,
        record: (account, digest) => Promise.resolve(void owned.add(`${account} ${digest}`)),
      },
      isLeased: () => false,
      onDamaged: () => undefined,
      mustFit: () => undefined,
      onFault: (error) => faults.push(error),
    }),
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  const client = new BlobServiceClient(`127.0.0.1:${port}`, credentials.createInsecure());
  t.teardown(() => {
    client.close();
    server.forceShutdown();
  });
  return { store, root, client, server, faults };
}

function metadata(token = 'gateway'): Metadata {
  const sent = new Metadata();
  sent.set('authorization', `Bearer ${token}`);
  return sent;
}

const header = (purpose: BlobPurpose, size: number, digest = ''): PutBlobRequest => ({
  part: { $case: 'header', value: { purpose, size, digest } },
});
const data = (value: Buffer): PutBlobRequest => ({ part: { $case: 'data', value } });

/** Sends the messages as fast as flow control allows and answers with the reply. */
async function put(
  client: BlobServiceClient,
  messages: AsyncIterable<PutBlobRequest> | Iterable<PutBlobRequest>,
  token?: string,
): Promise<PutBlobResponse> {
  return new Promise((resolve, reject) => {
    const call = client.put(metadata(token), (error, response) => (error === null ? resolve(response) : reject(fromServiceError(error))));
    void (async () => {
      for await (const message of messages) {
        if (!call.write(message)) await Promise.race([once(call, 'drain'), once(call, 'status')]);
      }
      call.end();
    })();
  });
}

async function* upload(purpose: BlobPurpose, bytes: Buffer, digest = ''): AsyncGenerator<PutBlobRequest> {
  yield header(purpose, bytes.length, digest);
  for await (const piece of pieces(bytes, MAX_FRAME_BYTES)) yield data(piece);
}

async function get(client: BlobServiceClient, id: string): Promise<{ size: number; frames: Buffer[] }> {
  let size = -1;
  const frames: Buffer[] = [];
  try {
    for await (const message of client.get(
      { id },
      metadata(id.startsWith('build/') ? 'good' : 'gateway'),
    ) as AsyncIterable<GetBlobResponse>) {
      if (message.part?.$case === 'size') size = message.part.value;
      else if (message.part?.$case === 'data') frames.push(message.part.value);
    }
  } catch (error) {
    throw fromServiceError(error);
  }
  return { size, frames };
}

test('what was put is got back, in frames of at most 256 KiB after the size', async (t) => {
  const { client } = await serve(t);
  const { bytes, digest } = someBytes(5_000_000);
  const body = await put(client, upload(BlobPurpose.BODY, bytes));
  const build = await put(client, upload(BlobPurpose.BUILD, bytes, digest), 'good');
  t.is(build.id, `build/${digest}`);
  for (const { id } of [body, build]) {
    const { size, frames } = await get(client, id);
    t.is(size, bytes.length);
    t.true(frames.every((frame) => frame.length <= MAX_FRAME_BYTES));
    t.true(Buffer.concat(frames).equals(bytes));
  }
});

test('a build that is there is answered as such, to a sender in the middle of it too', async (t) => {
  const { client } = await serve(t);
  const { bytes, digest } = someBytes(8_000_000);
  await put(client, upload(BlobPurpose.BUILD, bytes, digest), 'good');
  const again = await put(client, upload(BlobPurpose.BUILD, bytes, digest), 'good');
  t.deepEqual(again, { id: `build/${digest}`, size: bytes.length, existed: true, received: 8_000_000 });
});

test('a damaged build counts as missing, is named when it is read, and is replaced by the next upload', async (t) => {
  const { client, root, faults } = await serve(t);
  const { bytes, digest } = someBytes(600_000);
  const id = `build/${digest}`;
  const exists = (): Promise<boolean> =>
    new Promise((resolve, reject) => {
      client.stat({ id }, metadata('good'), (error, reply) => (error === null ? resolve(reply.exists) : reject(fromServiceError(error))));
    });
  const inParts = async function* (): AsyncGenerator<PutBlobRequest> {
    yield { part: { $case: 'header', value: { purpose: BlobPurpose.BUILD, size: bytes.length, digest, offset: 0 } } };
    for await (const piece of pieces(bytes, MAX_FRAME_BYTES)) yield data(piece);
  };
  await put(client, upload(BlobPurpose.BUILD, bytes, digest), 'good');
  const file = join(root, blobPath(id));
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: bytes.length * 8 - 1 }),
      fc.constantFrom('flipped', 'cut off', 'empty'),
      fc.boolean(),
      async (bit, how, parts) => {
        await writeFile(file, how === 'flipped' ? flip(bytes, bit) : how === 'empty' ? Buffer.alloc(0) : bytes.subarray(0, bit >> 3));
        faults.length = 0;
        t.false(await exists());
        const error = await t.throwsAsync(get(client, id), { code: 'BUILD_DAMAGED' });
        t.true(error?.message.includes(digest));
        t.true(faults.every((fault) => fault instanceof CapstanError && fault.message.includes(digest)) && faults.length === 2);
        // As the tool does, and one that asks nothing before.
        t.false((await put(client, parts ? inParts() : upload(BlobPurpose.BUILD, bytes, digest), 'good')).existed);
        t.true(await exists());
        t.true(Buffer.concat((await get(client, id)).frames).equals(bytes));
      },
    ),
    { numRuns: 25 },
  );
});

test('refusals name field and rule, and leave nothing', async (t) => {
  const { client, root, faults } = await serve(t);
  const { bytes, digest } = someBytes(1000);
  const cases: [Iterable<PutBlobRequest>, string, string, string?][] = [
    [[data(bytes)], 'INVALID_ARGUMENT', 'part'],
    [[], 'INVALID_ARGUMENT', 'part'],
    [[header(BlobPurpose.BODY, 1000), header(BlobPurpose.BODY, 1000)], 'INVALID_ARGUMENT', 'part'],
    [[header(BlobPurpose.UNSPECIFIED, 1000), data(bytes)], 'INVALID_ARGUMENT', 'purpose'],
    [[header(BlobPurpose.BODY, 999), data(bytes)], 'INVALID_ARGUMENT', 'size'],
    [[header(BlobPurpose.BODY, 1001), data(bytes)], 'INVALID_ARGUMENT', 'size'],
    [[header(BlobPurpose.BODY, 600_000_000), data(bytes)], 'PAYLOAD_TOO_LARGE', 'size'],
    [[header(BlobPurpose.BUILD, 1000), data(bytes)], 'INVALID_ARGUMENT', 'digest', 'good'],
    [[header(BlobPurpose.BUILD, 1000, digest), data(Buffer.alloc(1000))], 'INVALID_ARGUMENT', 'digest', 'good'],
    [[header(BlobPurpose.BODY, 300_000), data(Buffer.alloc(MAX_FRAME_BYTES + 1))], 'INVALID_ARGUMENT', 'data'],
  ];
  for (const [messages, code, field, token] of cases) {
    const error = await t.throwsAsync(put(client, messages, token), { instanceOf: CapstanError });
    t.is(error.code, code as CapstanError['code'], error.message);
    t.is(error.field, field, error.message);
  }
  t.deepEqual(filesIn(root), []);
  t.deepEqual(faults, []);
  await t.notThrowsAsync(put(client, upload(BlobPurpose.BODY, bytes)));
});

test('a refused upload of many frames ends for its sender', async (t) => {
  const { client } = await serve(t);
  const { bytes } = someBytes(16_000_000);
  const error = await t.throwsAsync(put(client, upload(BlobPurpose.UNSPECIFIED, bytes)), { instanceOf: CapstanError });
  t.is(error.code, 'INVALID_ARGUMENT');
});

test('nobody puts or gets without a token', async (t) => {
  const { client, root } = await serve(t);
  const error = await t.throwsAsync(put(client, upload(BlobPurpose.BODY, someBytes(10).bytes), 'bad'), { instanceOf: CapstanError });
  t.is(error.code, 'UNAUTHENTICATED');
  const call = client.get({ id: 'body/00' }, metadata('bad'));
  call.resume();
  const [refusal] = (await once(call, 'error')) as [ServiceError];
  t.is(refusal.code, status.UNAUTHENTICATED);
  t.deepEqual(filesIn(root), []);
});

test('a blob that is gone is NOT_FOUND, a name that is none INVALID_ARGUMENT', async (t) => {
  const { client } = await serve(t);
  t.is((await t.throwsAsync(get(client, `body/${'0'.repeat(32)}`), { instanceOf: CapstanError })).code, 'NOT_FOUND');
  t.is((await t.throwsAsync(get(client, '../../secrets/api-key'), { instanceOf: CapstanError })).code, 'INVALID_ARGUMENT');
});

test('an upload that its sender gives up leaves nothing', async (t) => {
  const { client, root, store, faults } = await serve(t);
  const { bytes } = someBytes(MAX_FRAME_BYTES);
  let settled: Promise<unknown> = Promise.resolve();
  const begun = new Promise<void>((resolve) => {
    const putBlob = store.put.bind(store);
    store.put = (...args) => {
      const result = putBlob(...args);
      settled = result.catch((error: unknown) => error);
      resolve();
      return result;
    };
  });
  const call = client.put(metadata(), () => undefined);
  call.on('error', () => undefined);
  call.write(header(BlobPurpose.BODY, 10 * bytes.length));
  call.write(data(bytes));
  await begun;
  call.cancel();
  t.true((await settled) instanceof Error);
  t.deepEqual(filesIn(root), []);
  t.deepEqual(faults, []);
});

test('a reader that goes away, or does not read, holds up nothing and leaves no open file', async (t) => {
  const { client, store, faults } = await serve(t);
  const { bytes } = someBytes(20_000_000);
  const { id } = await store.put({ kind: 'body', size: bytes.length }, pieces(bytes));
  const closed = new Promise<void>((resolve) => {
    const open = store.get.bind(store);
    store.get = async (name) => {
      const blob = await open(name);
      const close = (): void => {
        blob.close();
        resolve();
      };
      return { ...blob, close };
    };
  });
  const call = client.get({ id }, metadata());
  call.on('error', () => undefined);
  await once(call, 'readable');
  call.cancel();
  await closed;
  t.deepEqual(faults, []);
});

test('a fault of ours is told to the log, not to the caller', async (t) => {
  const { client, store, faults } = await serve(t);
  store.get = () => Promise.reject(new Error('/data/blobs/body: EIO'));
  const error = await t.throwsAsync(get(client, `body/${'0'.repeat(32)}`), { instanceOf: CapstanError });
  t.is(error.code, 'INTERNAL');
  t.is(error.message, 'internal error');
  t.is(faults.length, 1);
});

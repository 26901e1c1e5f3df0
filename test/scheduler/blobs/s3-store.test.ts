/** Builds in S3-compatible storage, which a small server plays: it checks the signature's parts and the body's hash. */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { readdir, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';

import test, { type ExecutionContext } from 'ava';

import { FileBlobStore } from '../../../scheduler/blobs/file-store.ts';
import { S3BlobStore } from '../../../scheduler/blobs/s3-store.ts';
import { sweepOrphans } from '../../../scheduler/blobs/sweep.ts';
import { UnfinishedBuilds } from '../../../scheduler/blobs/unfinished-builds.ts';
import { ownFolder } from '../../support/own-folder.ts';

interface World {
  readonly store: S3BlobStore;
  readonly folder: string;
  readonly objects: Map<string, { readonly bytes: Buffer; at: number }>;
  /** Answered instead of the next puts. */
  fail: number;
}

async function world(t: ExecutionContext): Promise<World> {
  const objects: World['objects'] = new Map();
  const state = { fail: 0 };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://localhost');
    const name = url.pathname.replace(/^\/builds\/?/, '');
    void buffer(request).then((bytes) => {
      const end = (status: number, body: Buffer | string = '', headers = {}): void => void response.writeHead(status, headers).end(body);
      if (!/^AWS4-HMAC-SHA256 Credential=id\/\d{8}\/eu\/s3\/aws4_request, /.test(request.headers.authorization ?? '')) return end(403);
      if (name === '') {
        const rows = [...objects].map(
          ([key, { at }]) => `<Contents><Key>${key}</Key><LastModified>${new Date(at).toISOString()}</LastModified></Contents>`,
        );
        return end(200, `<ListBucketResult>${rows.join('')}</ListBucketResult>`);
      }
      const found = objects.get(name);
      switch (request.method) {
        case 'PUT':
          if (state.fail > 0) return end(state.fail);
          if (createHash('sha256').update(bytes).digest('hex') !== request.headers['x-amz-content-sha256']) return end(400);
          objects.set(name, { bytes, at: Date.now() });
          return end(200);
        case 'DELETE':
          objects.delete(name);
          return end(204);
        default:
          if (found === undefined) return end(404);
          return end(200, request.method === 'HEAD' ? '' : found.bytes, {
            'content-length': found.bytes.length,
            'last-modified': new Date(found.at).toUTCString(),
          });
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const folder = await ownFolder('capstan-s3');
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const config = { endpoint, bucket: 'builds', region: 'eu', accessKeyId: 'id', secretAccessKey: 'secret' };
  const store = new S3BlobStore(await FileBlobStore.open(folder), config);
  return Object.assign(state, { store, folder, objects });
}

const bytes = Buffer.alloc(700_000, 'build');
const digest = createHash('sha256').update(bytes).digest('hex');
const id = `build/${digest}`;
async function* source(): AsyncGenerator<Buffer> {
  yield bytes.subarray(0, 400_000);
  yield bytes.subarray(400_000);
}
const header = { kind: 'build', size: bytes.length, digest } as const;

test('a build goes to the storage and comes back; putting it again sends nothing', async (t) => {
  const { store, objects, folder } = await world(t);
  t.is(await store.size(id), null);
  t.deepEqual(await store.put(header, source()), { id, size: bytes.length, existed: false });
  t.true(objects.get(id)?.bytes.equals(bytes));
  t.deepEqual(await store.put(header, source()), { id, size: bytes.length, existed: true });
  t.is(await store.hold(id), bytes.length);
  const blob = await store.get(id);
  const pieces: Buffer[] = [];
  for await (const piece of blob.pieces) pieces.push(piece);
  t.is(blob.size, bytes.length);
  t.true(Buffer.concat(pieces).equals(bytes));
  t.true(pieces.every(({ length }) => length <= 256 * 1024));
  // Nothing of it stays in the folder.
  const left = await Promise.all((await readdir(join(folder, 'build'))).map((fan) => readdir(join(folder, 'build', fan))));
  t.deepEqual(left.flat(), []);
});

test('a sender that has yet to show the bytes sends them all, and the storage gets them once', async (t) => {
  const { store, objects } = await world(t);
  await store.put(header, source());
  const first = objects.get(id);
  const unproven = { ...header, unproven: true } as const;
  const wrong = async function* (): AsyncGenerator<Buffer> {
    yield Buffer.alloc(bytes.length);
  };
  await t.throwsAsync(store.put(unproven, wrong()), { code: 'INVALID_ARGUMENT', message: /digest/ });
  t.deepEqual(await store.put(unproven, source()), { id, size: bytes.length, existed: false });
  t.is(objects.get(id), first);
});

test('bytes that are not those of the digest are refused; a storage that fails is UNAVAILABLE, and nothing stays', async (t) => {
  const made = await world(t);
  const { store, objects } = made;
  const wrong = { ...header, digest: 'ab'.repeat(32) };
  await t.throwsAsync(store.put(wrong, source()), { code: 'INVALID_ARGUMENT' });
  made.fail = 403;
  await t.throwsAsync(store.put(header, source()), { code: 'UNAVAILABLE', message: /status 403/ });
  t.is(objects.size, 0);
  await t.throwsAsync(store.get(id), { code: 'NOT_FOUND' });
});

test('bodies stay in the folder; old builds without a row are swept', async (t) => {
  const { store, objects } = await world(t);
  const body = await store.put({ kind: 'body', size: bytes.length }, source());
  t.is(objects.size, 0);
  t.is(await store.size(body.id), bytes.length);
  await store.put(header, source());
  const orphan = `build/${'cd'.repeat(32)}`;
  objects.set(orphan, { bytes, at: Date.now() - 7_200_000 });
  const swept = await sweepOrphans(store, { ageMs: 3_600_000, named: () => Promise.resolve([]) });
  t.is(swept.removed, 1);
  t.deepEqual([...objects.keys()], [id]);
});

test('a build that came in parts is sent from its file, which stays until the storage has it', async (t) => {
  const w = await world(t);
  const bytes = Buffer.from('some build, in parts');
  const digest = createHash('sha256').update(bytes).digest('hex');
  const build = { owner: 'a', digest, size: bytes.length };
  const unfinished = await UnfinishedBuilds.open(join(w.folder, 'unfinished'));
  async function* part(start: number, end?: number): AsyncGenerator<Buffer> {
    yield bytes.subarray(start, end);
  }
  await unfinished.append(build, 0, part(0, 7));
  t.is(await unfinished.append(build, 7, part(7)), bytes.length);
  const finish = () => unfinished.finish(build, (file) => w.store.adopt(build, file));
  w.fail = 503;
  await t.throwsAsync(finish(), { message: /status 503/ });
  t.is(await unfinished.received('a', digest), bytes.length);
  w.fail = 0;
  t.false((await finish()).existed);
  t.deepEqual(w.objects.get(`build/${digest}`)?.bytes, bytes);
  t.deepEqual(await readdir(join(w.folder, 'unfinished')), []);
});

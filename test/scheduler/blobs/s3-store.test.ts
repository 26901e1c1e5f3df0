/** Blobs in S3-compatible storage: what arrives, what comes back, and what the storage's bad days become. */
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { CapstanError } from '../../../lib/errors.ts';
import { PayloadKeys } from '../../../scheduler/secrets/payload-keys.ts';
import { FileBlobStore, type ReadableBlob } from '../../../scheduler/blobs/file-store.ts';
import { BuildCheck } from '../../../scheduler/blobs/build-check.ts';
import { flip } from '../../conformance/store/killed-store.ts';
import { S3BlobStore } from '../../../scheduler/blobs/s3-store.ts';
import { sweepOrphans } from '../../../scheduler/blobs/sweep.ts';
import { UnfinishedBuilds } from '../../../scheduler/blobs/unfinished-builds.ts';
import { folderOf } from '../../support/folder.ts';
import { startS3, type S3Object, type S3Server } from '../../support/s3-server.ts';
import { filesIn } from './blobs.ts';

const HOUR = 3_600_000;

interface World {
  readonly server: S3Server;
  readonly store: S3BlobStore;
  readonly files: FileBlobStore;
  readonly folder: string;
  readonly objects: Map<string, S3Object>;
  readonly faults: unknown[];
  /** Another scheduler's store, with a folder of its own. */
  another(): Promise<S3BlobStore>;
}

async function world(t: ExecutionContext, { holdsBodies = false } = {}): Promise<World> {
  const server = await startS3();
  t.teardown(() => server.close());
  const faults: unknown[] = [];
  const open = async (folder: string): Promise<readonly [FileBlobStore, S3BlobStore]> => {
    const files = await FileBlobStore.open(folder);
    const store = new S3BlobStore(files, server, { holdsBodies, onFault: (error) => faults.push(error) });
    t.teardown(() => store.close());
    return [files, store];
  };
  const folder = await folderOf(t);
  const [files, store] = await open(folder);
  return { server, store, files, folder, objects: server.objects, faults, another: async () => (await open(await folderOf(t)))[1] };
}

const refuseWith = (server: S3Server, status: number, code: string): void => {
  server.fault = (method) => (method === 'PUT' ? { kind: 'status', status, code } : undefined);
};
const object = (bytes: Buffer, at: number): S3Object => ({ bytes, etag: '"e"', metadata: {}, at });
async function whole(blob: ReadableBlob): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const piece of blob.pieces) parts.push(piece);
  return Buffer.concat(parts);
}

const bytes = Buffer.alloc(700_000, 'build');
const digest = createHash('sha256').update(bytes).digest('hex');
const id = `build/${digest}`;
async function* source(): AsyncGenerator<Buffer> {
  yield bytes.subarray(0, 400_000);
  yield bytes.subarray(400_000);
}
const header = { kind: 'build', size: bytes.length, digest } as const;

test('a damaged build in the storage counts as missing, and is replaced by the next upload', async (t) => {
  const { store, objects } = await world(t);
  const found: string[] = [];
  const builds = new BuildCheck(store, (error) => found.push(error.message));
  await store.put(header, source());
  for (const metadata of [{}, objects.get(id)?.metadata ?? {}]) {
    for (const damaged of [flip(bytes, 5_000_000), bytes.subarray(1), bytes.subarray(0, 1)]) {
      objects.set(id, { ...object(damaged, Date.now()), metadata });
      t.is(await builds.hold(digest), null);
      await t.throwsAsync(async () => whole(await builds.get(digest)), { code: 'BUILD_DAMAGED' });
      await store.put({ ...header, unproven: true }, source());
      t.is(await builds.hold(digest), bytes.length);
      t.true((await whole(await builds.get(digest))).equals(bytes));
    }
  }
  t.is(found.length, 12);
  t.true(found.every((message) => message.includes(digest)));
});

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
  const { server, store, objects, folder } = await world(t);
  const wrong = { ...header, digest: 'ab'.repeat(32) };
  await t.throwsAsync(store.put(wrong, source()), { code: 'INVALID_ARGUMENT' });
  refuseWith(server, 403, 'AccessDenied');
  await t.throwsAsync(store.put(header, source()), { code: 'UNAVAILABLE', message: /status 403 \(AccessDenied\)/ });
  t.is(server.requests.filter((line) => line.startsWith('PUT')).length, 1, 'a refusal is not tried again');
  t.is(objects.size, 0);
  t.deepEqual(filesIn(folder), []);
  await t.throwsAsync(store.get(id), { code: 'NOT_FOUND' });
});

test('bodies stay in the folder; old builds without a row are swept', async (t) => {
  const { store, objects } = await world(t);
  const body = await store.put({ kind: 'body', size: bytes.length }, source());
  t.is(objects.size, 0);
  t.is(await store.size(body.id), bytes.length);
  await store.put(header, source());
  const orphan = `build/${'cd'.repeat(32)}`;
  objects.set(orphan, object(bytes, Date.now() - 2 * HOUR));
  const swept = await sweepOrphans(store, { ageMs: HOUR, named: () => Promise.resolve([]) });
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
  refuseWith(w.server, 503, 'SlowDown');
  const finish = () => unfinished.finish(build, (file) => w.store.adopt(build, file));
  await t.throwsAsync(finish(), { message: /status 503/ });
  t.is(await unfinished.received('a', digest), bytes.length);
  w.server.fault = () => undefined;
  t.false((await finish()).existed);
  t.deepEqual(w.objects.get(`build/${digest}`)?.bytes, bytes);
  t.deepEqual(await readdir(join(w.folder, 'unfinished')), []);
});

test('bodies go to the storage where they are to, and leave nothing in the folder; one scheduler reads what another put', async (t) => {
  const w = await world(t, { holdsBodies: true });
  const { id } = await w.store.put({ kind: 'body', size: bytes.length }, source());
  t.regex(id, /^body\/[0-9a-f]{32}\.[0-9a-f]{64}$/);
  t.true(w.objects.get(id)?.bytes.equals(bytes));
  t.deepEqual(filesIn(w.folder), []);
  const another = await w.another();
  const blob = await another.get(id);
  t.is(blob.size, bytes.length);
  t.true((await whole(blob)).equals(bytes));
  t.is(await another.hold(id), bytes.length);
  t.true(await another.delete(id));
  await t.throwsAsync(w.store.get(id), { code: 'NOT_FOUND' });
  t.is(await w.store.hold(id), null);
});

test('a body that the storage returns with a changed bit is never read, and leaves nothing in the folder', async (t) => {
  const w = await world(t, { holdsBodies: true });
  const { id } = await w.store.put({ kind: 'body', size: bytes.length }, source());
  const object = w.objects.get(id);
  if (object === undefined) throw new Error('nothing was stored');
  const damaged = Buffer.from(object.bytes);
  damaged[1] = (damaged[1] ?? 0) ^ 1;
  w.objects.set(id, { ...object, bytes: damaged });
  await t.throwsAsync(w.store.get(id), { code: 'PAYLOAD_DAMAGED' });
  w.objects.set(id, object);
  t.true((await whole(await w.store.get(id))).equals(bytes));
  t.deepEqual(filesIn(w.folder), []);
});

test('a body is encrypted before it leaves for the storage; its length is that of the document', async (t) => {
  const { server } = await world(t);
  const open = async (encrypts: boolean): Promise<S3BlobStore> => {
    const payloads = new PayloadKeys(Buffer.alloc(32, 3), [], encrypts);
    const store = new S3BlobStore(await FileBlobStore.open(await folderOf(t), { payloads }), server, { holdsBodies: true });
    t.teardown(() => store.close());
    return store;
  };
  const store = await open(true);
  const { id, size } = await store.put({ kind: 'body', size: bytes.length }, source());
  t.regex(id, /^body\/[0-9a-f]{32}\.[0-9a-f]{64}\.aes$/);
  t.is(size, bytes.length);
  t.false(server.objects.get(id)?.bytes.includes('build'));
  // Who encrypts nothing any more reads it all the same.
  for (const each of [store, await open(false)]) {
    t.is(await each.size(id), bytes.length);
    t.is(await each.hold(id), bytes.length);
    const blob = await each.get(id);
    t.is(blob.size, bytes.length);
    t.true((await whole(blob)).equals(bytes));
  }
  const keyless = new S3BlobStore(await FileBlobStore.open(await folderOf(t)), server, { holdsBodies: true });
  t.teardown(() => keyless.close());
  await t.throwsAsync(keyless.get(id), { code: 'PAYLOAD_DAMAGED', message: /there is no key/ });
});

test('what earlier settings put into the folder stays readable, counts as held, and is swept', async (t) => {
  const { files, store, objects } = await world(t, { holdsBodies: true });
  const body = await files.put({ kind: 'body', size: bytes.length }, source());
  const build = await files.put(header, source());
  for (const old of [body, build]) {
    t.is(await store.size(old.id), bytes.length);
    t.is(await store.hold(old.id), bytes.length);
    t.true((await whole(await store.get(old.id))).equals(bytes));
  }
  t.is(objects.size, 0);
  t.true(await store.delete(body.id));
  await t.throwsAsync(store.get(body.id), { code: 'NOT_FOUND' });
});

test('a busy storage is tried again, then UNAVAILABLE with the time of the next try; the fault is logged without keys', async (t) => {
  const { server, store, objects, faults } = await world(t);
  let busy = 2;
  server.fault = (method) => (method === 'PUT' && busy-- > 0 ? { kind: 'status', status: 503, code: 'SlowDown' } : undefined);
  t.false((await store.put(header, source())).existed);
  t.true(objects.get(id)?.bytes.equals(bytes));
  t.is(server.requests.filter((line) => line === `PUT ${id}`).length, 3);
  objects.clear();
  refuseWith(server, 503, 'SlowDown');
  const error = await t.throwsAsync<CapstanError>(store.put(header, source()), { code: 'UNAVAILABLE', message: /status 503 \(SlowDown\)/ });
  t.true((error?.retryAfterMs ?? 0) > 0);
  t.is(objects.size, 0);
  t.is(faults.length, 1);
  const text = faults.map((fault) => (fault instanceof Error ? `${String(fault.stack)} ${String(fault.cause)}` : '')).join();
  t.false(text.includes(server.secretAccessKey) || text.includes('Signature='));
});

test('a storage that is not reachable, or lacks the bucket, is UNAVAILABLE and not a missing blob', async (t) => {
  const { server, files } = await world(t);
  const other = new S3BlobStore(files, { ...server, bucket: 'another' });
  t.teardown(() => other.close());
  await t.throwsAsync(other.get(id), { code: 'UNAVAILABLE', message: /status 404 \(NoSuchBucket\)/ });
  const gone = await startS3();
  gone.close();
  const away = new S3BlobStore(files, gone);
  t.teardown(() => away.close());
  await t.throwsAsync(away.size(id), { code: 'UNAVAILABLE', message: 'the artifact store is unreachable' });
});

test('a reader whose connection is cut goes on where it was; other bytes than were stored are refused', async (t) => {
  const { server, store } = await world(t);
  await store.put(header, source());
  let cuts = 2;
  server.fault = (method) => (method === 'GET' && cuts-- > 0 ? { kind: 'cut', after: 300_000 } : undefined);
  t.true((await whole(await store.get(id))).equals(bytes));
  t.is(server.requests.filter((line) => line === `GET ${id}`).length, 3);
  server.fault = () => ({ kind: 'cut', after: 10 });
  await t.throwsAsync(async () => whole(await store.get(id)), { code: 'UNAVAILABLE', message: /cut off/ });
  server.fault = () => ({ kind: 'garble' });
  await t.throwsAsync(async () => whole(await store.get(id)), { code: 'UNAVAILABLE', message: /other bytes than were stored/ });
});

test('ages are by the clock of the storage, in whatever time its hosts live', async (t) => {
  const { server, store, objects } = await world(t, { holdsBodies: true });
  server.clockOffset = -30 * 24 * HOUR;
  const now = Date.now() + server.clockOffset;
  const [young, old] = [`body/${'a'.repeat(32)}`, `body/${'b'.repeat(32)}`];
  objects.set(young, object(bytes, now - HOUR / 2));
  objects.set(old, object(bytes, now - 2 * HOUR));
  await sweepOrphans(store, { ageMs: HOUR, named: () => Promise.resolve([]) });
  t.deepEqual([...objects.keys()], [young]);
});

test("sweep against another scheduler's put: what another one is about to name stays", async (t) => {
  const { store, objects, another } = await world(t, { holdsBodies: true });
  const other = await another();
  const body = `body/${'c'.repeat(32)}`;
  objects.set(id, object(bytes, Date.now() - 2 * HOUR));
  objects.set(body, object(bytes, Date.now() - 2 * HOUR));
  await sweepOrphans(store, {
    ageMs: HOUR,
    // While the rows are asked, the other scheduler puts the build again, and keeps a body.
    named: async () => {
      t.true((await other.put(header, source())).existed);
      t.is(await other.hold(body), bytes.length);
      return [];
    },
  });
  t.deepEqual([...objects.keys()].toSorted(), [body, id].toSorted());
  t.true((await whole(await store.get(id))).equals(bytes));
});

test('a file that is gone before it is sent fails the upload, and nothing else', async (t) => {
  const { store, folder, objects } = await world(t);
  const build = { digest, size: bytes.length };
  await t.throwsAsync(store.adopt(build, join(folder, 'gone')), { code: 'UNAVAILABLE' });
  t.is(objects.size, 0);
});

test('a long listing is read to its end', async (t) => {
  const { store, objects } = await world(t, { holdsBodies: true });
  for (let at = 0; at < 7; at += 1) objects.set(`body/${String(at).repeat(32)}`, object(bytes, Date.now() - 2 * HOUR));
  objects.set('somebody-elses', object(bytes, Date.now() - 2 * HOUR));
  const swept = await sweepOrphans(store, { ageMs: HOUR, named: () => Promise.resolve([`body/${'3'.repeat(32)}`]) });
  t.deepEqual(swept, { looked: 7, removed: 6 });
  t.deepEqual([...objects.keys()].toSorted(), [`body/${'3'.repeat(32)}`, 'somebody-elses']);
});

test('a first mark that another scheduler writes at the same moment stays', async (t) => {
  const { server, store, objects } = await world(t);
  server.fault = (method) => {
    if (method === 'PUT') objects.set('store-id', object(Buffer.from('theirs'), Date.now()));
    return undefined;
  };
  await store.mark.create('ours');
  t.is(await store.mark.read(), 'theirs');
  server.fault = () => undefined;
  await store.mark.replace('ours');
  t.is(await store.mark.read(), 'ours');
});

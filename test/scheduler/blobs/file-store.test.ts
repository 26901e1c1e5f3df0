import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import test, { type ExecutionContext } from 'ava';

import { CapstanError, type ErrorCode } from '../../../lib/errors.ts';
import { FileBlobStore } from '../../../scheduler/blobs/file-store.ts';
import { blobPath, isBlobId, MAX_BODY_BYTES, MAX_BUILD_BYTES } from '../../../scheduler/blobs/ids.ts';
import { filesIn, openStore, pieces, readAll, someBytes } from './blobs.ts';
import { folderOf } from '../../support/folder.ts';

async function refused(t: ExecutionContext, call: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
  const error = await t.throwsAsync(call, { instanceOf: CapstanError });
  t.is(error.code, code);
  t.regex(error.message, message);
}

test('a body is kept under a name of its own and read back as it was', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes } = someBytes(1_000_003);
  const first = await store.put({ kind: 'body', size: bytes.length }, pieces(bytes));
  const second = await store.put({ kind: 'body', size: bytes.length }, pieces(bytes, 7919));

  t.regex(first.id, new RegExp(`^body/[0-9a-f]{32}\\.${createHash('sha256').update(bytes).digest('hex')}$`));
  t.not(first.id, second.id);
  t.false(first.existed);
  for (const { id } of [first, second]) {
    const blob = await store.get(id);
    t.is(blob.size, bytes.length);
    t.true((await readAll(blob)).equals(bytes));
  }
  t.is(filesIn(root).length, 2);
});

test('a body of which any bit changed, or bytes are missing, is never read', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes } = someBytes(600_000);
  const { id } = await store.put({ kind: 'body', size: bytes.length }, pieces(bytes));
  const path = join(root, blobPath(id));
  for (const at of [0, 299_999, 599_999]) {
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] ?? 0) ^ 0x10;
    await writeFile(path, damaged);
    await t.throwsAsync(store.get(id), { code: 'PAYLOAD_DAMAGED', message: /do not match their SHA-256/ }, `byte ${at}`);
  }
  await writeFile(path, bytes.subarray(0, 500_000));
  await t.throwsAsync(store.get(id), { code: 'PAYLOAD_DAMAGED' });
  await writeFile(path, bytes);
  t.true((await readAll(await store.get(id))).equals(bytes));
});

test('a body that an earlier version stored, without a digest in its name, is read as it is', async (t) => {
  const { store, root } = await openStore(t);
  const id = `body/${'0f'.repeat(16)}`;
  await mkdir(join(root, 'body', '0f'));
  await writeFile(join(root, blobPath(id)), 'of before');
  t.is((await readAll(await store.get(id))).toString(), 'of before');
  t.is(await store.hold(id), 9);
  t.true(await store.delete(id));
});

test('a build is named by its digest, and put again it is there already', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes, digest } = someBytes(300_000);
  const first = await store.put({ kind: 'build', size: bytes.length, digest }, pieces(bytes));
  t.deepEqual(first, { id: `build/${digest}`, size: bytes.length, existed: false });
  const second = await store.put({ kind: 'build', size: bytes.length, digest }, pieces(bytes));
  t.deepEqual(second, { ...first, existed: true });
  t.deepEqual(filesIn(root), [`build/${digest.slice(0, 2)}/${digest}`]);
});

test('the same build put by several at once is kept once, whole', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes, digest } = someBytes(500_000);
  await Promise.all(Array.from({ length: 5 }, () => store.put({ kind: 'build', size: bytes.length, digest }, pieces(bytes))));
  t.is(filesIn(root).length, 1);
  t.true((await readAll(await store.get(`build/${digest}`))).equals(bytes));
});

test('bytes that do not fit their header are refused, and nothing is left of them', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes, digest } = someBytes(200_000);
  const other = someBytes(10).digest;
  await refused(
    t,
    store.put({ kind: 'body', size: bytes.length + 1 }, pieces(bytes)),
    'INVALID_ARGUMENT',
    /size is 200001, but only 200000 bytes were sent/,
  );
  await refused(
    t,
    store.put({ kind: 'body', size: bytes.length - 1 }, pieces(bytes)),
    'INVALID_ARGUMENT',
    /size is 199999, but more bytes were sent/,
  );
  await refused(
    t,
    store.put({ kind: 'build', size: bytes.length, digest: other }, pieces(bytes)),
    'INVALID_ARGUMENT',
    /digest does not match the bytes/,
  );
  await refused(
    t,
    store.put({ kind: 'body', size: bytes.length, digest: other }, pieces(bytes)),
    'INVALID_ARGUMENT',
    /digest does not match the bytes/,
  );
  t.deepEqual(filesIn(root), []);

  await store.put({ kind: 'build', size: bytes.length, digest }, pieces(bytes));
  await refused(t, store.put({ kind: 'build', size: 5, digest }, pieces(bytes)), 'INVALID_ARGUMENT', /size must be 200000/);
});

test('a header out of bounds is refused before any byte is read', async (t) => {
  const { store } = await openStore(t);
  const { digest } = someBytes(1);
  // oxlint-disable-next-line require-yield -- reading it is what must not happen
  const untouched = async function* (): AsyncGenerator<Buffer> {
    t.fail('the source was read');
  };
  await refused(t, store.put({ kind: 'body', size: 0 }, untouched()), 'INVALID_ARGUMENT', /size must be at least 1/);
  await refused(
    t,
    store.put({ kind: 'body', size: MAX_BODY_BYTES + 1 }, untouched()),
    'PAYLOAD_TOO_LARGE',
    new RegExp(`at most ${MAX_BODY_BYTES} bytes for a body`),
  );
  await refused(
    t,
    store.put({ kind: 'build', size: MAX_BUILD_BYTES + 1, digest }, untouched()),
    'PAYLOAD_TOO_LARGE',
    /at most 500000000 bytes for a build/,
  );
  await refused(t, store.put({ kind: 'build', size: 1 }, untouched()), 'INVALID_ARGUMENT', /digest is required for a build/);
  for (const bad of ['', 'abc', digest.toUpperCase(), `../${digest.slice(3)}`]) {
    await refused(t, store.put({ kind: 'build', size: 1, digest: bad }, untouched()), 'INVALID_ARGUMENT', /digest must be a SHA-256/);
  }
});

test('a sender that breaks off leaves nothing', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes } = someBytes(100_000);
  const broken = async function* (): AsyncGenerator<Buffer> {
    yield* pieces(bytes.subarray(0, 50_000), 10_000);
    throw new Error('the line is dead');
  };
  await t.throwsAsync(store.put({ kind: 'body', size: bytes.length }, broken()), { message: 'the line is dead' });
  t.deepEqual(filesIn(root), []);
});

test('only names of blobs ever become paths', async (t) => {
  const { store, root } = await openStore(t);
  await writeFile(join(root, 'secret'), 'x');
  for (const id of [
    '',
    'secret',
    '../secret',
    'body/../../secret',
    'build/xyz',
    `body/${'A'.repeat(32)}`,
    `body/${'a'.repeat(32)}/..`,
    `body/${'a'.repeat(32)}\n`,
    `/body/${'a'.repeat(32)}`,
  ]) {
    t.false(isBlobId(id));
    await refused(t, store.get(id), 'INVALID_ARGUMENT', /^id must be/);
    await t.throwsAsync(async () => store.delete(id), { instanceOf: CapstanError });
  }
});

test('a deleted blob is gone, for good and without complaint', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes } = someBytes(10);
  const { id } = await store.put({ kind: 'body', size: 10 }, pieces(bytes));
  t.true(await store.delete(id));
  t.false(await store.delete(id));
  await refused(t, store.get(id), 'NOT_FOUND', new RegExp(`blob ${id} does not exist`));
  t.deepEqual(filesIn(root), []);
});

test('a blob that is being read stays readable to its end when it is deleted', async (t) => {
  const { store } = await openStore(t);
  const { bytes } = someBytes(3_000_000);
  const { id } = await store.put({ kind: 'body', size: bytes.length }, pieces(bytes));
  const blob = await store.get(id);
  await store.delete(id);
  t.true((await readAll(blob)).equals(bytes));
});

test('opening the store removes what an earlier process left unfinished and keeps the rest', async (t) => {
  const { store, root } = await openStore(t);
  const { bytes, digest } = someBytes(10);
  await store.put({ kind: 'build', size: 10, digest }, pieces(bytes));
  await writeFile(join(root, 'incoming', 'half'), 'ha');
  const again = await FileBlobStore.open(root);
  t.deepEqual(filesIn(root), [`build/${digest.slice(0, 2)}/${digest}`]);
  t.true((await readAll(await again.get(`build/${digest}`))).equals(bytes));
});

const mounting = spawnSync('unshare', ['--user', '--map-root-user', '--mount', 'true']);
const canMount = mounting.status === 0;
const onSmallDisk = canMount ? test : test.skip;
const whyNot = canMount
  ? ''
  : ` (skipped: this host lets no test mount a file system: ${mounting.error?.message ?? String(mounting.stderr).trim()})`;

onSmallDisk(`a full disk refuses the blob as UNAVAILABLE and leaves nothing of it${whyNot}`, async (t) => {
  // A file system of 1 MiB in namespaces of a child's own: nothing outside of it is touched.
  const folder = await folderOf(t);
  const program = join(import.meta.dirname, 'full-disk.ts');
  const child = spawn('unshare', [
    '--user',
    '--map-root-user',
    '--mount',
    'sh',
    '-c',
    'mount -t tmpfs -o size=1m none "$1" && exec "$2" "$3" "$1"',
    'sh',
    folder,
    process.execPath,
    program,
  ]);
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = (await once(child, 'close')) as [number];
  const [stdout, stderr] = await output;
  t.is(code, 0, stderr);
  t.deepEqual(JSON.parse(stdout), {
    refusal: { code: 'UNAVAILABLE', message: 'the disk of the blob store is full' },
    files: [],
    afterwards: true,
  });
});

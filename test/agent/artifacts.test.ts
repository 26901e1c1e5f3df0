/** Builds on the node: fetched once, verified, unpacked safely, kept within bounds. */
import { access, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';

import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';

import { ArtifactCache, type CacheOptions } from '../../agent/artifacts/cache.ts';
import { fingerprintOf, verified } from '../../agent/artifacts/fingerprint.ts';
import { unpack } from '../../agent/artifacts/unpack.ts';
import { CapstanError } from '../../lib/errors.ts';
import { digestOf } from './fake-scheduler.ts';
import { addBuild, archiveOf, functionSpec, startAgent, startScheduler } from './fixtures.ts';
import { rawArchive, type RawEntry } from './raw-archive.ts';
import { until } from '../support/until.ts';
import { folderOf } from '../support/folder.ts';

const limits = { entries: 10, bytes: 10_000 };

async function refusal(t: ExecutionContext, entries: readonly RawEntry[]): Promise<string> {
  const folder = await folderOf(t);
  await mkdir(join(folder, 'build'));
  const error = await t.throwsAsync(unpack(Readable.from([rawArchive(entries)]), join(folder, 'build'), limits), {
    instanceOf: CapstanError,
  });
  t.is(error?.code, 'INVALID_ARCHIVE');
  t.deepEqual(await readdir(folder), ['build']);
  return error?.message ?? '';
}

test('entries outside of the build are refused by name', async (t) => {
  t.regex(await refusal(t, [{ path: '../evil', body: 'x' }]), /entry "\.\.\/evil" is outside/);
  t.regex(await refusal(t, [{ path: 'a/../../evil', body: 'x' }]), /entry "a\/\.\.\/\.\.\/evil" is outside/);
  t.regex(await refusal(t, [{ path: '/tmp/evil', body: 'x' }]), /entry "\/tmp\/evil" does not have a relative path/);
  t.regex(await refusal(t, [{ path: 'a\\..\\evil', body: 'x' }]), /does not have a relative path/);
});

test('names and paths that no file system takes are the fault of the archive', async (t) => {
  t.regex(await refusal(t, [{ path: 'n'.repeat(256), body: 'x' }]), /entry "n+…?" has a name longer than 255 bytes/);
  t.regex(await refusal(t, [{ path: `a/${'é'.repeat(128)}/b`, body: 'x' }]), /has a name longer than 255 bytes/);
  t.regex(await refusal(t, [{ path: 'folder/'.repeat(400), type: 'Directory' }]), /has a path longer than 2048 bytes/);
  t.regex(await refusal(t, [{ path: 'l', type: 'SymbolicLink', linkpath: 'n'.repeat(256) }]), /entry "l" has a name longer than 255 bytes/);
  t.regex(
    await refusal(t, [{ path: 'l', type: 'SymbolicLink', linkpath: 'n/'.repeat(3_000) }]),
    /entry "l" has a path longer than 2048 bytes/,
  );
  await t.notThrowsAsync(async () => {
    const folder = await folderOf(t);
    await mkdir(join(folder, 'build'));
    await unpack(Readable.from([rawArchive([{ path: 'n'.repeat(255), body: 'x' }])]), join(folder, 'build'), limits);
  });
});

test('links out of the build are refused, also by detours', async (t) => {
  t.regex(await refusal(t, [{ path: 'l', type: 'SymbolicLink', linkpath: '/etc' }]), /entry "l" is a link to a path outside the build/);
  t.regex(await refusal(t, [{ path: 'a/l', type: 'SymbolicLink', linkpath: '../../x' }]), /entry "a\/l" is a link to a path outside/);
  t.regex(
    await refusal(t, [{ path: 'h', type: 'Link', linkpath: '/etc/passwd' }]),
    /entry "h" is a link to a file that is not in the build/,
  );
  t.regex(await refusal(t, [{ path: 'h', type: 'Link', linkpath: '../x' }]), /entry "h" is a link to a file that is not/);
  // Each link alone stays inside; through the first, the second leads out.
  const detour: RawEntry[] = [
    { path: 'a/b/c/', type: 'Directory', mode: 0o755 },
    { path: 'a/b/c/top', type: 'SymbolicLink', linkpath: '../../..' },
    { path: 'out', type: 'SymbolicLink', linkpath: 'a/b/c/top/../..' },
  ];
  t.regex(await refusal(t, detour), /entry "out" is a (link to a path outside the build|broken link)/);
  // A file written through a link.
  const through: RawEntry[] = [
    { path: 'dir/', type: 'Directory', mode: 0o755 },
    { path: 'l', type: 'SymbolicLink', linkpath: 'dir' },
    { path: 'l/file', body: 'x' },
  ];
  await t.notThrowsAsync(refusal(t, [...through, { path: 'h', type: 'Link', linkpath: 'l/../../../etc/passwd' }]));
});

test('devices and pipes are refused', async (t) => {
  t.regex(await refusal(t, [{ path: 'd', type: 'CharacterDevice' }]), /entry "d" is a CharacterDevice/);
  t.regex(await refusal(t, [{ path: 'd', type: 'BlockDevice' }]), /entry "d" is a BlockDevice/);
  t.regex(await refusal(t, [{ path: 'd', type: 'FIFO' }]), /entry "d" is a FIFO/);
});

test('too many entries, or too many bytes, are refused', async (t) => {
  const many = Array.from({ length: 11 }, (_, index) => ({ path: `f${index}` }));
  t.is(await refusal(t, many), 'the build has more than 10 entries');
  t.is(await refusal(t, [{ path: 'big', body: 'x'.repeat(10_001) }]), 'the build unpacks to more than 10000 bytes');
});

test('what is no archive is refused', async (t) => {
  const folder = await folderOf(t);
  const whole = rawArchive([{ path: 'f', body: 'x'.repeat(5_000) }]);
  for (const bytes of [Buffer.from('not an archive at all'.repeat(100)), whole.subarray(0, whole.length / 2)]) {
    const error = await t.throwsAsync(unpack(Readable.from([bytes]), folder, limits), { instanceOf: CapstanError });
    t.regex(error?.message ?? '', /^the build's archive is damaged/);
  }
});

test('files, folders and inner links come out; special mode bits do not', async (t) => {
  const folder = await folderOf(t);
  const entries: RawEntry[] = [
    { path: 'bin/tool', body: '#!/bin/sh\n', mode: 0o6755 },
    { path: 'data', body: 'text', mode: 0o400 },
    { path: 'node_modules/.bin/tool', type: 'SymbolicLink', linkpath: '../../bin/tool' },
    { path: 'copy', type: 'Link', linkpath: 'data' },
  ];
  t.deepEqual(await unpack(Readable.from([rawArchive(entries)]), folder, limits), { entries: 4, bytes: 14 });
  t.is((await stat(join(folder, 'bin/tool'))).mode & 0o7777, 0o555, 'workers share the build: nobody writes to it');
  t.is(await readFile(join(folder, 'node_modules/.bin/tool'), 'utf8'), '#!/bin/sh\n');
  t.is(await readFile(join(folder, 'copy'), 'utf8'), 'text');
});

interface Store {
  readonly blobs: Map<string, Buffer>;
  readonly gets: string[];
  readonly frames: CacheOptions['blobs']['frames'];
}

function store(): Store {
  const blobs = new Map<string, Buffer>();
  const gets: string[] = [];
  return {
    blobs,
    gets,
    async *frames(id) {
      gets.push(id);
      const bytes = blobs.get(id);
      if (bytes === undefined) throw new CapstanError('NOT_FOUND', `no blob ${id}`);
      yield { size: bytes.length };
      for (let at = 0; at < bytes.length; at += 1_000) yield { data: bytes.subarray(at, at + 1_000) };
    },
  };
}

async function putBuild(t: ExecutionContext, blobs: Store, files: Record<string, string>): Promise<string> {
  const archive = await archiveOf(t, files);
  const digest = digestOf(archive);
  blobs.blobs.set(`build/${digest}`, archive);
  return digest;
}

function openCache(folder: string, blobs: Store, maxBytes = 1_000_000, more: Partial<CacheOptions> = {}): Promise<ArtifactCache> {
  return ArtifactCache.open({ folder, maxBytes, blobs, log: pino({ level: 'silent' }), ...more });
}

test('what a failed compilation has written counts, and other builds are evicted for it', async (t) => {
  const blobs = store();
  const old = await putBuild(t, blobs, { 'main.js': '1' });
  const large = await putBuild(t, blobs, { 'main.py': '2' });
  const compile = async (build: string): Promise<number> => {
    if (!build.endsWith(large)) return 0;
    await writeFile(join(build, 'main.pyc'), 'x'.repeat(2_000));
    throw new Error('it took too long');
  };
  const folder = join(await folderOf(t), 'cache');
  const cache = await openCache(folder, blobs, 1_000, { compile });
  t.teardown(() => cache.close());
  (await cache.acquire(old)).release();
  await cache.acquire(large);
  await until('the other build is evicted', () => !cache.digests.includes(old));
  await until('the size is noted', async () => {
    const note = JSON.parse(await readFile(join(folder, `${large}.note`), 'utf8')) as { bytes: number; unsyncedIn: string | null };
    return note.unsyncedIn === null && note.bytes === 2_001;
  });
  t.deepEqual(cache.digests, [large]);
});

test('one build is compiled at a time', async (t) => {
  const blobs = store();
  const turns: PromiseWithResolvers<number>[] = [];
  const compile = (): Promise<number> => {
    const turn = Promise.withResolvers<number>();
    turns.push(turn);
    return turn.promise;
  };
  const cache = await openCache(join(await folderOf(t), 'cache'), blobs, 1_000_000, { compile });
  for (const text of ['1', '2', '3']) await cache.acquire(await putBuild(t, blobs, { 'main.py': text }));
  for (const count of [1, 2, 3]) {
    await until('the next one is compiled', () => turns.length >= count);
    t.is(turns.length, count);
    turns[count - 1]?.resolve(0);
  }
  await cache.close();
  t.is(turns.length, 3);
});

test('workers that want the same build share one fetch', async (t) => {
  const blobs = store();
  const digest = await putBuild(t, blobs, { 'main.js': '1' });
  const cache = await openCache(join(await folderOf(t), 'cache'), blobs);
  const held = await Promise.all([cache.acquire(digest), cache.acquire(digest), cache.acquire(digest)]);
  t.is(new Set(held.map(({ folder }) => folder)).size, 1);
  t.deepEqual(blobs.gets, [`build/${digest}`]);
  await cache.acquire(digest);
  t.is(blobs.gets.length, 1);
});

test('bytes of another digest are not unpacked', async (t) => {
  const blobs = store();
  const digest = await putBuild(t, blobs, { 'main.js': '1' });
  blobs.blobs.set(`build/${digest}`, await archiveOf(t, { 'main.js': '2' }));
  const folder = join(await folderOf(t), 'cache');
  const cache = await openCache(folder, blobs);
  const error = await t.throwsAsync(cache.acquire(digest), { instanceOf: CapstanError });
  t.regex(error?.message ?? '', /digest/);
  t.deepEqual(await readdir(folder), ['package.json']);
});

test('a refused archive leaves nothing, also of the entries that were being written', async (t) => {
  const files = Array.from({ length: 1_500 }, (_, i) => ({ path: `d${i % 50}/e${i % 7}/f${i}`, body: 'x'.repeat(3_000) }));
  const whole = rawArchive(files);
  for (const [archive, reason] of [
    [rawArchive([...files, { path: '../evil', body: 'x' }]), /is outside the build/],
    [rawArchive([...files, { path: 'l', type: 'SymbolicLink', linkpath: 'nowhere' }]), /is a broken link/],
    [whole.subarray(0, whole.length / 2), /the build's archive is damaged/],
  ] as const) {
    const blobs = store();
    const digest = digestOf(archive);
    blobs.blobs.set(`build/${digest}`, archive);
    const folder = join(await folderOf(t), 'cache');
    const cache = await openCache(folder, blobs);
    const error = await t.throwsAsync(cache.acquire(digest), { instanceOf: CapstanError });
    t.is(error?.code, 'INVALID_ARCHIVE');
    t.regex(error?.message ?? '', reason);
    t.deepEqual(await readdir(folder), ['package.json']);
    await cache.close();
  }
});

test('in doubt, a build whose bytes changed although nothing touched it is found by its contents', async (t) => {
  const folder = await folderOf(t, { 'a.js': 'one', 'b/c.js': 'two' });
  const before = await fingerprintOf(folder);
  await writeFile(join(folder, 'b/c.js'), 'tvo');
  // What the disk has done leaves no trace in the metadata.
  const known = { facts: (await fingerprintOf(folder)).facts, contents: before.contents };
  t.deepEqual(await verified(folder, known), known);
  t.is(await verified(folder, known, true), undefined);
});

test('a failed fetch is no answer for the next one', async (t) => {
  const blobs = store();
  const archive = await archiveOf(t, { 'main.js': '1' });
  const digest = digestOf(archive);
  const cache = await openCache(join(await folderOf(t), 'cache'), blobs);
  await t.throwsAsync(cache.acquire(digest), { message: /no blob/ });
  blobs.blobs.set(`build/${digest}`, archive);
  await t.notThrowsAsync(cache.acquire(digest));
});

test('a name that is no digest never becomes a path', async (t) => {
  const cache = await openCache(join(await folderOf(t), 'cache'), store());
  await t.throwsAsync(cache.acquire('../../etc'), { message: /SHA-256/ });
});

test('the least recently used build goes first, never one in use', async (t) => {
  const blobs = store();
  const digests = [];
  for (const name of ['a', 'b', 'c', 'd']) digests.push(await putBuild(t, blobs, { 'main.js': name.repeat(400) }));
  const [a = '', b = '', c = '', d = ''] = digests;
  const folder = join(await folderOf(t), 'cache');
  const cache = await openCache(folder, blobs, 1_000);
  const first = await cache.acquire(a);
  (await cache.acquire(b)).release();
  const held = await cache.acquire(c);
  t.deepEqual((await readdir(folder)).filter((name) => name.length === 64).sort(), [a, c].sort());
  first.release();
  await cache.acquire(d);
  t.deepEqual((await readdir(folder)).filter((name) => name.length === 64).sort(), [c, d].sort());
  await access(join(held.folder, 'main.js'));
});

test('builds outlive the agent; what a crash left unfinished does not', async (t) => {
  const blobs = store();
  const digest = await putBuild(t, blobs, { 'main.js': '1' });
  const folder = join(await folderOf(t), 'cache');
  const before = await openCache(folder, blobs);
  await before.acquire(digest);
  await before.close();
  await mkdir(join(folder, '.new-1234', 'build'), { recursive: true });
  // Half of a build without its note was never finished.
  await mkdir(join(folder, 'f'.repeat(64)));
  await writeFile(join(folder, 'f'.repeat(64), 'main.js'), '1');
  const after = await openCache(folder, blobs);
  await after.close();
  t.deepEqual((await readdir(folder)).sort(), [digest, `${digest}.note`, 'package.json'].sort());
  await after.acquire(digest);
  t.is(blobs.gets.length, 1);
});

test('a build that was not on the disk for certain when the host went down is fetched again', async (t) => {
  const blobs = store();
  const digest = await putBuild(t, blobs, { 'main.js': '1' });
  const folder = join(await folderOf(t), 'cache');
  const cache = await openCache(folder, blobs);
  await cache.acquire(digest);
  await cache.close();
  const note = join(folder, `${digest}.note`);
  // Closing waits for what is being synced, or gives it up: both leave a note that is true.
  const first = JSON.parse(await readFile(note, 'utf8')) as { bytes: number; unsyncedIn: string | null };
  t.true(first.unsyncedIn === null || first.unsyncedIn.length > 10);
  const held = async (): Promise<readonly string[]> => {
    const again = await openCache(folder, blobs);
    const { digests } = again;
    await again.close();
    return digests;
  };
  await writeFile(note, JSON.stringify({ ...first, unsyncedIn: null }));
  t.deepEqual(await held(), [digest]);
  for (const text of [JSON.stringify({ ...first, unsyncedIn: 'of another boot' }), '', '42', 'no JSON']) {
    await mkdir(join(folder, digest), { recursive: true });
    await writeFile(note, text);
    t.deepEqual(await held(), [], text);
    t.deepEqual(await readdir(folder), ['package.json'], text);
  }
});

test('a build that is broken makes its worker unhealthy, with the reason, until it can be had', async (t) => {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, { 'main.ts': 'export const fn = () => 1;' });
  const archive = scheduler.blobs.get(`build/${build.buildDigest}`) ?? Buffer.alloc(0);
  scheduler.blobs.delete(`build/${build.buildDigest}`);
  await startAgent(t, scheduler);
  await scheduler.hello();
  scheduler.desire([{}], [{ ...build, functions: [functionSpec('fn')] }]);
  const sick = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_UNHEALTHY');
  t.is(sick.reason, 'ARTIFACT_FAILED');
  t.regex(sick.detail, /no blob/);
  scheduler.putBlob(archive, `build/${build.buildDigest}`);
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
  t.pass();
});

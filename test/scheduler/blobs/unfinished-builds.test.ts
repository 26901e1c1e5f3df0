/** Builds that come in parts, over broken connections. */
import { createHash } from 'node:crypto';
import { readdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { CapstanError, type ErrorCode } from '../../../lib/errors.ts';
import { UnfinishedBuilds } from '../../../scheduler/blobs/unfinished-builds.ts';
import { openStore, pieces, readAll, someBytes } from './blobs.ts';

const SIZE = 1_000_000;

async function world(t: ExecutionContext) {
  const { store, root } = await openStore(t);
  const { bytes, digest } = someBytes(SIZE);
  const folder = join(root, 'unfinished');
  return { store, folder, bytes, build: { owner: 'a', digest, size: SIZE }, unfinished: await UnfinishedBuilds.open(folder) };
}

async function refused(t: ExecutionContext, work: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
  const error = await t.throwsAsync(work, { instanceOf: CapstanError });
  t.is(error.code, code);
  t.regex(error.message, message);
}

/** A line that breaks after so many bytes. */
async function* cutAt(bytes: Buffer, at: number): AsyncGenerator<Buffer> {
  yield* pieces(bytes.subarray(0, at), 10_000);
  throw new Error('the line broke');
}

test('a build that comes over a line that breaks at any place arrives whole, also over a restart', async (t) => {
  const { store, folder, bytes, build, unfinished } = await world(t);
  await t.throwsAsync(unfinished.append(build, 0, cutAt(bytes, 123_456)), { message: 'the line broke' });
  t.is(await unfinished.received('a', build.digest), 123_456);

  const restarted = await UnfinishedBuilds.open(folder);
  await t.throwsAsync(restarted.append(build, 123_456, cutAt(bytes.subarray(123_456), 1)), { message: 'the line broke' });
  t.is(await restarted.append(build, 123_457, pieces(bytes.subarray(123_457, 600_000))), 600_000);
  t.is(await restarted.append(build, 600_000, pieces(bytes.subarray(600_000))), SIZE);

  // A sender that asks again while the end is being checked gets the same answer.
  const take = (file: string) => store.adopt(build, file);
  const [stored, again] = await Promise.all([restarted.finish(build, take), restarted.finish(build, take)]);
  t.deepEqual(stored, { id: `build/${build.digest}`, size: SIZE, existed: false });
  t.is(again, stored);
  t.true((await readAll(await store.get(stored.id))).equals(bytes));
  t.deepEqual(await readdir(folder), []);
});

test('a part must begin where the bytes end, and stay within the size', async (t) => {
  const { bytes, build, unfinished } = await world(t);
  await refused(t, unfinished.append(build, 5, pieces(bytes)), 'CONFLICT', /must start at byte 0, not 5/);
  t.is(await unfinished.append(build, 0, pieces(bytes.subarray(0, 100))), 100);
  await refused(t, unfinished.append(build, 0, pieces(bytes)), 'CONFLICT', /must start at byte 100, not 0/);
  await refused(t, unfinished.append(build, 100, pieces(bytes)), 'INVALID_ARGUMENT', /more bytes were sent/);
  t.is(await unfinished.received(build.owner, build.digest), 0, 'what was refused leaves nothing');
  t.is(unfinished.heldBy(build.owner).size, 0);
  await refused(t, unfinished.append({ ...build, size: 500_000_001 }, 0, pieces(bytes)), 'PAYLOAD_TOO_LARGE', /500000000/);
});

test('bytes of another digest are dropped, so that the next try begins anew', async (t) => {
  const { store, bytes, build, unfinished } = await world(t);
  const spoilt = Buffer.from(bytes);
  spoilt[SIZE - 1] = (spoilt[SIZE - 1] ?? 0) ^ 1;
  await unfinished.append(build, 0, pieces(spoilt));
  await refused(
    t,
    unfinished.finish(build, (file) => store.adopt(build, file)),
    'INVALID_ARGUMENT',
    /digest does not match the bytes/,
  );
  t.is(await unfinished.received('a', build.digest), 0);
});

test('a sender that comes back takes over from the connection it lost; another account has an upload of its own', async (t) => {
  const { bytes, build, unfinished } = await world(t);
  const held = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  async function* stuck(): AsyncGenerator<Buffer> {
    yield bytes.subarray(0, 1000);
    begun.resolve();
    await held.promise;
    yield bytes.subarray(1000, 2000);
  }
  const old = unfinished.append(build, 0, stuck());
  await begun.promise;
  t.is(await unfinished.append({ ...build, owner: 'b' }, 0, pieces(bytes.subarray(0, 7))), 7);
  t.is(await unfinished.append(build, 1000, pieces(bytes.subarray(1000, 5000))), 5000);
  held.resolve();
  // By then nobody else writes; what it still has begins in the wrong place.
  await refused(t, old, 'UNAVAILABLE', /another connection/);
  t.is(await unfinished.append(build, 5000, pieces(bytes.subarray(5000))), SIZE);
  await unfinished.finish(build, async (file) => {
    const { readFile } = await import('node:fs/promises');
    t.is(
      createHash('sha256')
        .update(await readFile(file))
        .digest('hex'),
      build.digest,
    );
    return { id: '', size: SIZE, existed: false };
  });
});

test('what nobody goes on with is swept, what is young is not', async (t) => {
  const { folder, bytes, build, unfinished } = await world(t);
  await unfinished.append(build, 0, pieces(bytes.subarray(0, 10)));
  await unfinished.append({ ...build, owner: 'b' }, 0, pieces(bytes.subarray(0, 10)));
  const [first = ''] = await readdir(folder);
  const old = new Date(Date.now() - 3_600_001);
  await utimes(join(folder, first), old, old);
  t.is(await unfinished.sweep(3_600_000), 1);
  t.is((await readdir(folder)).length, 1);
});

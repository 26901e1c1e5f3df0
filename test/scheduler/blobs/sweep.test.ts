import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { FileBlobStore } from '../../../scheduler/blobs/file-store.ts';
import { sweepOrphans } from '../../../scheduler/blobs/sweep.ts';
import { filesIn, makeOld, openStore, pieces, readAll, someBytes } from './blobs.ts';

const HOUR = 3_600_000;
const nobodyNames = (): Promise<string[]> => Promise.resolve([]);

/** A store as a process finds it that did not put its blobs: with two old ones and a young one. */
async function storeWithPast(t: Parameters<typeof openStore>[0]) {
  const { store: earlier, root } = await openStore(t);
  const put = async (ageMs: number): Promise<string> => {
    const { bytes } = someBytes(100);
    const { id } = await earlier.put({ kind: 'body', size: 100 }, pieces(bytes));
    await makeOld(root, id, ageMs);
    return id;
  };
  const [orphan, named, young] = [await put(2 * HOUR), await put(2 * HOUR), await put(HOUR / 2)];
  const build = someBytes(100);
  const { id: oldBuild } = await earlier.put({ kind: 'build', size: 100, digest: build.digest }, pieces(build.bytes));
  await makeOld(root, oldBuild, 2 * HOUR);
  return { store: await FileBlobStore.open(root), root, orphan, named, young, oldBuild, build };
}

test('only old blobs that no row names are removed', async (t) => {
  const { store, root, orphan, named, young, oldBuild } = await storeWithPast(t);
  const asked: string[] = [];
  const result = await sweepOrphans(store, {
    ageMs: HOUR,
    named: (ids) => {
      asked.push(...ids);
      return Promise.resolve(ids.filter((id) => id === named));
    },
  });
  t.deepEqual(asked.sort(), [orphan, named, oldBuild].sort());
  t.deepEqual(result, { looked: 3, removed: 2 });
  t.is(filesIn(root).length, 2);
  await t.notThrowsAsync(async () => readAll(await store.get(named)));
  await t.notThrowsAsync(async () => readAll(await store.get(young)));
});

test('what this process put stays while it is young, whatever the clock of the files says', async (t) => {
  const { store, root } = await openStore(t);
  const { id } = await store.put({ kind: 'body', size: 100 }, pieces(someBytes(100).bytes));
  await makeOld(root, id, 2 * HOUR);
  t.deepEqual(await sweepOrphans(store, { ageMs: HOUR, named: nobodyNames }), { looked: 0, removed: 0 });
});

test('a build put again while the rows are asked is not removed', async (t) => {
  const { store, oldBuild, build } = await storeWithPast(t);
  await sweepOrphans(store, {
    ageMs: HOUR,
    named: async () => {
      const again = await store.put({ kind: 'build', size: 100, digest: build.digest }, pieces(build.bytes));
      t.true(again.existed);
      return [];
    },
  });
  t.true((await readAll(await store.get(oldBuild))).equals(build.bytes));
});

test('a build put again after its removal began is written again', async (t) => {
  const { store, oldBuild, build } = await storeWithPast(t);
  const removal = store.delete(oldBuild);
  const again = await store.put({ kind: 'build', size: 100, digest: build.digest }, pieces(build.bytes));
  t.true(await removal);
  t.false(again.existed);
  t.true((await readAll(await store.get(oldBuild))).equals(build.bytes));
});

test('a sweep that would leave no time to name a blob is refused', async (t) => {
  const { store } = await openStore(t);
  await t.throwsAsync(sweepOrphans(store, { ageMs: 0, named: nobodyNames }), { instanceOf: CapstanError, message: /age/ });
});

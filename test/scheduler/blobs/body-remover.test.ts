import test from 'ava';

import { BodyRemover } from '../../../scheduler/blobs/body-remover.ts';
import { FileBlobStore } from '../../../scheduler/blobs/file-store.ts';
import { sweepOrphans } from '../../../scheduler/blobs/sweep.ts';
import { until } from '../../support/until.ts';
import { filesIn, makeOld, openStore, pieces, someBytes } from './blobs.ts';

test('a scheduler that may have lost the queue removes no body that the next owner may name', async (t) => {
  const { store, root } = await openStore(t);
  const put = async (): Promise<string> => (await store.put({ kind: 'body', size: 100 }, pieces(someBytes(100).bytes))).id;
  let owns = true;
  const asked: string[] = [];
  const remover = new BodyRemover({
    store,
    named: (ids) => {
      asked.push(...ids);
      owns = false;
      return Promise.resolve([]);
    },
    mayRemove: () => owns,
    onFault: (error) => t.fail(String(error)),
    waitMs: 10,
  });
  const body = await put();
  remover.drop([body]);
  await until('the rows were asked', () => asked.includes(body));
  await remover.close();
  t.is(filesIn(root).length, 1);

  await makeOld(root, body, 7_200_000);
  // Another process finds it old, as the next owner's sweep would.
  const late = await FileBlobStore.open(root);
  const sweep = { ageMs: 3_600_000, named: () => Promise.resolve([]) };
  t.is((await sweepOrphans(late, { ...sweep, mayRemove: () => false })).removed, 0);
  t.is((await sweepOrphans(late, { ...sweep, mayRemove: () => true })).removed, 1);
});

test('what waits is left to the sweep once the queue is lost', async (t) => {
  const { store, root } = await openStore(t);
  const { id } = await store.put({ kind: 'body', size: 100 }, pieces(someBytes(100).bytes));
  const later = await store.put({ kind: 'body', size: 100 }, pieces(someBytes(100).bytes));
  const remover = new BodyRemover({ store, named: () => Promise.resolve([]), onFault: (error) => t.fail(String(error)), waitMs: 10 });
  remover.drop([id]);
  remover.forget();
  remover.drop([later.id]);
  await until('the later one is gone', () => filesIn(root).length === 1);
  await remover.close();
  t.is(await store.size(id), 100);
});

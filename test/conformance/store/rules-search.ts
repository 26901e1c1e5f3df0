import test from 'ava';

import { completed, given, idOf, json, leaseOf, queued, submit } from './jobs.ts';
import type { Use } from './use.ts';

/** Reads for what people look at answer as other reads do. */
export function searchRules(name: string, use: Use): void {
  test.serial(`${name}: a search sees the batches that were called before it`, async (t) => {
    const { store, fence } = await use(t);
    for (let seq = 1; seq <= 20; seq++) {
      const [, found] = await Promise.all([
        store.commit(fence, [submit(queued(seq))]),
        store.search('newest', 'endpoint-a', null, 1_000, 10),
      ]);
      t.is(found[0]?.seq, seq);
    }
  });

  test.serial(`${name}: a search answers as a read does`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(queued(1), { input: json({ prompt: 'find me' }) }),
      submit(queued(2)),
      submit(queued(3, { endpoint: 'endpoint-b' })),
      leaseOf(2),
      completed(2, { output: json('done') }),
    );
    t.is(await store.read('endpointOfJob', idOf(3)), 'endpoint-b', 'a job is found without its endpoint');
    t.is(await store.read('endpointOfJob', 'none'), null);
    t.deepEqual(await store.search('page', 'endpoint-a', null, 0, 10), await store.read('page', 'endpoint-a', null, 0, 10));
    t.deepEqual(
      await store.search('newest', 'endpoint-a', 'COMPLETED', 10, 10),
      await store.read('newest', 'endpoint-a', 'COMPLETED', 10, 10),
    );
    t.deepEqual(
      (await store.search('inputs', [3, 1, 99])).map(({ seq, input }) => [
        seq,
        'inline' in input ? Buffer.from(input.inline).toString() : input,
      ]),
      [
        [1, '{"prompt":"find me"}'],
        [3, '{"seq":3}'],
      ],
    );
    t.deepEqual(await store.search('inputs', []), []);
    t.deepEqual(await store.search('payload', 1), await store.read('payload', 1));
    t.deepEqual(await store.search('job', 'endpoint-a', idOf(2)), await store.read('job', 'endpoint-a', idOf(2)));
    t.deepEqual(await store.search('deliveryPage', 'account-a', '', 10), []);
    await t.throwsAsync(store.search('newest', 'endpoint-a', null, 10, -1), { instanceOf: RangeError });
  });

  test.serial(`${name}: a store that is closed refuses searches, also while they run`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)));
    const running = Promise.allSettled([
      store.search('page', 'endpoint-a', null, 0, 10),
      store.search('newest', 'endpoint-a', null, 10, 10),
    ]);
    await store.close();
    await running;
    await t.throwsAsync(store.search('page', 'endpoint-a', null, 0, 10), { code: 'UNAVAILABLE' });
  });
}

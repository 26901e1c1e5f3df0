import test from 'ava';

import type { StoredState } from '../../../scheduler/core/ports/store.ts';
import { cancelledInQueue, completed, failed, given, json, leaseOf, leased, queued, queueOf, shown, START, submit } from './jobs.ts';
import type { Use } from './use.ts';

export function orderRules(name: string, use: Use): void {
  test.serial(`${name}: a queue's head is in order of position, per endpoint and priority`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(queued(1, { queuePosition: 30 })),
      submit(queued(2, { queuePosition: 10 })),
      submit(queued(3, { queuePosition: 20, priority: 1 })),
      submit(queued(4, { queuePosition: 20, endpoint: 'endpoint-b' })),
      submit(queued(5, { queuePosition: 20 })),
    );
    t.deepEqual(await queueOf(store), [2, 5, 1]);
    t.deepEqual(await queueOf(store, 'endpoint-a', 1), [3]);
    t.deepEqual(await queueOf(store, 'endpoint-b'), [4]);
    t.deepEqual(await queueOf(store, 'endpoint-c'), []);
  });

  test.serial(`${name}: head goes on after a position and is bounded`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, ...Array.from({ length: 10 }, (_, i) => submit(queued(i + 1))), leaseOf(4));
    const numbers = async (after: number, limit: number) =>
      (await store.read('head', { endpoint: 'endpoint-a', priority: 0, after, limit, inputLimit: 0 })).map((one) => one.job.seq);
    t.deepEqual(await numbers(0, 3), [1, 2, 3]);
    t.deepEqual(await numbers(3, 3), [5, 6, 7]);
    t.deepEqual(await numbers(9, 3), [10]);
    t.deepEqual(await numbers(10, 3), []);
    t.deepEqual(await numbers(0, 0), []);
  });

  test.serial(`${name}: head brings whole rows, and inputs that are inline and small`, async (t) => {
    const { store, fence } = await use(t);
    const four = { inline: new TextEncoder().encode('1234') };
    const five = { inline: new TextEncoder().encode('12345') };
    await given(
      store,
      fence,
      submit(queued(1, { webhook: 'https://example.com' }), { input: four }),
      submit(queued(2), { input: five }),
      submit(queued(3), { input: { blob: { id: 'blob-3', size: 3 } } }),
    );
    const window = await store.read('head', { endpoint: 'endpoint-a', priority: 0, after: 0, limit: 10, inputLimit: 4 });
    t.deepEqual(
      window.map((one) => ({ job: one.job, input: shown(one.input) })),
      [
        { job: queued(1, { webhook: 'https://example.com' }), input: '1234' },
        { job: queued(2), input: null },
        { job: queued(3), input: null },
      ],
    );
  });

  test.serial(`${name}: counts are per endpoint, state and priority`, async (t) => {
    const { store, fence } = await use(t);
    t.deepEqual(await store.read('counts'), []);
    await given(
      store,
      fence,
      submit(queued(1)),
      submit(queued(2)),
      submit(queued(3, { priority: 1 })),
      submit(leased(4, { endpoint: 'endpoint-b', token: 2, attempts: 2 })),
      submit(leased(5, { endpoint: 'endpoint-b' })),
      completed(5),
      submit(leased(6, { priority: 1 })),
      failed(6),
    );
    const counts = (await store.read('counts')).map((one) => `${one.endpoint} ${one.state} ${one.priority} ${one.count} ${one.retried}`);
    t.deepEqual(counts.toSorted(), [
      'endpoint-a FAILED 1 1 0',
      'endpoint-a IN_QUEUE 0 2 0',
      'endpoint-a IN_QUEUE 1 1 0',
      'endpoint-b COMPLETED 0 1 0',
      'endpoint-b LEASED 0 1 1',
    ]);
  });

  test.serial(`${name}: pages go from the newest submission or retry, with the total`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(queued(1)),
      submit(leased(2)),
      submit(leased(3, { priority: 1 })),
      submit(leased(4)),
      submit(queued(5, { priority: 1 })),
      submit(queued(6)),
      submit(leased(7)),
      submit(queued(8, { endpoint: 'endpoint-b' })),
      completed(2, { chunks: [json('c')] }),
      failed(3),
      completed(4, { state: 'TIMED_OUT', error: 'executionTimeout exceeded', output: null }),
      cancelledInQueue(6),
    );
    const page = async (state: StoredState | null, offset: number, limit: number) => {
      const { jobs, total } = await store.read('page', 'endpoint-a', state, offset, limit);
      return { numbers: jobs.map((whole) => whole.job.seq), total };
    };
    t.deepEqual(await page(null, 0, 10), { numbers: [7, 6, 5, 4, 3, 2, 1], total: 7 });
    t.deepEqual(await page(null, 0, 3), { numbers: [7, 6, 5], total: 7 });
    t.deepEqual(await page(null, 3, 3), { numbers: [4, 3, 2], total: 7 });
    t.deepEqual(await page(null, 6, 3), { numbers: [1], total: 7 });
    t.deepEqual(await page(null, 7, 3), { numbers: [], total: 7 });
    t.deepEqual(await page(null, 0, 0), { numbers: [], total: 7 });
    t.deepEqual(await page('IN_QUEUE', 0, 10), { numbers: [5, 1], total: 2 });
    t.deepEqual(await page('IN_QUEUE', 1, 10), { numbers: [1], total: 2 });
    t.deepEqual(await page('LEASED', 0, 10), { numbers: [7], total: 1 });
    t.deepEqual(await page('COMPLETED', 0, 10), { numbers: [2], total: 1 });
    t.deepEqual(await page('FAILED', 0, 10), { numbers: [3], total: 1 });
    t.deepEqual(await page('TIMED_OUT', 0, 10), { numbers: [4], total: 1 });
    t.deepEqual(await page('CANCELLED', 0, 10), { numbers: [6], total: 1 });

    // A page goes on below the position where the one before ended, whatever was submitted meanwhile.
    const newest = async (state: StoredState | null, before: number, limit: number) =>
      (await store.read('newest', 'endpoint-a', state, before, limit)).map(({ seq, queuePosition }) => [seq, queuePosition] as const);
    const all = await newest(null, Number.MAX_SAFE_INTEGER, 10);
    t.deepEqual(
      all.map(([seq]) => seq),
      [7, 6, 5, 4, 3, 2, 1],
    );
    t.deepEqual(await newest(null, Number.MAX_SAFE_INTEGER, 3), all.slice(0, 3));
    t.deepEqual(await newest(null, all[2]?.[1] ?? 0, 3), all.slice(3, 6));
    t.deepEqual(await newest(null, all[6]?.[1] ?? 0, 3), []);
    for (const [state, numbers] of [
      ['IN_QUEUE', [5, 1]],
      ['LEASED', [7]],
      ['COMPLETED', [2]],
      ['FAILED', [3]],
    ] as const)
      t.deepEqual(
        (await newest(state, Number.MAX_SAFE_INTEGER, 10)).map(([seq]) => seq),
        [...numbers],
        state,
      );

    const [whole] = (await store.read('page', 'endpoint-a', 'COMPLETED', 0, 1)).jobs;
    t.is(shown(whole?.output ?? null), '{"done":2}');
    t.deepEqual(whole?.chunks.map(shown), ['"c"']);

    await given(store, fence, {
      kind: 'retry',
      seq: 3,
      queuePosition: 9,
      submittedAt: START + 9_000,
      deleteAt: START + 99_000,
      pastAttempts: null,
    });
    t.deepEqual((await page(null, 0, 2)).numbers, [3, 7]);
    t.deepEqual(
      (await newest(null, Number.MAX_SAFE_INTEGER, 2)).map(([seq]) => seq),
      [3, 7],
    );
    t.deepEqual(await store.read('page', 'endpoint-c', null, 0, 10), { jobs: [], total: 0 });
  });

  test.serial(`${name}: a limit that is no whole number from 0 is refused`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)));
    await t.throwsAsync(store.read('head', { endpoint: 'endpoint-a', priority: 0, after: 0, limit: -1, inputLimit: 0 }), {
      instanceOf: RangeError,
      message: /limit -1/,
    });
    await t.throwsAsync(store.read('leased', 0, 1.5), { instanceOf: RangeError });
    await t.throwsAsync(store.read('due', START, Number.NaN), { instanceOf: RangeError });
    t.deepEqual(await queueOf(store), [1], 'the store goes on');
  });
}

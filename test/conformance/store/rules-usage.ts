import test from 'ava';

import { completed, failed, given, hookOf, json, leased, leaseOf, outcomes, queued, START, submit } from './jobs.ts';
import type { Use } from './use.ts';
import type { Store } from '../../../scheduler/store/store.ts';

const endpoint = (id: string, account: string) =>
  ({ kind: 'put', rowKind: 'endpoint', key: id, version: 1, value: JSON.stringify({ id, account }) }) as const;
const blob = (id: string, size = 100_000) => ({ blob: { id, size } });
const remove = (seq: number) => ({ kind: 'delete', seq, dueBy: null }) as const;

const usageOf = async (store: Store): Promise<Record<string, number>> =>
  Object.fromEntries((await store.read('bodyUsage')).map(({ account, bytes }) => [account, bytes]));

export function usageRules(name: string, use: Use): void {
  test.serial(`${name}: what rows name in the blob store counts for the account of the endpoint, each blob once`, async (t) => {
    const { store, fence, reopen } = await use(t);
    await given(store, fence, endpoint('endpoint-a', 'one'), endpoint('endpoint-b', 'two'));
    t.deepEqual(await usageOf(store), {});
    await given(
      store,
      fence,
      submit(leased(1), { input: blob('in-1') }),
      submit(queued(2)),
      submit(queued(3, { endpoint: 'endpoint-b' }), { input: blob('in-3', 70_000) }),
    );
    t.deepEqual(await usageOf(store), { one: 100_000, two: 70_000 });

    const hook = hookOf(1, { account: 'one' });
    await given(store, fence, completed(1, { output: blob('out-1', 200_000), chunks: [json(1), blob('chunk', 80_000)], hook }));
    t.deepEqual(await usageOf(store), { one: 380_000, two: 70_000 }, 'the delivery names the same blobs');
    const again = await reopen();
    t.deepEqual(await usageOf(again), { one: 380_000, two: 70_000 });
  });

  test.serial(`${name}: a blob counts until the last row that names it is gone`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, endpoint('endpoint-a', 'account-a'), submit(leased(1), { input: blob('in') }));
    await given(
      store,
      fence,
      completed(1, { output: blob('out', 200_000), chunks: [blob('c0', 1_000), blob('c1', 2_000)], hook: hookOf(1) }),
    );
    await given(store, fence, { kind: 'drain', seq: 1, below: 1 });
    t.deepEqual(await usageOf(store), { 'account-a': 302_000 });
    await given(store, fence, remove(1));
    t.deepEqual(await usageOf(store), { 'account-a': 300_000 }, 'the delivery keeps input and output');
    await given(store, fence, { kind: 'hook', id: hookOf(1).id, after: null, to: null });
    t.deepEqual(await usageOf(store), {});
  });

  test.serial(`${name}: a retry gives the output back, and what the store refuses counts nothing`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      endpoint('endpoint-a', 'one'),
      submit(leased(1), { input: blob('in') }),
      failed(1, { output: blob('out', 5_000) }),
    );
    t.deepEqual(await usageOf(store), { one: 105_000 });
    await given(store, fence, { kind: 'retry', seq: 1, queuePosition: 9, submittedAt: START, deleteAt: START + 9_000, pastAttempts: null });
    t.deepEqual(await usageOf(store), { one: 100_000 });
    t.deepEqual(
      await outcomes(
        store,
        fence,
        submit({ ...queued(2), id: queued(1).id }, { input: blob('other') }),
        completed(1, { output: blob('late') }),
      ),
      ['exists', 'stale'],
    );
    t.deepEqual(await usageOf(store), { one: 100_000 });
    await given(store, fence, leaseOf(1, 3), completed(1, { token: 3, output: blob('out-2', 1_000) }), remove(1));
    t.deepEqual(await usageOf(store), {});
  });
}

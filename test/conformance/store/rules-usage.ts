import test from 'ava';

import { completed, failed, given, deliveryOf, json, leased, leaseOf, outcomes, queued, START, submit } from './jobs.ts';
import type { Use } from './use.ts';
import type { Store } from '../../../scheduler/core/ports/store.ts';

const endpoint = (id: string, account: string) =>
  ({ kind: 'put', rowKind: 'endpoint', key: id, version: 1, value: JSON.stringify({ id, account }) }) as const;
const blob = (id: string, size = 100_000) => ({ blob: { id, size } });
const remove = (seq: number) => ({ kind: 'delete', seq, dueBy: null }) as const;

/** Bytes that a row keeps of a document: its JSON text and 5 bytes with its checksum. */
const kept = (value: unknown): number => JSON.stringify(value).length + 5;
/** Of the input that `submit` gives a job. */
const keptInput = (seq: number): number => kept({ seq });

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
    t.deepEqual(await usageOf(store), { one: 100_000 + keptInput(2), two: 70_000 });

    const delivery = deliveryOf(1, { account: 'one' });
    await given(store, fence, completed(1, { output: blob('out-1', 200_000), chunks: [json(1), blob('chunk', 80_000)], delivery }));
    const all = { one: 380_000 + keptInput(2) + kept(1), two: 70_000 };
    t.deepEqual(await usageOf(store), all, 'the delivery names the same blobs');
    const again = await reopen();
    t.deepEqual(await usageOf(again), all);
  });

  test.serial(`${name}: a blob counts until the last row that names it is gone`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, endpoint('endpoint-a', 'account-a'), submit(leased(1), { input: blob('in') }));
    await given(
      store,
      fence,
      completed(1, { output: blob('out', 200_000), chunks: [blob('c0', 1_000), blob('c1', 2_000)], delivery: deliveryOf(1) }),
    );
    await given(store, fence, { kind: 'drain', seq: 1, below: 1 });
    t.deepEqual(await usageOf(store), { 'account-a': 302_000 });
    await given(store, fence, remove(1));
    t.deepEqual(await usageOf(store), { 'account-a': 300_000 }, 'the delivery keeps input and output');
    await given(store, fence, { kind: 'delivery', id: deliveryOf(1).id, after: null, to: null });
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

  test.serial(`${name}: a body in a row counts until its row is gone, whichever operation removes it`, async (t) => {
    const { store, fence, reopen } = await use(t);
    await given(
      store,
      fence,
      endpoint('endpoint-a', 'one'),
      endpoint('endpoint-b', 'two'),
      submit(leased(1)),
      submit(leased(2)),
      submit(queued(3, { endpoint: 'endpoint-b' })),
    );
    t.deepEqual(await usageOf(store), { one: keptInput(1) + keptInput(2), two: keptInput(3) });

    const output = json('output of 1');
    const delivery = deliveryOf(1, { account: 'one' });
    await given(
      store,
      fence,
      completed(1, { output, chunks: [json('first'), json('second'), blob('third', 1_000)], delivery }),
      failed(2, { output: json('partial'), chunks: [json('chunk')] }),
    );
    // The delivery holds copies of input and output.
    const ended = 2 * (keptInput(1) + kept('output of 1')) + kept('first') + kept('second') + 1_000;
    const retried = keptInput(2) + kept('partial') + kept('chunk');
    t.deepEqual(await usageOf(store), { one: ended + retried, two: keptInput(3) });
    t.deepEqual(await usageOf(await reopen()), { one: ended + retried, two: keptInput(3) });
  });

  test.serial(`${name}: a batch counts what its operations leave, and nothing of what is refused`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, endpoint('endpoint-a', 'one'), submit(leased(1)), submit(leased(2)));
    const both = keptInput(1) + keptInput(2);
    t.deepEqual(
      await outcomes(
        store,
        fence,
        completed(1, { token: 7, output: json('late'), chunks: [json('late')], delivery: deliveryOf(1) }),
        submit({ ...queued(3), id: queued(2).id }, { input: json('of an id that is taken') }),
        failed(2, { output: json('partial'), chunks: [json('a'), json('b'), json('c')] }),
        { kind: 'drain', seq: 2, below: 2 },
        { kind: 'drain', seq: 1, below: 2 },
      ),
      ['stale', 'exists', 'ok', 'ok', 'stale'],
    );
    t.deepEqual(await usageOf(store), { one: both + kept('partial') + kept('c') });
    await given(
      store,
      fence,
      { kind: 'retry', seq: 2, queuePosition: 9, submittedAt: START, deleteAt: START + 9_000, pastAttempts: null },
      submit(queued(4)),
      remove(4),
    );
    t.deepEqual(await usageOf(store), { one: both });
    t.deepEqual(await outcomes(store, fence, remove(2), remove(2), { kind: 'delete', seq: 1, dueBy: 1 }), ['ok', 'gone', 'stale']);
    t.deepEqual(await usageOf(store), { one: keptInput(1) });
    await given(store, fence, remove(1));
    t.deepEqual(await usageOf(store), {});
  });

  test.serial(`${name}: a delivery counts until it is removed, also after its job and its endpoint`, async (t) => {
    const { store, fence, reopen } = await use(t);
    await given(store, fence, endpoint('endpoint-a', 'one'), submit(leased(1)));
    await given(store, fence, completed(1, { output: json('first'), delivery: deliveryOf(1, { account: 'one' }) }), remove(1));
    const delivery = keptInput(1) + kept('first');
    t.deepEqual(await usageOf(store), { one: delivery });

    // The id of a job that was deleted is submitted again: its end replaces the delivery.
    await given(store, fence, submit({ ...leased(2), id: leased(1).id }));
    await given(store, fence, completed(2, { output: json('second, longer'), delivery: deliveryOf(1, { account: 'one' }) }), remove(2));
    t.deepEqual(await usageOf(store), { one: keptInput(2) + kept('second, longer') });

    await given(store, fence, { kind: 'put', rowKind: 'endpoint', key: 'endpoint-a', version: 2, value: null });
    const again = await reopen();
    t.deepEqual(await usageOf(again), { one: keptInput(2) + kept('second, longer') });
  });
}

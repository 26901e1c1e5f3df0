import test from 'ava';

import type { DeliveryHead, Store } from '../../../scheduler/core/ports/store.ts';
import {
  cancelledInQueue,
  completed,
  failed,
  given,
  deliveryOf,
  idOf,
  json,
  leased,
  outcomes,
  queued,
  shown,
  START,
  submit,
} from './jobs.ts';
import type { Use } from './use.ts';

const head = (seq: number, difference: Partial<DeliveryHead> = {}): DeliveryHead => {
  const { envelope: _, ...rest } = deliveryOf(seq);
  return { ...rest, state: 'PENDING', tries: 0, error: null, ...difference };
};

/** Ids of what is due, and when the next is. */
async function due(store: Store, wall: number, { skipHosts = [] as string[], skip = [] as number[], perHost = 10, limit = 10 } = {}) {
  const skipIds = skip.map((seq) => deliveryOf(seq).id);
  const { deliveries, nextAt } = await store.read('deliveries', { wall, skipHosts, skipIds, perHost, limit });
  return { due: deliveries.map(({ id }) => Number(/(\d+)-u1/.exec(id)?.[1])), nextAt };
}

export function deliveryRules(name: string, use: Use): void {
  test.serial(`${name}: a delivery is written with the end, with the job's input and output`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), completed(1, { delivery: deliveryOf(1) }), submit(queued(2)));
    await given(store, fence, cancelledInQueue(2, { delivery: deliveryOf(2, { id: 'other' }) }));
    const delivery = await store.read('delivery', deliveryOf(1).id);
    const { input, output, envelope, ...rest } = delivery ?? t.fail();
    t.deepEqual(rest, head(1));
    t.deepEqual([envelope, shown(input), shown(output)], [deliveryOf(1).envelope, '{"seq":1}', '{"done":1}']);
    t.is((await store.read('delivery', 'other'))?.output, null);
    t.is(await store.read('delivery', 'unknown'), null);
  });

  test.serial(`${name}: a delivery outlives its job with its payload`, async (t) => {
    const { store, fence, reopen } = await use(t);
    const input = { blob: { id: 'blob-in', size: 100_000 } };
    const output = { blob: { id: 'blob-out', size: 200_000 } };
    await given(store, fence, submit(leased(1), { input }), completed(1, { output, delivery: deliveryOf(1) }), {
      kind: 'delete',
      seq: 1,
      dueBy: null,
    });
    const again = await reopen();
    const delivery = await again.read('delivery', deliveryOf(1).id);
    t.deepEqual([delivery?.input, delivery?.output], [input, output]);
    t.deepEqual((await again.read('blobsNamed', ['blob-in', 'blob-out', 'blob-none'])).toSorted(), ['blob-in', 'blob-out']);
    t.deepEqual(await due(again, START + 6_000), { due: [1], nextAt: null });
  });

  test.serial(`${name}: deliveries come due in order of time, are put off, and go`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(leased(1)),
      submit(leased(2)),
      completed(1, { delivery: deliveryOf(1) }),
      failed(2, { delivery: deliveryOf(2, { dueAt: START + 5_000 }) }),
    );
    t.deepEqual(await due(store, START), { due: [], nextAt: START + 5_000 });
    t.deepEqual(await due(store, START + 5_000), { due: [2], nextAt: START + 6_000 });
    t.deepEqual(await due(store, START + 6_000), { due: [2, 1], nextAt: null });
    t.deepEqual(await due(store, START + 6_000, { limit: 1 }), { due: [2], nextAt: null });
    t.deepEqual((await store.read('deliveries', { wall: START + 6_000, skipHosts: [], skipIds: [], perHost: 10, limit: 10 })).deliveries, [
      head(2, { dueAt: START + 5_000 }),
      head(1),
    ]);

    const later = { state: 'PENDING', dueAt: START + 15_000, tries: 1, error: 'answered 500' } as const;
    t.deepEqual(await outcomes(store, fence, { kind: 'delivery', id: deliveryOf(2).id, after: 0, to: later }), ['ok']);
    t.deepEqual(await due(store, START + 6_000), { due: [1], nextAt: START + 15_000 });
    t.deepEqual(
      (await store.read('deliveries', { wall: START + 15_000, skipHosts: [], skipIds: [], perHost: 10, limit: 10 })).deliveries,
      [head(2, later), head(1)].toSorted((a, b) => a.dueAt - b.dueAt),
    );
    const away = { kind: 'delivery', id: deliveryOf(1).id, after: 0, to: null } as const;
    t.deepEqual(await outcomes(store, fence, away, away), ['ok', 'gone']);
    t.deepEqual(await due(store, START + 99_000), { due: [2], nextAt: null });
  });

  test.serial(`${name}: a change that expects another number of tries is stale`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), completed(1, { delivery: deliveryOf(1) }));
    const { id } = deliveryOf(1);
    const again = { state: 'PENDING', dueAt: START + 7_000, tries: 0, error: null } as const;
    t.deepEqual(
      await outcomes(
        store,
        fence,
        { kind: 'delivery', id, after: 1, to: null },
        { kind: 'delivery', id, after: 0, to: { ...again, tries: 1, error: 'e' } },
        { kind: 'delivery', id, after: 0, to: null },
        { kind: 'delivery', id, after: null, to: again },
        { kind: 'delivery', id: 'unknown', after: null, to: again },
      ),
      ['stale', 'ok', 'stale', 'ok', 'gone'],
    );
    t.deepEqual(await store.read('deliveryPage', 'account-a', '', 10), [head(1, again)]);
  });

  test.serial(`${name}: one given up is due no more, and is again when sent anew`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), completed(1, { delivery: deliveryOf(1) }));
    const given_up = { state: 'FAILED', dueAt: START + 86_000_000, tries: 3, error: 'refused' } as const;
    await given(store, fence, { kind: 'delivery', id: deliveryOf(1).id, after: 0, to: given_up });
    t.deepEqual(await due(store, START + 85_000_000), { due: [], nextAt: null });
    t.deepEqual(await store.read('deliveryPage', 'account-a', '', 10), [head(1, given_up)]);
    await given(store, fence, {
      kind: 'delivery',
      id: deliveryOf(1).id,
      after: null,
      to: { state: 'PENDING', dueAt: START + 7_000, tries: 0, error: null },
    });
    t.deepEqual(await due(store, START + 7_000), { due: [1], nextAt: null });
  });

  test.serial(`${name}: a host with a long queue hides none of the others, and gives its share`, async (t) => {
    const { store, fence } = await use(t);
    const busy = [1, 2, 3, 4, 5, 6];
    for (const seq of busy)
      await given(store, fence, submit(leased(seq)), completed(seq, { delivery: deliveryOf(seq, { host: 'busy', dueAt: START + seq }) }));
    for (const seq of [7, 8])
      await given(
        store,
        fence,
        submit(leased(seq)),
        completed(seq, { delivery: deliveryOf(seq, { host: `quiet-${seq}`, dueAt: START + 100 + seq }) }),
      );
    const at = START + 1_000;
    t.deepEqual((await due(store, at, { perHost: 2 })).due, [1, 2, 7, 8]);
    t.deepEqual((await due(store, at, { perHost: 2, skip: [1, 2] })).due, [3, 4, 7, 8]);
    t.deepEqual((await due(store, at, { perHost: 2, skipHosts: ['busy'] })).due, [7, 8]);
    t.deepEqual((await due(store, at, { perHost: 2, skip: busy, limit: 1 })).due, [7]);
    t.deepEqual((await due(store, at, { perHost: 2, limit: 3 })).due, [1, 2, 7]);
    t.deepEqual((await due(store, at, { limit: 0 })).due, []);
  });

  test.serial(`${name}: an account's deliveries are listed page by page in order of id, others take no place in a page`, async (t) => {
    const { store, fence } = await use(t);
    const account = (seq: number): string => (seq % 2 === 1 ? 'account-a' : 'account-b');
    for (const seq of [5, 1, 2, 4, 3])
      await given(store, fence, submit(leased(seq)), completed(seq, { delivery: deliveryOf(seq, { account: account(seq) }) }));
    t.deepEqual(await store.read('deliveryPage', 'account-a', '', 2), [head(1), head(3)]);
    t.deepEqual(await store.read('deliveryPage', 'account-a', deliveryOf(3).id, 2), [head(5)]);
    t.deepEqual(await store.read('newestDeliveries', 'account-a', '', 2), [head(5), head(3)]);
    t.deepEqual(await store.read('newestDeliveries', 'account-a', deliveryOf(3).id, 2), [head(1)]);
    t.deepEqual(await store.read('newestDeliveries', 'account-a', deliveryOf(1).id, 2), []);
    t.deepEqual(await store.read('newestDeliveries', 'account-c', '', 2), []);
    const others = await store.read('deliveryPage', 'account-b', '', 10);
    t.deepEqual(
      others.map(({ id }) => id),
      [deliveryOf(2).id, deliveryOf(4).id],
    );
    t.deepEqual(await store.read('deliveryPage', 'account-c', '', 10), []);
  });

  test.serial(`${name}: another life of a job's id has the newer delivery`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), failed(1, { delivery: deliveryOf(1, { host: 'old' }) }), {
      kind: 'delete',
      seq: 1,
      dueBy: null,
    });
    await given(store, fence, submit({ ...leased(2), id: idOf(1) }), completed(2, { delivery: deliveryOf(1, { dueAt: START + 9_500 }) }));
    t.deepEqual(await store.read('deliveryPage', 'account-a', '', 10), [head(1, { dueAt: START + 9_500 })]);
    t.is(shown((await store.read('delivery', deliveryOf(1).id))?.input ?? null), '{"seq":2}');
    t.deepEqual(await due(store, START + 9_000), { due: [], nextAt: START + 9_500 });
  });

  test.serial(`${name}: an end after a retry is another end, without a lease between`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), failed(1, { delivery: deliveryOf(1) }), {
      kind: 'retry',
      seq: 1,
      queuePosition: 2,
      submittedAt: START,
      deleteAt: START + 1_000,
      pastAttempts: null,
    });
    t.deepEqual(await outcomes(store, fence, cancelledInQueue(1, { token: 1 }), cancelledInQueue(1, { token: 2, output: json(null) })), [
      'stale',
      'ok',
    ]);
  });
}

import test from 'ava';

import { completed, failed, given, deliveryOf, idOf, json, leased, outcomes, queued, queueOf, START, submit, TTL } from './jobs.ts';
import type { Op } from '../../../scheduler/core/ports/store.ts';
import type { Use } from './use.ts';

const remove = (seq: number, dueBy: number | null = null) => ({ kind: 'delete', seq, dueBy }) as const;

export function removalRules(name: string, use: Use): void {
  test.serial(`${name}: delete removes a job in any state with its bodies`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(queued(1)),
      submit(leased(2)),
      submit(leased(3)),
      completed(3, { chunks: [json(1)] }),
      submit(queued(4)),
    );
    t.deepEqual(await outcomes(store, fence, remove(1), remove(2), remove(3), remove(9), remove(1)), ['ok', 'ok', 'ok', 'gone', 'gone']);
    for (const seq of [1, 2, 3]) {
      t.is(await store.read('job', 'endpoint-a', idOf(seq)), null);
      t.is(await store.read('payload', seq), null);
    }
    t.deepEqual(await queueOf(store), [4]);
    t.deepEqual(await store.read('leased', 0, 10), []);
  });

  test.serial(`${name}: a number's chunks do not come back with a job that is given the number of a removed one's id`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), completed(1, { chunks: [json('old')] }), remove(1));
    await given(store, fence, submit({ ...leased(2), id: idOf(1) }), completed(2));
    t.deepEqual((await store.read('job', 'endpoint-a', idOf(1)))?.chunks, []);
  });

  test.serial(`${name}: delete with dueBy spares a job whose time has moved`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1, { deleteAt: 500 })), submit(queued(2, { deleteAt: 501 })));
    t.deepEqual(await outcomes(store, fence, remove(1, 499), remove(2, 500), remove(1, 500), remove(1, 500), remove(2, 501)), [
      'stale',
      'stale',
      'ok',
      'gone',
      'ok',
    ]);
  });

  test.serial(`${name}: due lists in order of time, bounded, and says when the next is due`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(queued(1, { deleteAt: START + 300 })),
      submit(leased(2, { deleteAt: START + 100 })),
      submit(queued(3, { deleteAt: START + 200 })),
      submit(queued(4, { deleteAt: START + 100 })),
    );
    const due = async (wall: number, limit: number) => {
      const { jobs, nextAt } = await store.read('due', wall, limit);
      return { numbers: jobs.map((job) => job.seq), nextAt };
    };
    t.deepEqual(await due(START, 10), { numbers: [], nextAt: START + 100 });
    t.deepEqual(await due(START + 100, 10), { numbers: [2, 4], nextAt: START + 200 });
    t.deepEqual(await due(START + 299, 10), { numbers: [2, 4, 3], nextAt: START + 300 });
    t.deepEqual(await due(START + 300, 2), { numbers: [2, 4], nextAt: START + 200 });
    t.deepEqual(await due(START + 300, 10), { numbers: [2, 4, 3, 1], nextAt: null });
    t.deepEqual((await store.read('due', START + 100, 1)).jobs, [leased(2, { deleteAt: START + 100 })]);
  });

  test.serial(`${name}: an end moves the time of removal, a retry moves it again`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)));
    t.is((await store.read('due', 0, 1)).nextAt, START + 1 + TTL);
    await given(store, fence, failed(1, { deleteAt: START + 60_000 }));
    t.is((await store.read('due', 0, 1)).nextAt, START + 60_000);
    await given(store, fence, {
      kind: 'retry',
      seq: 1,
      queuePosition: 2,
      submittedAt: START + 50_000,
      deleteAt: START + 90_000,
      pastAttempts: null,
    });
    t.is((await store.read('due', 0, 1)).nextAt, START + 90_000);
  });

  test.serial(`${name}: the blobs of a job are found for removal with it`, async (t) => {
    const { store, fence } = await use(t);
    const blob = (id: string) => ({ blob: { id, size: 70_000 } });
    await given(
      store,
      fence,
      submit(leased(1), { input: blob('in') }),
      completed(1, {
        output: blob('out'),
        chunks: [json('x'), blob('chunk-1'), blob('chunk-2')],
        delivery: deliveryOf(1),
      }),
      submit(queued(2)),
    );
    t.deepEqual((await store.read('blobsOf', 1)).toSorted(), ['chunk-1', 'chunk-2', 'in', 'out']);
    t.deepEqual(await store.read('blobsOf', 2), []);
    t.deepEqual(await store.read('blobsOf', 9), []);

    const named = async () => {
      const ids = ['in', 'out', 'chunk-1', 'chunk-2', 'orphan', 'in'];
      return [...new Set(await store.read('blobsNamed', ids))].toSorted();
    };
    t.deepEqual(await named(), ['chunk-1', 'chunk-2', 'in', 'out']);
    await given(store, fence, { kind: 'drain', seq: 1, below: 2 });
    t.deepEqual(await named(), ['chunk-2', 'in', 'out']);
    await given(store, fence, remove(1));
    t.deepEqual(await named(), ['in', 'out'], 'the delivery still needs them');
    await given(store, fence, { kind: 'delivery', id: deliveryOf(1).id, after: 0, to: null });
    t.deepEqual(await named(), []);
    t.deepEqual(await store.read('blobsNamed', []), []);
  });

  test.serial(`${name}: an operation that deletes rows tells the blobs that they named`, async (t) => {
    const { store, fence } = await use(t);
    const blob = (id: string) => ({ blob: { id, size: 70_000 } });
    await given(store, fence, submit(leased(1), { input: blob('in') }));
    await given(
      store,
      fence,
      failed(1, { output: blob('out'), chunks: [json('x'), blob('chunk-1'), blob('chunk-2')], delivery: deliveryOf(1) }),
    );
    const dropped = async (op: Op): Promise<readonly string[] | undefined> => {
      const [outcome] = await store.commit(fence, [op]);
      t.is(outcome?.kind, 'ok');
      return outcome?.kind === 'ok' ? outcome.dropped?.toSorted() : [];
    };
    t.is(await dropped({ kind: 'drain', seq: 1, below: 1 }), undefined);
    t.deepEqual(await dropped({ kind: 'drain', seq: 1, below: 2 }), ['chunk-1']);
    t.deepEqual(await dropped({ kind: 'retry', seq: 1, queuePosition: 2, submittedAt: START, deleteAt: START + TTL, pastAttempts: null }), [
      'chunk-2',
      'out',
    ]);
    t.deepEqual(await dropped(remove(1)), ['in']);
    t.deepEqual(await dropped({ kind: 'delivery', id: deliveryOf(1).id, after: 0, to: null }), ['in', 'out']);
    await given(store, fence, submit(queued(2)));
    t.is(await dropped(remove(2)), undefined);
  });

  test.serial(`${name}: neither number nor position goes back when jobs are removed`, async (t) => {
    const { store, fence, reopen } = await use(t);
    t.deepEqual(await store.read('highest'), { seq: 0, queuePosition: 0 });
    await given(store, fence, submit(queued(1)), submit(queued(2, { endpoint: 'endpoint-b' })), submit(leased(3)), failed(3));
    t.deepEqual(await store.read('highest'), { seq: 3, queuePosition: 3 });
    await given(store, fence, { kind: 'retry', seq: 3, queuePosition: 8, submittedAt: START, deleteAt: START + 10, pastAttempts: null });
    t.deepEqual(await store.read('highest'), { seq: 3, queuePosition: 8 });
    await given(store, fence, remove(3), remove(2));
    t.deepEqual(await store.read('highest'), { seq: 3, queuePosition: 8 });
    t.deepEqual(await (await reopen()).read('highest'), { seq: 3, queuePosition: 8 });
  });

  test.serial(`${name}: the highest position is found in every state`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1, { queuePosition: 20 })), submit(queued(2, { queuePosition: 10, priority: 1 })));
    t.is((await store.read('highest')).queuePosition, 20);
    await given(store, fence, completed(1));
    t.is((await store.read('highest')).queuePosition, 20);
    await given(store, fence, submit(queued(3, { queuePosition: 30, priority: 1 })));
    t.is((await store.read('highest')).queuePosition, 30);
  });
}

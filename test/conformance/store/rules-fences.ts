import test from 'ava';

import { StaleTermError, type WholeJob } from '../../../scheduler/core/ports/store.ts';
import { completed, given, deliveryOf, idOf, jobOf, json, leased, outcomes, queued, queueOf, shownWhole, submit } from './jobs.ts';
import type { Use } from './use.ts';
import { take } from './take.ts';

export function fenceRules(name: string, use: Use): void {
  test.serial(`${name}: the same owner keeps its term, a new owner gets a higher one`, async (t) => {
    const { store } = await use(t);
    const first = await take(store, 'owner-x', 7);
    t.true(first.term > 0n);
    t.deepEqual(await take(store, 'owner-x', 7), first);
    const second = await take(store, 'owner-y', 7);
    t.true(second.term > first.term);
    const third = await take(store, 'owner-x', 7);
    t.true(third.term > second.term);
  });

  test.serial(`${name}: cells have terms of their own`, async (t) => {
    const { store } = await use(t);
    const before = await take(store, 'owner-x', 3);
    await take(store, 'owner-y', 4);
    t.deepEqual(await take(store, 'owner-x', 3), before);
  });

  test.serial(`${name}: a batch under a stale term is refused whole, and the store goes on`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)));
    const next = await take(store, 'owner-b');
    const error = await t.throwsAsync(store.commit(fence, [submit(queued(2))]), { instanceOf: StaleTermError });
    t.regex(error?.message ?? '', new RegExp(`cell 0 .* term ${fence.term}`));
    t.deepEqual(await queueOf(store), [1]);
    t.deepEqual(await outcomes(store, next, submit(queued(3))), ['ok']);
  });

  test.serial(`${name}: a batch under a term that was never given out is refused`, async (t) => {
    const { store, fence } = await use(t);
    await t.throwsAsync(store.commit({ cell: 0, term: fence.term + 1n }, [submit(queued(1))]), { instanceOf: StaleTermError });
    await t.throwsAsync(store.commit({ cell: 9, term: 1n }, [submit(queued(1))]), { instanceOf: StaleTermError });
    await t.throwsAsync(store.commit({ cell: 9, term: 0n }, [submit(queued(1))]), { instanceOf: StaleTermError });
    t.deepEqual(await queueOf(store), []);
  });

  test.serial(`${name}: batches take effect in call order, and a read sees at least those called before it`, async (t) => {
    const { store, fence } = await use(t);
    const answers = await Promise.all([
      store.commit(fence, [submit(queued(1))]),
      store.read('highest'),
      store.commit(fence, [{ kind: 'lease', seq: 1, token: 1, lease: { node: 'n', incarnation: 'i', worker: 'w' } }]),
      store.read('job', 'endpoint-a', idOf(1)),
      store.commit(fence, [completed(1)]),
      store.read('job', 'endpoint-a', idOf(1)),
      store.commit(fence, [{ kind: 'delete', seq: 1, dueBy: null }]),
      store.read('job', 'endpoint-a', idOf(1)),
    ]);
    t.deepEqual(answers[0], [{ kind: 'ok' }]);
    t.deepEqual([answers[2], answers[4], answers[6]], [[{ kind: 'ok' }], [{ kind: 'ok' }], [{ kind: 'ok' }]]);
    t.is(answers[1].seq, 1);
    const states = [undefined, 'IN_QUEUE', 'LEASED', 'COMPLETED', 'deleted'];
    const seen = (answer: WholeJob | null): number => states.indexOf(answer?.job.state ?? 'deleted');
    t.true(seen(answers[3]) >= states.indexOf('LEASED'));
    t.true(seen(answers[5]) >= states.indexOf('COMPLETED'));
    t.is(answers[7], null);
  });

  test.serial(`${name}: a cell that is released is written no more, is read on, and is free at once`, async (t) => {
    const { store, fence } = await use(t);
    const last = store.commit(fence, [submit(queued(1))]);
    await store.release(0);
    t.deepEqual(await last, [{ kind: 'ok' }], 'what was called before is written');
    await t.throwsAsync(store.commit(fence, [submit(queued(2))]), { instanceOf: StaleTermError });
    t.deepEqual(await queueOf(store), [1]);
    const next = await take(store, 'owner-b');
    t.true(next.term > fence.term);
    t.deepEqual(await outcomes(store, next, submit(queued(3))), ['ok']);
    await store.release(0);
    await store.release(0);
    t.true((await take(store, 'owner-b')).term > next.term, 'the same owner gets a new term, too');
  });

  test.serial(`${name}: a wait for an own cell, or a free one, ends at once; the clock is a wall clock`, async (t) => {
    const { store } = await use(t);
    await store.waitForTurn(0, 60_000);
    await store.release(0);
    await store.waitForTurn(0, 60_000);
    const before = Date.now();
    t.true(Math.abs(store.now() - before) < 60_000);
  });

  test.serial(`${name}: an empty batch has no outcomes`, async (t) => {
    const { store, fence } = await use(t);
    t.deepEqual(await store.commit(fence, []), []);
  });

  test.serial(`${name}: a large batch is one batch`, async (t) => {
    const { store, fence } = await use(t);
    const ops = Array.from({ length: 2_000 }, (_, i) => submit(queued(i + 1)));
    t.true((await store.commit(fence, ops)).every((outcome) => outcome.kind === 'ok'));
    t.is((await queueOf(store)).length, 1_000, 'the bound of the read');
    t.is((await store.read('counts'))[0]?.count, 2_000);
  });

  test.serial(`${name}: everything acknowledged is there after a new start`, async (t) => {
    const { store, fence, reopen } = await use(t);
    await given(
      store,
      fence,
      submit(queued(1), { s3: new Uint8Array([1, 2, 3]) }),
      submit(leased(2)),
      submit(leased(3)),
      completed(3, { chunks: [json('c')], delivery: deliveryOf(3) }),
      { kind: 'put', rowKind: 'setting', key: 'k', version: 1, value: '"v"' },
    );
    const before = await store.read('job', 'endpoint-a', idOf(3));

    const again = await reopen();
    t.deepEqual(await jobOf(again, 1), queued(1, { hasS3: true }));
    t.deepEqual([...((await again.read('payload', 1))?.s3 ?? [])], [1, 2, 3]);
    t.deepEqual(await again.read('leased', 0, 10), [leased(2)]);
    t.deepEqual(shownWhole(await again.read('job', 'endpoint-a', idOf(3))), shownWhole(before));
    t.is(
      (await again.read('deliveries', { wall: Number.MAX_SAFE_INTEGER, skipHosts: [], skipIds: [], perHost: 10, limit: 10 })).deliveries
        .length,
      1,
    );
    t.is((await again.read('control', 'setting', '', 10))[0]?.value, '"v"');

    const next = await take(again, 'owner-after');
    t.true(next.term > fence.term, 'terms go on growing');
    await t.throwsAsync(again.commit(fence, []), { instanceOf: StaleTermError });
    t.deepEqual(await outcomes(again, next, completed(2)), ['ok']);
  });

  test.serial(`${name}: hints can be asked for and no longer`, async (t) => {
    const { store } = await use(t);
    const stop = store.onHint(() => undefined);
    stop();
    stop();
    t.pass();
  });

  test.serial(`${name}: a closed store refuses every call and closes twice`, async (t) => {
    const { store, fence } = await use(t);
    const committed = store.commit(fence, [submit(queued(1))]);
    await store.close();
    t.deepEqual(await committed, [{ kind: 'ok' }], 'close drains');
    await t.throwsAsync(store.commit(fence, []), { message: /closed/ });
    await t.throwsAsync(store.read('highest'), { message: /closed/ });
    await t.throwsAsync(store.acquire(0, 'owner-a', 1), { message: /closed/ });
    await t.throwsAsync(store.waitForTurn(0, 60_000), { message: /closed/ });
    await t.throwsAsync(store.release(0), { message: /closed/ });
    await store.close();
  });
}

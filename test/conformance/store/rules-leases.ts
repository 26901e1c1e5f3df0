import test from 'ava';

import { completed, failed, given, jobOf, lease, leaseOf, leased, outcomes, queued, queueOf, shown, START, submit } from './jobs.ts';
import type { Use } from './use.ts';

const started = (seq: number, token = 1) => ({ kind: 'started', seq, token, startedAt: START + 700, attempts: 1, delayMs: 699 }) as const;

export function leaseRules(name: string, use: Use): void {
  test.serial(`${name}: lease takes a queued job out of the queue under the next token`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)), leaseOf(1));
    t.deepEqual(await jobOf(store, 1), leased(1));
    t.deepEqual(await queueOf(store), []);
    t.deepEqual(await store.read('leased', 0, 10), [leased(1)]);
  });

  test.serial(`${name}: lease wants IN_QUEUE and the token one above the row's`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)), submit(queued(2)));
    t.deepEqual(
      await outcomes(store, fence, leaseOf(1, 0), leaseOf(1, 2), leaseOf(9), leaseOf(1, 1), leaseOf(1, 1), leaseOf(1, 2), leaseOf(2)),
      ['stale', 'stale', 'gone', 'ok', 'stale', 'stale', 'ok'],
    );
  });

  test.serial(`${name}: started records the start of the leased attempt`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)), leaseOf(1), started(1));
    t.deepEqual(await jobOf(store, 1), leased(1, { startedAt: START + 700, attempts: 1, delayMs: 699 }));
  });

  test.serial(`${name}: started wants LEASED and the row's token`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)), submit(leased(2)), submit(leased(3)), completed(3));
    t.deepEqual(await outcomes(store, fence, started(1, 0), started(2, 2), started(3, 1), started(9)), ['stale', 'stale', 'stale', 'gone']);
    t.deepEqual(await jobOf(store, 2), leased(2));
  });

  test.serial(`${name}: requeue puts the job back at its old place, and the token stays`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)), submit(queued(2)), submit(queued(3)), leaseOf(1), leaseOf(2), started(1));
    await given(store, fence, { kind: 'requeue', seq: 1, token: 1, attempts: 1, pastAttempts: '["ä 1"]' });
    t.deepEqual(await queueOf(store), [1, 3]);
    const expected = { token: 1, attempts: 1, worker: lease.worker, pastAttempts: '["ä 1"]' };
    t.deepEqual(await jobOf(store, 1), queued(1, expected));
    const [head] = await store.read('head', { endpoint: 'endpoint-a', priority: 0, after: -1, limit: 1, inputLimit: 1_000 });
    t.deepEqual(head?.job, queued(1, expected));
    t.is(shown(head?.input ?? null), '{"seq":1}');
    t.deepEqual(await store.read('leased', 0, 10), [leased(2)]);
  });

  test.serial(`${name}: past attempts stay through a lease, a start and an end, and the next requeue replaces them`, async (t) => {
    const { store, fence } = await use(t);
    const requeue = (token: number, pastAttempts: string) => ({ kind: 'requeue', seq: 1, token, attempts: 1, pastAttempts }) as const;
    const past = async () => (await jobOf(store, 1)).pastAttempts;
    await given(store, fence, submit(leased(1)), requeue(1, '[1]'), leaseOf(1, 2), started(1, 2));
    t.is(await past(), '[1]');
    t.deepEqual(await outcomes(store, fence, requeue(1, '["stale"]'), requeue(2, '[1,2]'), leaseOf(1, 3)), ['stale', 'ok', 'ok']);
    t.deepEqual(
      (await store.read('leased', 0, 10)).map(({ pastAttempts }) => pastAttempts),
      ['[1,2]'],
    );
    await given(store, fence, failed(1, { token: 3 }));
    t.is(await past(), '[1,2]');
    const retry = { kind: 'retry', seq: 1, queuePosition: 5, submittedAt: START + 9_000, deleteAt: START + 99_000 } as const;
    await given(store, fence, { ...retry, pastAttempts: '[1,2,3]' });
    t.is(await past(), '[1,2,3]');
    t.is((await store.read('newest', 'endpoint-a', null, Number.MAX_SAFE_INTEGER, 10))[0]?.pastAttempts, '[1,2,3]');
  });

  test.serial(`${name}: a requeued job is leased under a higher token, and the old token is stale`, async (t) => {
    const { store, fence } = await use(t);
    const other = { node: 'node-b', incarnation: 'incarnation-2', worker: 'worker-2' };
    await given(store, fence, submit(leased(1)), { kind: 'requeue', seq: 1, token: 1, attempts: 0, pastAttempts: null });
    t.deepEqual(await outcomes(store, fence, leaseOf(1, 1, other), leaseOf(1, 2, other)), ['stale', 'ok']);
    t.deepEqual(await jobOf(store, 1), leased(1, { token: 2, lease: other, worker: 'worker-2' }));
    t.deepEqual(
      await outcomes(store, fence, completed(1), started(1), { kind: 'requeue', seq: 1, token: 1, attempts: 0, pastAttempts: null }),
      ['stale', 'stale', 'stale'],
    );
    t.deepEqual(await outcomes(store, fence, completed(1, { token: 2 })), ['ok']);
  });

  test.serial(`${name}: requeue wants LEASED and the row's token`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)), submit(leased(2)), submit(leased(3)), failed(3));
    const requeue = (seq: number, token: number) => ({ kind: 'requeue', seq, token, attempts: 0, pastAttempts: null }) as const;
    t.deepEqual(await outcomes(store, fence, requeue(1, 0), requeue(2, 0), requeue(2, 2), requeue(3, 1), requeue(9, 1)), [
      'stale',
      'stale',
      'stale',
      'stale',
      'gone',
    ]);
  });

  test.serial(`${name}: leased lists by number, after a number, bounded`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, ...[3, 1, 5, 4].map((seq) => submit(leased(seq, { endpoint: `endpoint-${seq}` }))), submit(queued(2)));
    const numbers = async (after: number, limit: number) => (await store.read('leased', after, limit)).map((job) => job.seq);
    t.deepEqual(await numbers(0, 10), [1, 3, 4, 5]);
    t.deepEqual(await numbers(1, 2), [3, 4]);
    t.deepEqual(await numbers(5, 2), []);
    t.deepEqual(await numbers(0, 0), []);
  });

  test.serial(`${name}: a guard that fails leaves the rest of its batch alone`, async (t) => {
    const { store, fence } = await use(t);
    const results = await outcomes(
      store,
      fence,
      submit(queued(1)),
      leaseOf(1, 7),
      submit({ ...queued(2), id: queued(1).id }),
      leaseOf(9),
      submit(queued(3)),
      leaseOf(3),
    );
    t.deepEqual(results, ['ok', 'stale', 'exists', 'gone', 'ok', 'ok']);
    t.deepEqual(await queueOf(store), [1]);
    t.deepEqual(
      (await store.read('leased', 0, 10)).map((job) => job.seq),
      [3],
    );
  });
}

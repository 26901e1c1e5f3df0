import test from 'ava';

import type { JobRow } from '../../../scheduler/core/ports/store.ts';
import {
  cancelledInQueue,
  completed,
  failed,
  given,
  deliveryOf,
  idOf,
  jobOf,
  json,
  lease,
  leaseOf,
  leased,
  outcomes,
  queued,
  queueOf,
  shown,
  shownWhole,
  START,
  submit,
} from './jobs.ts';
import type { Use } from './use.ts';

const endedRow = (seq: number, difference: Partial<JobRow> = {}): JobRow =>
  queued(seq, {
    state: 'COMPLETED',
    token: 1,
    attempts: 1,
    worker: lease.worker,
    endedAt: START + 5_000 + seq,
    deleteAt: START + 5_000 + seq + 1_800_000,
    delayMs: 20,
    executionMs: 30,
    ...difference,
  });

const retry = (seq: number, queuePosition: number) =>
  ({ kind: 'retry', seq, queuePosition, submittedAt: START + 9_000, deleteAt: START + 9_000 + 1_000, pastAttempts: null }) as const;

export function endRules(name: string, use: Use): void {
  test.serial(`${name}: finish ends a leased job with its output`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), completed(1));
    t.deepEqual(shownWhole(await store.read('job', 'endpoint-a', idOf(1))), { job: endedRow(1), output: '{"done":1}', chunks: [] });
    t.deepEqual(await store.read('leased', 0, 10), []);
  });

  test.serial(`${name}: a recorded start stays with the ended job`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(leased(1)),
      { kind: 'started', seq: 1, token: 1, startedAt: START + 21, attempts: 1, delayMs: 20 },
      completed(1),
    );
    t.deepEqual(await jobOf(store, 1), endedRow(1, { startedAt: START + 21 }));
  });

  test.serial(`${name}: every terminal state is reached from LEASED and from IN_QUEUE`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(leased(1)),
      submit(leased(2)),
      submit(leased(3)),
      submit(queued(4)),
      failed(1, { error: 'boom', output: json({ partial: true }) }),
      completed(2, { state: 'TIMED_OUT', error: 'executionTimeout exceeded', output: null }),
      completed(3, { state: 'CANCELLED', output: null }),
      cancelledInQueue(4),
    );
    const first = await store.read('job', 'endpoint-a', idOf(1));
    t.is(first?.job.state, 'FAILED');
    t.is(first?.job.error, 'boom');
    t.is(shown(first?.output ?? null), '{"partial":true}');
    t.is((await jobOf(store, 2)).error, 'executionTimeout exceeded');
    t.is((await jobOf(store, 3)).state, 'CANCELLED');
    t.deepEqual(
      await jobOf(store, 4),
      endedRow(4, { state: 'CANCELLED', token: 0, attempts: 0, worker: null, delayMs: null, executionMs: null }),
    );
    t.deepEqual(await queueOf(store), []);
  });

  test.serial(`${name}: a result that came while the job waited again ends it under the row's token`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), { kind: 'requeue', seq: 1, token: 1, attempts: 1, pastAttempts: null });
    t.deepEqual(await outcomes(store, fence, completed(1, { from: 'IN_QUEUE', token: 0 }), completed(1, { from: 'IN_QUEUE', token: 1 })), [
      'stale',
      'ok',
    ]);
  });

  test.serial(`${name}: finish wants the state and token it names`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)), submit(leased(2)));
    t.deepEqual(
      await outcomes(
        store,
        fence,
        completed(1, { token: 0 }),
        completed(1, { from: 'IN_QUEUE', token: 1 }),
        completed(2, { token: 0 }),
        completed(2, { token: 2 }),
        completed(2, { from: 'IN_QUEUE' }),
        completed(9),
      ),
      ['stale', 'stale', 'stale', 'stale', 'stale', 'gone'],
    );
    t.deepEqual(await jobOf(store, 1), queued(1));
    t.deepEqual(await jobOf(store, 2), leased(2));
  });

  test.serial(`${name}: an end is final: no second end, lease, start or requeue`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), completed(1));
    t.deepEqual(
      await outcomes(
        store,
        fence,
        failed(1),
        completed(1),
        leaseOf(1, 2),
        { kind: 'started', seq: 1, token: 1, startedAt: START, attempts: 1, delayMs: 0 },
        { kind: 'requeue', seq: 1, token: 1, attempts: 0, pastAttempts: null },
        cancelledInQueue(1, { token: 1 }),
      ),
      ['stale', 'stale', 'stale', 'stale', 'stale', 'stale'],
    );
    t.is(shown((await store.read('job', 'endpoint-a', idOf(1)))?.output ?? null), '{"done":1}');
  });

  test.serial(`${name}: a refused end writes neither chunks nor a delivery`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)));
    t.deepEqual(await outcomes(store, fence, completed(1, { token: 2, chunks: [json(1)], delivery: deliveryOf(1) })), ['stale']);
    t.deepEqual(await store.read('deliveries', { wall: Number.MAX_SAFE_INTEGER, skipHosts: [], skipIds: [], perHost: 10, limit: 10 }), {
      deliveries: [],
      nextAt: null,
    });
    await given(store, fence, completed(1));
    t.deepEqual((await store.read('job', 'endpoint-a', idOf(1)))?.chunks, []);
  });

  test.serial(`${name}: unread chunks are kept in order and drained from the front`, async (t) => {
    const { store, fence } = await use(t);
    const chunks = [json('a'), { blob: { id: 'blob-b', size: 900_000 } }, json('c'), json('d')];
    await given(store, fence, submit(leased(1)), completed(1, { chunks, output: null }));
    const kept = async () => (await store.read('job', 'endpoint-a', idOf(1)))?.chunks.map(shown);
    t.deepEqual(await kept(), ['"a"', { blob: { id: 'blob-b', size: 900_000 } }, '"c"', '"d"']);

    t.deepEqual(await outcomes(store, fence, { kind: 'drain', seq: 1, below: 1 }), ['ok']);
    t.deepEqual(await kept(), [{ blob: { id: 'blob-b', size: 900_000 } }, '"c"', '"d"']);
    t.deepEqual(await outcomes(store, fence, { kind: 'drain', seq: 1, below: 3 }, { kind: 'drain', seq: 1, below: 2 }), ['ok', 'ok']);
    t.deepEqual(await kept(), ['"d"']);
    t.deepEqual(await outcomes(store, fence, { kind: 'drain', seq: 1, below: 5 }, { kind: 'drain', seq: 1, below: 5 }), ['ok', 'ok']);
    t.deepEqual(await kept(), []);
  });

  test.serial(`${name}: kept chunks keep their place in the stream`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), completed(1, { chunks: [json('d'), json('e'), json('f')], firstChunk: 3 }));
    const kept = async () => {
      const whole = await store.read('job', 'endpoint-a', idOf(1));
      return [whole?.firstChunk, whole?.chunks.map(shown)];
    };
    t.deepEqual(await kept(), [3, ['"d"', '"e"', '"f"']]);
    t.deepEqual(await outcomes(store, fence, { kind: 'drain', seq: 1, below: 3 }), ['ok']);
    t.deepEqual(await kept(), [3, ['"d"', '"e"', '"f"']]);
    t.deepEqual(await outcomes(store, fence, { kind: 'drain', seq: 1, below: 5 }), ['ok']);
    t.deepEqual(await kept(), [5, ['"f"']]);
    t.deepEqual(await outcomes(store, fence, { kind: 'drain', seq: 1, below: 6 }), ['ok']);
    t.deepEqual(await kept(), [0, []]);
  });

  test.serial(`${name}: only an ended job is drained`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), submit(queued(2)));
    t.deepEqual(
      await outcomes(
        store,
        fence,
        { kind: 'drain', seq: 1, below: 1 },
        { kind: 'drain', seq: 2, below: 1 },
        { kind: 'drain', seq: 9, below: 1 },
      ),
      ['stale', 'stale', 'gone'],
    );
  });

  test.serial(`${name}: retry puts a failed or timed-out job at the tail with nothing of its old end`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(leased(1)),
      submit(leased(2)),
      submit(queued(3)),
      failed(1, { chunks: [json('x'), json('y')], output: { blob: { id: 'blob-1', size: 80_000 } } }),
      completed(2, { state: 'TIMED_OUT', error: 'executionTimeout exceeded', output: null }),
      retry(2, 10),
      retry(1, 11),
    );
    t.deepEqual(await queueOf(store), [3, 2, 1]);
    const expected = queued(1, { queuePosition: 11, token: 2, submittedAt: START + 9_000, deleteAt: START + 10_000 });
    t.deepEqual(shownWhole(await store.read('job', 'endpoint-a', idOf(1))), { job: expected, output: null, chunks: [] });
    t.deepEqual(await store.read('blobsNamed', ['blob-1']), []);
    t.is(shown((await store.read('payload', 1))?.input ?? null), '{"seq":1}', 'the input stays');
  });

  test.serial(`${name}: after a retry the token goes on growing and a new end has only its own chunks`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)), failed(1, { chunks: [json('old-1'), json('old-2')] }), retry(1, 2));
    t.deepEqual(await outcomes(store, fence, leaseOf(1, 2), leaseOf(1, 3)), ['stale', 'ok']);
    await given(store, fence, completed(1, { token: 3, chunks: [json('new')] }));
    t.deepEqual((await store.read('job', 'endpoint-a', idOf(1)))?.chunks.map(shown), ['"new"']);
  });

  test.serial(`${name}: retry is stale in every other state and gone without a job`, async (t) => {
    const { store, fence } = await use(t);
    await given(
      store,
      fence,
      submit(queued(1)),
      submit(leased(2)),
      submit(leased(3)),
      completed(3),
      submit(queued(4)),
      cancelledInQueue(4),
    );
    t.deepEqual(await outcomes(store, fence, retry(1, 10), retry(2, 11), retry(3, 12), retry(4, 13), retry(9, 14)), [
      'stale',
      'stale',
      'stale',
      'stale',
      'gone',
    ]);
  });

  test.serial(`${name}: texts that user code makes are kept, whatever they hold`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)));
    const error = 'a\0b \u{1f600} \ud800 \'"\\ {1,2} \n';
    t.deepEqual(await outcomes(store, fence, failed(1, { error, delivery: deliveryOf(1, { envelope: JSON.stringify({ error }) }) })), [
      'ok',
    ]);
    const kept = (await store.read('job', 'endpoint-a', idOf(1)))?.job.error ?? '';
    // A NUL and half a surrogate pair are no characters of UTF-8 text everywhere; all others stay.
    t.is(kept.replaceAll(/[\0\ufffd\ud800]/g, ''), error.replaceAll(/[\0\ud800]/g, ''));
    t.is((await store.read('delivery', deliveryOf(1).id))?.envelope, JSON.stringify({ error }));
    t.is(await store.read('job', 'endpoint-a', 'no\0such'), null);
  });
}

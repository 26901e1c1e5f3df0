/** What happens to callers when the store thread cannot go on: every call ends, with a reason. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';

import test from 'ava';

import { openSqliteStore, SqliteClient } from '../../../scheduler/store/sqlite/client.ts';
import type { Fence, Op } from '../../../scheduler/core/ports/store.ts';
import { completed, idOf, leaseOf, queued, queueOf, submit } from './jobs.ts';
import { take } from './take.ts';
import { folderOf } from '../../support/folder.ts';

const fence: Fence = { cell: 0, term: 1n };

/** A thread that answers that it is open and then does `then` with each question. */
function standIn(then: string): Worker {
  return new Worker(
    `const { parentPort } = require('node:worker_threads'); parentPort.postMessage(null); parentPort.on('message', () => { ${then} });`,
    {
      eval: true,
    },
  );
}

for (const [how, then, message] of [
  ['exits', 'process.exit(3)', /its thread ended: exit code 3/],
  ['throws', "throw new Error('out of luck')", /its thread ended: out of luck/],
] as const) {
  test(`when the thread ${how}, calls under way and later ones reject`, async (t) => {
    const store = new SqliteClient(standIn(then), { file: 'test.db' });
    await store.opened;
    const calls = [store.commit(fence, [submit(queued(1))]), store.read('highest'), store.acquire(0, 'owner', 1), store.commit(fence, [])];
    for (const call of calls) await t.throwsAsync(call, { code: 'INTERNAL', message });
    await t.throwsAsync(store.commit(fence, []), { message });
    await t.throwsAsync(store.read('highest'), { message });
    await store.close();
  });
}

test('after a batch that could not be written, nothing that was made after it is', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const store = await openSqliteStore({ file });
  const own = await take(store);
  const calls = await Promise.allSettled([
    store.commit(own, [submit(queued(1))]),
    store.commit(own, [submit(queued(2)), submit(queued(3, { state: 'COMPLETED' }))]),
    store.commit(own, [submit(queued(4))]),
    store.read('highest'),
  ]);
  t.deepEqual(
    calls.map((call) => call.status),
    ['fulfilled', 'rejected', 'rejected', 'rejected'],
  );
  await t.throwsAsync(store.commit(own, [submit(queued(5))]), { code: 'INTERNAL', message: /writing the batch failed/ });
  await store.close();

  const again = await openSqliteStore({ file });
  t.teardown(() => again.close());
  t.deepEqual(await queueOf(again), [1]);
});

test('a batch that cannot be packed rejects, and so does what follows', async (t) => {
  const store = await openSqliteStore({ file: join(await folderOf(t), 'capstan.db') });
  t.teardown(() => store.close());
  const own = await take(store);
  const malformed = { kind: 'submit', job: queued(1) } as unknown as Op;
  await t.throwsAsync(store.commit(own, [malformed]), { code: 'INTERNAL', message: /encoding the batch failed/ });
  await t.throwsAsync(store.commit(own, []), { message: /encoding the batch failed/ });
});

test('more calls under way than answers kept are all answered, in order', async (t) => {
  const store = await openSqliteStore({ file: join(await folderOf(t), 'capstan.db'), checkpointPages: 10 });
  t.teardown(() => store.close());
  const own = await take(store);
  const answered: number[] = [];
  await Promise.all(
    Array.from({ length: 3_000 }, async (_, i) => {
      await store.commit(own, [submit(queued(i + 1))]);
      answered.push(i);
    }),
  );
  t.deepEqual(answered, [...Array(3_000).keys()]);
  t.is((await store.read('counts'))[0]?.count, 3_000);
});

test('the write-ahead log is copied into the database as it grows', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const store = await openSqliteStore({ file, checkpointPages: 50 });
  t.teardown(() => store.close());
  const own = await take(store);
  for (let i = 1; i <= 300; i++) await store.commit(own, [submit(queued(i), { input: { inline: new Uint8Array(20_000) } })]);
  await store.read('highest');
  // Six MB were written; the log begins anew once it was copied whole.
  t.true((await stat(`${file}-wal`)).size < 1_000_000);
  t.true((await stat(file)).size > 5_000_000);
});

test('a read sees the batches that were called before it, and none after', async (t) => {
  const store = await openSqliteStore({ file: join(await folderOf(t), 'capstan.db') });
  t.teardown(() => store.close());
  const own = await take(store);
  const states = await Promise.all([
    store.commit(own, [submit(queued(1))]),
    store.read('job', 'endpoint-a', idOf(1)),
    store.commit(own, [leaseOf(1)]),
    store.read('job', 'endpoint-a', idOf(1)),
    store.commit(own, [completed(1)]),
    store.read('job', 'endpoint-a', idOf(1)),
    store.commit(own, [{ kind: 'delete', seq: 1, dueBy: null }]),
    store.read('job', 'endpoint-a', idOf(1)),
  ]);
  t.deepEqual(
    [states[1], states[3], states[5], states[7]].map((found) => found?.job.state ?? null),
    ['IN_QUEUE', 'LEASED', 'COMPLETED', null],
  );
});

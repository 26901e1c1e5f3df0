/** A scheduler commits hundreds of batches a second for months: the store holds nothing of a batch that was answered. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import test from 'ava';

import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { queued, submit } from './jobs.ts';
import { take } from './take.ts';

await withPostgres('postgres-memory', tests);

function tests(server: PostgresServer): void {
  test('the outcomes of a batch go when nobody holds them', async (t) => {
    const store = await openPostgresStore({ url: await server.newDatabase() });
    t.teardown(() => store.close());
    const fence = await take(store);
    const outcomes: WeakRef<object>[] = [];
    for (let seq = 1; seq <= 20; seq++) outcomes.push(new WeakRef(await store.commit(fence, [submit(queued(seq))])));
    await store.commit(fence, []);
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    // What a job of the event loop has looked at stays until its end.
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    t.true(outcomes.filter((each) => each.deref() !== undefined).length <= 1);
  });
}

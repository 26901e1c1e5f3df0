/** Bad days of the PostgreSQL driver: what is in doubt is settled by a new term, and nothing is written twice or by a former owner. */
import test, { type ExecutionContext } from 'ava';
import { Client } from 'pg';

import { openPostgresStore, type PostgresOptions, type PostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { COMMIT_FUNCTION } from '../../../scheduler/store/postgres/sql/batch.ts';
import { StaleTermError, type Fence } from '../../../scheduler/core/ports/store.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { queued, queueOf, submit } from './jobs.ts';
import { take } from './take.ts';

/** Shorter than in production, so that the tests wait less; long enough for a busy machine. */
const ANSWER_MS = 2_000;
const OTHERS = "datname = current_database() AND application_name LIKE 'capstan cell %'";
await withPostgres('postgres', tests);

interface World {
  readonly url: string;
  readonly store: PostgresStore;
  readonly fence: Fence;
  /** Runs SQL on a connection that stays. */
  readonly sql: (text: string) => Promise<unknown>;
  /** A further store on the same database. */
  readonly another: (options?: Partial<PostgresOptions>) => Promise<PostgresStore>;
}

function tests(server: PostgresServer): void {
  async function world(t: ExecutionContext): Promise<World> {
    const url = await server.newDatabase();
    const another = async (options: Partial<PostgresOptions> = {}): Promise<PostgresStore> => {
      const store = await openPostgresStore({ url, answerMs: ANSWER_MS, ...options });
      t.teardown(() => store.close());
      return store;
    };
    const store = await another();
    const client = new Client({ connectionString: url, application_name: 'capstan cell 0 test' });
    client.on('error', () => undefined);
    await client.connect();
    t.teardown(() => client.end());
    return { url, store, fence: await take(store), sql: (text) => client.query(text), another };
  }

  test('a search beyond its time is ended by the server and refused, and batches go on', async (t) => {
    const { another, sql } = await world(t);
    const store = await another({ searchMs: 100 });
    await sql('BEGIN; LOCK TABLE capstan.history IN ACCESS EXCLUSIVE MODE');
    const range = { endpoint: 'endpoint-a', step: 10, from: 0, until: 1 };
    await t.throwsAsync(store.history.read(range), { code: 'UNAVAILABLE', message: /statement timeout/ });
    t.deepEqual(await store.search('newest', 'endpoint-a', null, 1, 1), []);
    await sql('COMMIT');
    t.deepEqual(await store.history.read(range), []);
  });

  test('a batch without an answer is in doubt: a new term settles it, and it is not written later', async (t) => {
    const { store, fence, sql } = await world(t);
    await store.commit(fence, [submit(queued(1))]);
    await sql('BEGIN');
    await sql('SELECT 1 FROM capstan.cells FOR UPDATE');
    const [first, second] = await Promise.allSettled([store.commit(fence, [submit(queued(2))]), store.commit(fence, [submit(queued(3))])]);
    for (const each of [first, second]) t.is(each.status === 'rejected' && (each.reason as { code?: string }).code, 'UNAVAILABLE');
    await t.throwsAsync(store.commit(fence, []), { code: 'UNAVAILABLE' }, 'refused until the cell is taken anew');
    // The row is still locked: whoever holds it is ended.
    const next = await take(store);
    t.true(next.term > fence.term);
    t.deepEqual(await queueOf(store), [1]);
    await t.throwsAsync(store.commit(fence, [submit(queued(4))]), { instanceOf: StaleTermError });
    await store.commit(next, [submit(queued(5))]);
    t.deepEqual(await queueOf(store), [1, 5]);
  });

  test('a broken connection is told at once, and the next term goes on', async (t) => {
    const { store, fence, url } = await world(t);
    await store.commit(fence, [submit(queued(1))]);
    const told = new Promise<number>((resolve) => store.onHint(resolve));
    await server.query(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${OTHERS}`);
    t.is(await told, 0);
    await t.throwsAsync(store.commit(fence, [submit(queued(2))]), { code: 'UNAVAILABLE' });
    await store.commit(await take(store), [submit(queued(3))]);
    t.deepEqual(await queueOf(store), [1, 3]);
  });

  test('an owner that commits keeps its cell; one whose term stands still loses it, and writes no more', async (t) => {
    const { store: first, fence, another } = await world(t);
    await first.close();
    // As if it were paused: it renews nothing, and its connection and lock stay.
    const store = await another({ renewMs: 1_000_000 });
    const own = await take(store);
    t.true(own.term > fence.term);
    const standby = await another();
    t.like(await standby.acquire(0, 'owner-b', 1), { heldBy: 'another scheduler (owner-a)' });
    const next = await take(standby, 'owner-b');
    t.true(next.term > own.term);
    await t.throwsAsync(store.commit(own, [submit(queued(1))]));
    await standby.commit(next, [submit(queued(2))]);
    t.deepEqual(await queueOf(standby), [2]);
  });

  test('a copy of a batch that arrives late is refused by the database', async (t) => {
    const { store, fence, sql } = await world(t);
    await store.commit(fence, [submit(queued(1))]);
    const call = (batch: number): Promise<unknown> =>
      sql(`SELECT * FROM capstan.${COMMIT_FUNCTION}(0, ${fence.term}, ${batch}, 0, 0, 0, '{}', false, 0,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`);
    await t.throwsAsync(call(1), { message: /batch 1 is out of turn/ });
    await t.throwsAsync(call(3), { message: /batch 3 is out of turn/ });
  });

  test('a batch that the database refuses is an error of ours, and nothing after it is written', async (t) => {
    const { store, fence } = await world(t);
    const calls = await Promise.allSettled([
      store.commit(fence, [submit(queued(1))]),
      store.commit(fence, [submit(queued(2)), submit(queued(3)), submit(queued(3, { id: 'another-id' }))]),
      store.commit(fence, [submit(queued(4))]),
    ]);
    t.deepEqual(
      calls.map((call) => (call.status === 'fulfilled' ? 'ok' : (call.reason as { code?: string }).code)),
      ['ok', 'INTERNAL', 'INTERNAL'],
    );
    await take(store);
    t.deepEqual(await queueOf(store), [1]);
  });

  test('a connection for reading that breaks while it is made fails one read, and the next one goes on', async (t) => {
    const { another, url } = await world(t);
    const proxy = await TcpProxy.open(t, server.port);
    const through = new URL(url);
    through.port = String(proxy.port);
    for (const sent of ['user\0', 'pg_is_in_recovery', 'capstan.jobs']) {
      const store = await another({ url: through.href });
      const search = (): Promise<unknown[]> => store.search('newest', 'endpoint-a', null, 1, 1);
      const cut = proxy.cutAt(sent);
      await t.throwsAsync(search(), { code: 'UNAVAILABLE' }, sent);
      await cut;
      t.deepEqual(await search(), [], sent);
    }
  });

  test('a schema of a newer version is refused, and another program’s is not touched', async (t) => {
    const { store, url } = await world(t);
    await store.close();
    await server.query(url, "INSERT INTO capstan.migrations (number, name) VALUES (999, 'later')");
    await t.throwsAsync(openPostgresStore({ url }), { code: 'DATA_NEWER', message: /its schema is version 999/ });
    const foreign = await server.newDatabase();
    await server.query(foreign, 'CREATE SCHEMA capstan; CREATE TABLE capstan.t ()');
    await t.throwsAsync(openPostgresStore({ url: foreign }), { code: 'CONFIG', message: /belongs to another program/ });
  });

  test('two schedulers that find an empty database make one schema', async (t) => {
    const url = await server.newDatabase();
    const stores = await Promise.all([openPostgresStore({ url }), openPostgresStore({ url }), openPostgresStore({ url })]);
    t.is(stores.length, 3);
    await Promise.all(stores.map((store) => store.close()));
  });
}

/** Who owns a cell of PostgreSQL: how it changes hands, and who may not have it. */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { openPostgresStore, type PostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { migrations } from '../../../scheduler/store/postgres/migrations/all.ts';
import { bitOf, OPERATION_TYPES, type OperationType } from '../../../scheduler/store/postgres/sql/batch.ts';
import { StaleTermError } from '../../../scheduler/core/ports/store.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { completed, given, deliveryOf, jobOf, json, leased, leaseOf, outcomes, queued, queueOf, submit } from './jobs.ts';
import { END_WRITERS, eventually, LOCKS, Told, worldOf, WRITERS } from './postgres-world.ts';
import { take } from './take.ts';

const MINUTE = 60_000;
const HOUR = 3_600_000;
/** The session that waits for the cell's lock has sent its request. */
const IS_WAITED_FOR = `SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

await withPostgres('postgres', tests);

function tests(server: PostgresServer): void {
  test('a standby that waits has the cell as soon as the owner’s session ends', async (t) => {
    const { sql, fence, another } = await worldOf(t, server);
    const told = new Told();
    const standby = await another({ watcher: told });
    t.like(await standby.acquire(0, 'owner-b', 1), { heldBy: 'another scheduler (owner-a)' });
    const turn = standby.waitForTurn(0, 10 * MINUTE);
    await eventually(sql, IS_WAITED_FOR);
    await sql(`${END_WRITERS} AND wait_event_type <> 'Lock'`);
    await turn;
    const taken = await standby.acquire(0, 'owner-b', 1);
    t.true('term' in taken && taken.term > fence.term);
    t.deepEqual(told.events, ['taken lock']);
  });

  test('a cell that is released goes to the standby that waits, while its last owner reads on', async (t) => {
    const { store, fence, sql, another } = await worldOf(t, server);
    const standby = await another();
    const turn = standby.waitForTurn(0, 10 * MINUTE);
    await eventually(sql, IS_WAITED_FOR);
    const last = store.commit(fence, [submit(queued(1))]);
    await store.release(0);
    await turn;
    const next = await standby.acquire(0, 'owner-b', 1);
    t.true('term' in next && next.term > fence.term);
    t.deepEqual(await last, [{ kind: 'ok' }]);
    t.deepEqual(await queueOf(store), [1]);
    await t.throwsAsync(store.commit(fence, []), { instanceOf: StaleTermError });
    t.like(await store.acquire(0, 'owner-a', 1), { heldBy: 'another scheduler (owner-b)' });
    await standby.release(0);
    t.like(await sql(LOCKS), [{ n: 0 }], 'the wait and the take-over took it once');
  });

  test('bodies in rows that an owner of the version before wrote or removed are counted when the cell is taken', async (t) => {
    const { store, fence, sql, another } = await worldOf(t, server);
    await given(
      store,
      fence,
      { kind: 'put', rowKind: 'endpoint', key: 'endpoint-a', version: 1, value: '{"account":"account-a"}' },
      submit(leased(1)),
      submit(leased(2)),
      completed(2, { output: json('output'), chunks: [json('chunk')], delivery: deliveryOf(2) }),
    );
    // 14 bytes of each input, 13 of the output, 12 of the chunk; the delivery has copies of input and output.
    t.deepEqual(await store.read('bodyUsage'), [{ account: 'account-a', bytes: 14 + 2 * (14 + 13) + 12 }]);
    await store.close();
    await sql(`SELECT capstan.commit_v4(0, ${fence.term}, 2, 0, 0, 0, '{${bitOf('delete')}}', false, 0,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ARRAY[ROW(0, 1, 1, NULL)::capstan.delete_v1], NULL, NULL, NULL)`);
    const next = await another();
    const taken = await take(next, 'owner-b');
    t.deepEqual(await next.read('bodyUsage'), [{ account: 'account-a', bytes: 2 * (14 + 13) + 12 }]);
    await given(next, taken, { kind: 'delete', seq: 2, dueBy: null }, { kind: 'delivery', id: deliveryOf(2).id, after: null, to: null });
    t.deepEqual(await next.read('bodyUsage'), []);
    t.like(await sql('SELECT counted_batch = batch AS "isCounted" FROM capstan.cells'), [{ isCounted: true }]);
  });

  test('the address of the owner is told, if it said one', async (t) => {
    const { store, another } = await worldOf(t, server, { advertised: () => 'a.example:7070' });
    const standby = await another();
    t.deepEqual(await standby.acquire(0, 'owner-b', 1), { heldBy: 'a.example:7070', address: 'a.example:7070' });
    await store.close();
    await take(standby, 'owner-b');
    const third = await another();
    t.deepEqual(await third.acquire(0, 'owner-c', 1), { heldBy: 'another scheduler (owner-b)' });
  });

  test('a scheduler that lost its cell by its term keeps no lock', async (t) => {
    const { store, fence, sql, told, another } = await worldOf(t, server);
    await sql('UPDATE capstan.cells SET term = term + 1');
    await Promise.all([0, 1, 2].map(() => t.throwsAsync(store.commit(fence, []), { instanceOf: StaleTermError })));
    await eventually(sql, `SELECT count(*) = 0 FROM pg_stat_activity WHERE ${WRITERS}`);
    t.deepEqual(told.events, ['taken first', 'lost stale']);
    const watched = new Told();
    await take(await another({ watcher: watched }), 'owner-b');
    t.deepEqual(watched.events, ['taken lock'], 'the next one need not wait until it is silent');
  });

  test('a batch under a former term of the same process does not end the present one', async (t) => {
    const { store, fence, sql } = await worldOf(t, server);
    const hints: number[] = [];
    store.onHint((cell) => hints.push(cell));
    const other = await take(store, 'owner-c');
    await t.throwsAsync(store.commit(fence, []), { instanceOf: StaleTermError });
    await sql('SELECT 1');
    t.deepEqual(hints, []);
    t.deepEqual(await outcomes(store, other, submit(queued(1))), ['ok']);
  });

  test('the fence holds in the database: a stale batch, or one out of turn, raises instead of writing nothing', async (t) => {
    const { fence, sql, store } = await worldOf(t, server);
    const call = (term: bigint, batch: number): Promise<unknown> =>
      sql(`SELECT * FROM capstan.commit_v5(0, ${term}, ${batch}, 0, 0, 0, '{}', false, 0,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`);
    for (const [term, batch] of [
      [fence.term - 1n, 1],
      [fence.term + 1n, 1],
      [fence.term, 0],
      [fence.term, 2],
    ] as const)
      await t.throwsAsync(call(term, batch), { code: 'CT001' });
    t.deepEqual(await outcomes(store, fence, submit(queued(1))), ['ok']);
  });

  test('schedulers of earlier versions work on, and leave past attempts as they are', async (t) => {
    const { fence, sql, store } = await worldOf(t, server);
    const past = { pastAttempts: '[1]' } as const;
    await store.commit(fence, [submit(leased(1)), { kind: 'requeue', seq: 1, token: 1, attempts: 1, ...past }, leaseOf(1, 2)]);
    for (const [i, version] of [1, 2].entries()) {
      const types = OPERATION_TYPES.map((type) => {
        if (type === 'requeue') return `ARRAY[ROW(0, 1, 1, ${2 + i}, 1)::capstan.requeue_v1]`;
        return type === 'lease' ? `ARRAY[ROW(1, 2, 1, ${3 + i}, 'n', 'i', 'w')::capstan.lease_v1]` : 'NULL';
      });
      const waves = `{${bitOf('requeue')},${bitOf('lease')}}`;
      const call = `SELECT * FROM capstan.commit_v${version}(0, ${fence.term}, ${2 + i}, 0, 0, 0, '${waves}', false, 0, ${types.join(', ')})`;
      t.deepEqual(await sql(call), []);
      t.like(await jobOf(store, 1), { ...past, state: 'LEASED', token: 3 + i, attempts: 1 });
    }
  });

  for (const version of [1, 2, 3])
    test(`schedulers that call commit_v${version} keep the table of webhook hosts that they read`, async (t) => {
      const { fence, sql, store, another } = await worldOf(t, server);
      await given(store, fence, ...[1, 2, 3].map((seq) => submit(leased(seq))));
      let batch = 1;
      const call = (type: 'finish' | 'hook', rows: Partial<Record<OperationType, string>>): Promise<unknown> => {
        const arrays = OPERATION_TYPES.map((each) => (rows[each] === undefined ? 'NULL' : `ARRAY[${rows[each]}]`));
        return sql(
          `SELECT * FROM capstan.commit_v${version}(0, ${fence.term}, ${++batch}, 0, 0, 0, '{${bitOf(type)}}', false, 0, ${arrays.join(', ')})`,
        );
      };
      const end = (seq: number, dueAt: number): Promise<unknown> =>
        call('finish', {
          finish: `ROW(0, 1, ${seq}, 1, 'LEASED', 'COMPLETED', 5, 9, 1, 1, 1, NULL, NULL, NULL, NULL, 0)::capstan.finish_v1`,
          new_hook: `ROW(0, 1, ${seq}, 'w-${seq}', 'a', 'e', 'https://h', 'h', '{}', ${dueAt}, NULL, NULL, NULL)::capstan.new_hook_v1`,
        });
      const change = (seq: number, to: string): Promise<unknown> =>
        call('hook', { hook: `ROW(0, 1, 'w-${seq}', NULL, ${to})::capstan.hook_v1` });
      const hosts = async (): Promise<unknown[]> =>
        (await sql<{ host: string; at: number }>('SELECT host, next_at::int AS at FROM capstan.hook_hosts')).map(({ host, at }) => [
          host,
          at,
        ]);

      t.deepEqual(await end(1, 10), []);
      await end(2, 20);
      t.deepEqual(await hosts(), [['h', 10]]);
      await change(1, "'PENDING', 30, 1, 'refused'");
      t.deepEqual(await hosts(), [['h', 20]]);
      await change(2, 'NULL, NULL, NULL, NULL');
      t.deepEqual(await hosts(), [['h', 30]]);
      await change(1, 'NULL, NULL, NULL, NULL');
      t.deepEqual(await hosts(), []);
      // The next owner, of this version, finds the deliveries without the table.
      await end(3, 40);
      await store.close();
      const next = await another();
      await take(next, 'owner-b');
      await sql('DELETE FROM capstan.hook_hosts');
      const due = await next.read('deliveries', { wall: 40, skipHosts: [], skipIds: [], perHost: 1, limit: 1 });
      t.deepEqual(
        due.deliveries.map(({ id }) => id),
        ['w-3'],
      );
    });

  test('of several standbys of a silent owner one gets the cell, and the others learn whose it is', async (t) => {
    const { another, fence } = await worldOf(t, server);
    const owners = new Set<string>();
    const contend = async (name: string): Promise<void> => {
      const store = await another({ advertised: () => `${name}:1`, renewMs: 100 });
      for (;;) {
        const taken = await store.acquire(0, name, 1);
        if ('term' in taken) {
          t.true(taken.term > fence.term);
          owners.add(`${name}:1`);
          return;
        }
        if (owners.size > 0 && taken.address !== undefined) {
          t.true(owners.has(taken.address));
          return;
        }
        await store.waitForTurn(0, 500);
      }
    };
    await Promise.all(['b', 'c', 'd'].map(contend));
    t.is(owners.size, 1);
  });

  test('a database that was restored to an earlier point is an alarm, and is not taken over', async (t) => {
    const { url, store, fence, told, sql } = await worldOf(t, server);
    const { endAll, backUp, restore } = copiesOf(url);
    const lost = (): Promise<number> => new Promise((resolve) => store.onHint(resolve));
    await store.commit(fence, [submit(queued(1))]);

    let hint = lost();
    await endAll();
    await hint;
    await backUp();
    const next = await take(store);
    await store.commit(next, [submit(queued(2))]);
    hint = lost();
    await restore();
    await hint;

    const error = await t.throwsAsync(store.acquire(0, 'owner-a', 1), { code: 'DATA_LOST' });
    t.regex(error?.message ?? '', new RegExp(`is at term ${fence.term}, batch 1, but term ${next.term}, batch 2 was acknowledged`));
    t.deepEqual(told.events.slice(-2), ['lost doubt', 'behind']);
    await t.throwsAsync(store.commit(next, []), { code: 'DATA_LOST' });
    await t.throwsAsync(sql('SELECT 1'));
    // Whoever starts anew, after somebody has looked, goes on from what there is.
    const after = await openPostgresStore({ url });
    t.teardown(() => after.close());
    await take(after, 'owner-b');
    t.deepEqual(await queueOf(after), [1]);
  });

  test('a standby does not take over a database that lacks what it saw of the owner', async (t) => {
    const { url, store, fence, another } = await worldOf(t, server);
    const { endAll, backUp, restore } = copiesOf(url);
    await store.commit(fence, [submit(queued(1))]);
    await store.close();
    await endAll();
    await backUp();
    const owner = await another();
    const term = await take(owner, 'owner-b');
    await owner.commit(term, [submit(queued(2))]);
    const told = new Told();
    const standby = await another({ watcher: told });
    t.like(await standby.acquire(0, 'owner-c', 1), { heldBy: 'another scheduler (owner-b)' });
    await restore();
    await owner.close();
    const error = await acquireAgain(standby);
    t.is(error?.code, 'DATA_LOST');
    t.regex(error?.message ?? '', new RegExp(`is at term ${fence.term}, batch 1, but term ${term.term}, batch 2 was acknowledged`));
    t.deepEqual(told.events, ['behind']);
    t.is((await acquireAgain(standby))?.code, 'DATA_LOST', 'it stays so');
    // Others have taken what there is, at the latest a second later: their term is above all that was seen.
    const after = await another();
    let { term: later } = await take(after, 'owner-d');
    while (later <= term.term) {
      await after.release(0);
      later = (await take(after, 'owner-d')).term;
    }
    t.like(await standby.acquire(0, 'owner-c', 1), { heldBy: 'another scheduler (owner-d)' });
    await after.release(0);
    t.true((await take(standby, 'owner-c')).term > later);
  });

  test('terms and time go on from a database whose clock was an hour ahead', async (t) => {
    const { store, sql, fence } = await worldOf(t, server);
    await store.release(0);
    const [before] = await sql<{ term: string; wall: string }>(
      `UPDATE capstan.cells SET term = term + 3600, wall = wall + ${HOUR} RETURNING term, wall`,
    );
    const next = await take(store, 'owner-b');
    t.true(next.term > BigInt(before?.term ?? 0) && next.term > fence.term);
    t.true(store.now() >= Number(before?.wall), 'what was written does not come again');
  });

  test('a term is at least the milliseconds since 1970', async (t) => {
    const { store, sql, another } = await worldOf(t, server);
    await store.release(0);
    await sql('UPDATE capstan.cells SET term = 1, batch = 0');
    const { term } = await take(await another(), 'owner-b');
    t.true(Math.abs(Number(term) - Date.now()) < 600_000);
    // Restored again to before that: whoever knew the term sees that this is another one.
    await sql('UPDATE capstan.cells SET term = 1, batch = 0');
    await sql(END_WRITERS);
    t.true((await take(await another(), 'owner-c')).term > term);
  });

  test('a schema of an earlier version is brought up to date by who takes the cell, not by who starts', async (t) => {
    const url = await server.newDatabase();
    const [first] = migrations;
    await server.query(url, 'CREATE SCHEMA capstan; CREATE TABLE capstan.migrations (number int PRIMARY KEY, name text NOT NULL)');
    await server.query(url, first?.sql ?? '');
    await server.query(
      url,
      `INSERT INTO capstan.migrations VALUES (1, 'queue');
      INSERT INTO capstan.cells VALUES (0, 'default', 'older', '', 5, 7, 0, 0, 0)`,
    );
    const version = async (): Promise<unknown> => (await server.query(url, 'SELECT max(number) AS n FROM capstan.migrations'))[0]?.['n'];
    const store = await openPostgresStore({ url });
    t.teardown(() => store.close());
    await store.waitForTurn(0, 1);
    t.is(await version(), 1);
    const fence = await take(store);
    t.is(await version(), migrations.at(-1)?.number);
    t.deepEqual(await outcomes(store, fence, submit(queued(1))), ['ok']);
  });

  test('a standby of an earlier version stays up beside a newer owner, and takes nothing over', async (t) => {
    const { store, fence, sql, another } = await worldOf(t, server);
    const older = await another();
    await sql("INSERT INTO capstan.migrations (number, name) VALUES (999, 'later')");
    t.like(await older.acquire(0, 'owner-b', 1), { heldBy: 'another scheduler (owner-a), of a newer version' });
    t.deepEqual(await outcomes(store, fence, submit(queued(1))), ['ok'], 'the owner goes on');
    await store.close();
    await older.waitForTurn(0, 1);
    t.like(await older.acquire(0, 'owner-b', 1), { heldBy: 'another scheduler (owner-a), of a newer version' });
    t.like(await sql(LOCKS), [{ n: 0 }]);
  });

  /** Copies of the whole database as it was; `restore` puts the one that `backUp` made into its place. Both want its sessions ended. */
  function copiesOf(url: string) {
    const name = new URL(url).pathname.slice(1);
    const admin = url.replace(/\w+$/, 'postgres');
    const run = (text: string): Promise<unknown> => server.query(admin, text);
    const endAll = (): Promise<unknown> => run(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    return {
      endAll,
      backUp: () => run(`CREATE DATABASE ${name}_backup TEMPLATE ${name}`),
      restore: async () => {
        await run(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
        await endAll();
        await run(`ALTER DATABASE ${name} RENAME TO ${name}_lost`);
        await run(`ALTER DATABASE ${name}_backup RENAME TO ${name}`);
      },
    };
  }
}

/** Until the store has noticed that its former session ended; gives the failure of the first attempt after that. */
async function acquireAgain(store: PostgresStore): Promise<CapstanError | null> {
  for (;;)
    try {
      const taken = await store.acquire(0, 'owner-c', 1);
      if ('term' in taken) return null;
    } catch (error) {
      if (!(error instanceof CapstanError)) throw error;
      if (error.code !== 'UNAVAILABLE') return error;
    }
}

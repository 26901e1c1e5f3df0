/** What a broken, slow or lying network between the store and PostgreSQL leads to. */
import test from 'ava';

import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { StaleTermError } from '../../../scheduler/core/ports/store.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { outcomes, queued, queueOf, submit } from './jobs.ts';
import { END_WRITERS, eventually, LOCKS, worldOf, WRITERS } from './postgres-world.ts';
import { take } from './take.ts';

const UNAVAILABLE = { code: 'UNAVAILABLE' };
const BODY = { inline: new Uint8Array(60_000) };

await withPostgres('postgres', tests);

function tests(server: PostgresServer): void {
  test('cut before the call: the batch is refused, and never written', async (t) => {
    const { store, fence, proxy } = await worldOf(t, server);
    const told = new Promise<number>((resolve) => store.onHint(resolve));
    proxy.cut();
    t.is(await told, 0);
    await t.throwsAsync(store.commit(fence, [submit(queued(1))]), UNAVAILABLE);
    const next = await take(store);
    t.true(next.term > fence.term);
    await t.throwsAsync(store.commit(fence, [submit(queued(1))]), { instanceOf: StaleTermError });
    t.deepEqual(await outcomes(store, next, submit(queued(2))), ['ok']);
    t.deepEqual(await queueOf(store), [2]);
  });

  test('cut during the call: half a batch is no batch, and leaves no row locked', async (t) => {
    const { store, fence, proxy, sql, told } = await worldOf(t, server);
    const cut = proxy.cutAfter(30_000);
    const calls = [store.commit(fence, [submit(queued(1), { input: BODY })]), store.commit(fence, [submit(queued(2))])];
    await cut;
    for (const call of calls) await t.throwsAsync(call, UNAVAILABLE);
    proxy.forward();
    await sql('BEGIN');
    await sql('SELECT FROM capstan.cells WHERE cell = 0 FOR UPDATE NOWAIT');
    await sql('ROLLBACK');
    await take(store);
    t.deepEqual(await queueOf(store), []);
    t.deepEqual(told.events, ['taken first', 'lost doubt', 'taken itself']);
  });

  test('cut after the call: what was written without an answer is found again, with its outcomes', async (t) => {
    const { store, fence, proxy, sql } = await worldOf(t, server);
    t.deepEqual(await outcomes(store, fence, submit(queued(1))), ['ok']);
    proxy.dropAnswers();
    const batch = [submit(queued(1)), submit(queued(2))];
    const call = store.commit(fence, batch);
    await eventually(sql, 'SELECT batch = 2 FROM capstan.cells WHERE cell = 0');
    proxy.cut();
    await t.throwsAsync(call, UNAVAILABLE, 'that it was written does not say what became of each operation');
    proxy.forward();
    const next = await take(store);
    t.deepEqual(await queueOf(store), [1, 2]);
    t.deepEqual(await outcomes(store, next, ...batch), ['exists', 'exists']);
  });

  test('a request that arrives after another scheduler has the cell is refused', async (t) => {
    const { store, fence, proxy, sql, another } = await worldOf(t, server);
    proxy.hold();
    await t.throwsAsync(store.commit(fence, [submit(queued(1, { id: 'late' })), submit(queued(2))]), UNAVAILABLE);
    const [taken] = await sql<{ term: string }>('UPDATE capstan.cells SET term = term + 1 RETURNING term');
    await proxy.deliver();
    const next = await another();
    const { term } = await take(next, 'owner-b');
    t.true(term > BigInt(taken?.term ?? 0));
    t.deepEqual(await queueOf(next), []);
    t.like(await sql('SELECT batch::int FROM capstan.cells WHERE cell = 0'), [{ batch: 0 }]);
  });

  test('a server that accepts and never answers keeps no call waiting, nor the end', async (t) => {
    const { store, fence, proxy, another } = await worldOf(t, server);
    t.deepEqual(await outcomes(store, fence, submit(queued(1))), ['ok']);
    await queueOf(store);
    proxy.hang();
    const read = store.read('highest');
    await t.throwsAsync(store.commit(fence, []), { ...UNAVAILABLE, message: /no response within 2000 ms/ });
    await t.throwsAsync(read, UNAVAILABLE, 'reads go with the connection that commits');
    await t.throwsAsync(store.acquire(0, 'owner-a', 1), UNAVAILABLE);
    await store.waitForTurn(0, 1);
    const reads = [store.read('highest'), store.read('counts')];
    await store.close();
    for (const each of reads) await t.throwsAsync(each, UNAVAILABLE);
    // Of the owner nothing is left that would hold up the next one.
    const next = await another();
    await take(next, 'owner-b');
    t.deepEqual(await queueOf(next), [1]);
  });

  test('a release, a wait and a closing end while the server is silent', async (t) => {
    const { store, proxy } = await worldOf(t, server);
    proxy.hang();
    await store.release(0);
    await t.throwsAsync(store.acquire(0, 'owner-a', 1), UNAVAILABLE);
    const waits = store.waitForTurn(0, 60_000);
    await store.close();
    await t.throwsAsync(waits, { message: /closed/ });
  });

  test('a batch behind a slow one has its time from that one’s answer on', async (t) => {
    const { store, fence, sql } = await worldOf(t, server, { answerMs: 1_600 });
    await sql(`CREATE FUNCTION capstan.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.9); RETURN NULL; END';
      CREATE TRIGGER slow AFTER INSERT ON capstan.jobs FOR EACH STATEMENT EXECUTE FUNCTION capstan.slow()`);
    const answers = await Promise.all([1, 2].map((seq) => store.commit(fence, [submit(queued(seq))])));
    t.deepEqual(answers, [[{ kind: 'ok' }], [{ kind: 'ok' }]]);
  });

  test('a batch of many megabytes is an ordinary one', async (t) => {
    const { store, fence } = await worldOf(t, server, { answerMs: 3_000 });
    const ops = Array.from({ length: 500 }, (_, i) => submit(queued(i + 1), { input: BODY }));
    t.deepEqual(new Set(await outcomes(store, fence, ...ops)), new Set(['ok']));
  });

  test('a failed take-over has its own reason, and wakes nobody', async (t) => {
    const { store, fence, proxy } = await worldOf(t, server);
    let wakes = 0;
    store.onHint(() => wakes++);
    proxy.hang();
    await t.throwsAsync(store.commit(fence, []), { message: /no response/ });
    for (let i = 0; i < 3; i++) await t.throwsAsync(store.acquire(0, 'owner-a', 1), { ...UNAVAILABLE, message: /cannot connect/ });
    await t.throwsAsync(store.commit(fence, []), { message: /cannot connect/ }, 'the newest reason');
    t.is(wakes, 1);
    proxy.cut();
    proxy.forward();
    const next = await take(store);
    t.deepEqual(await outcomes(store, next, submit(queued(1))), ['ok']);
    t.is(wakes, 1);
  });

  test('parallel calls without a connection make one', async (t) => {
    const { store, sql } = await worldOf(t, server);
    const told = new Promise<number>((resolve) => store.onHint(resolve));
    await sql(END_WRITERS);
    await told;
    await eventually(sql, `SELECT count(*) = 0 FROM pg_stat_activity WHERE ${WRITERS}`);
    const wait = store.waitForTurn(0, 1);
    const taken = await Promise.all([1, 2, 3].map(() => store.acquire(0, 'owner-a', 1)));
    await wait;
    t.is(new Set(taken.map((each) => 'term' in each && each.term)).size, 1);
    t.like(await sql(`SELECT count(*)::int AS n FROM pg_stat_activity WHERE ${WRITERS}`), [{ n: 1 }]);
    t.like(await sql(LOCKS), [{ n: 1 }]);
  });

  test('a pooler, which gives out other sessions than those it was asked for, is refused', async (t) => {
    const { url } = await worldOf(t, server);
    const pooler = await TcpProxy.open(t, server.port);
    pooler.actAsPooler();
    const through = new URL(url);
    through.port = String(pooler.port);
    await t.throwsAsync(openPostgresStore({ url: through.href }), {
      code: 'CONFIG',
      message: /the address is that of a connection pooler/,
    });
  });

  test('the watcher is told of batches, round trips, take-overs and losses', async (t) => {
    const { store, fence, told } = await worldOf(t, server);
    const before = { ...told.trips };
    await store.commit(fence, [submit(queued(1)), submit(queued(2))]);
    await store.commit(fence, []);
    await queueOf(store);
    t.deepEqual(told.batches, [2, 0]);
    t.deepEqual(told.trips, { batch: before.batch + 2, read: before.read + 1, term: before.term });
    await store.release(0);
    t.deepEqual(told.events, ['taken first', 'lost released']);
  });
}

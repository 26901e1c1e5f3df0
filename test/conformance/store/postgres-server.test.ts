/** Bad days of the database's server itself: each test changes the whole server, so they run one after the other, on one of their own. */
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { kill } from 'node:process';

import test from 'ava';

import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { smallDisk, whyNoSmallDisk } from '../../support/small-disk.ts';
import { given, outcomes, queued, queueOf, submit } from './jobs.ts';
import { eventually, worldOf, WRITERS, type World } from './postgres-world.ts';
import { take } from './take.ts';

const UNAVAILABLE = { code: 'UNAVAILABLE' };
/** Longer than anything here takes: what is refused is refused for its own reason. */
const PATIENT = { answerMs: 30_000 };
const NOBODY = 65_534;

await withPostgres('postgres', tests);

function tests(server: PostgresServer): void {
  for (const [end, message] of [
    ['pg_cancel_backend', /the server warns: .*synchronous replication/],
    ['pg_terminate_backend', /the server warns: .*synchronous replication|the connection ended/],
  ] as const)
    test.serial(`a wait for a synchronous replica that ${end} ends is no acknowledgement`, async (t) => {
      const { store, sql, told } = await worldOf(t, server, PATIENT);
      await take(store);
      await setSystem(sql, "synchronous_standby_names = 'nobody'");
      try {
        const { call, seq } = await untilWaiting(store, sql);
        await sql(`SELECT ${end}(pid) FROM pg_stat_activity WHERE ${WRITERS} AND wait_event = 'SyncRep'`);
        await t.throwsAsync(call, { ...UNAVAILABLE, message });
        t.deepEqual(told.events, ['taken first', 'lost doubt']);
        await setSystem(sql, "synchronous_standby_names = ''");
        await take(store);
        t.is((await queueOf(store)).at(-1), seq, 'visible, though it was never replicated: the state is read anew');
      } finally {
        await setSystem(sql, "synchronous_standby_names = ''");
      }
    });

  test.serial('a server that crashes and recovers has what it acknowledged', async (t) => {
    const { store, fence, sql, url } = await worldOf(t, server, PATIENT);
    await given(store, fence, submit(queued(1)));
    const [backend] = await sql<{ pid: number }>(`SELECT pid FROM pg_stat_activity WHERE ${WRITERS}`);
    const lost = new Promise<number>((resolve) => store.onHint(resolve));
    // One process that ends so makes the server end all others at once, and recover.
    kill(backend?.pid ?? 0, 'SIGKILL');
    t.is(await lost, 0);
    await t.throwsAsync(store.commit(fence, [submit(queued(2))]), UNAVAILABLE);
    const next = await untilTaken(store);
    t.true(next.term > fence.term);
    t.deepEqual(await queueOf(store), [1]);
    t.deepEqual(await outcomes(store, next, submit(queued(3))), ['ok']);
    t.deepEqual(await server.query(url, 'SELECT count(*)::int AS n FROM capstan.jobs'), [{ n: 2 }]);
  });

  test.serial('a server that turns read-only refuses batches and take-overs, until it writes again', async (t) => {
    const { store, fence, sql } = await worldOf(t, server, PATIENT);
    await given(store, fence, submit(queued(1)));
    await setSystem(sql, 'default_transaction_read_only = on');
    try {
      await eventually(sql, "SELECT current_setting('default_transaction_read_only') = 'on'");
      // The session hears of it between two calls.
      let refusal: unknown = null;
      for (let seq = 2; refusal === null; seq++)
        refusal = await store.commit(fence, [submit(queued(seq))]).then(
          () => null,
          (error: unknown) => error,
        );
      t.like(refusal, UNAVAILABLE);
      await t.throwsAsync(store.acquire(0, 'owner-a', 1), { ...UNAVAILABLE, message: /accepts no writes/ });
    } finally {
      await setSystem(sql, 'default_transaction_read_only = off');
    }
    t.deepEqual(await outcomes(store, await untilTaken(store), submit(queued(1_000))), ['ok']);
  });

  test.serial('a deadlock that somebody else makes is a batch that was not written', async (t) => {
    const { store, fence, sql } = await worldOf(t, server, PATIENT);
    await given(store, fence, submit(queued(1)));
    await sql("SET deadlock_timeout = '1h'"); // the store's session is the one that notices
    await sql('BEGIN');
    await sql('SELECT FROM capstan.jobs WHERE seq = 1 FOR UPDATE');
    const call = store.commit(fence, [{ kind: 'delete', seq: 1, dueBy: null }]);
    const refused = t.throwsAsync(call, { ...UNAVAILABLE, message: /deadlock detected/ });
    await eventually(sql, `SELECT count(*) = 1 FROM pg_stat_activity WHERE ${WRITERS} AND wait_event_type = 'Lock'`);
    await sql('SELECT FROM capstan.cells FOR UPDATE');
    await sql('ROLLBACK');
    await refused;
    const next = await take(store);
    t.deepEqual(await queueOf(store), [1]);
    t.deepEqual(await outcomes(store, next, { kind: 'delete', seq: 1, dueBy: null }), ['ok']);
  });

  (whyNoSmallDisk === '' ? test.serial : test.serial.skip)(
    `a full disk refuses batches with DISK_FULL, and loses nothing${whyNoSmallDisk}`,
    async (t) => {
      const disk = await smallDisk(t, '64m');
      const folder = join(disk.path, 'space');
      await mkdir(folder);
      await chown(folder, NOBODY, NOBODY);
      const { url } = await worldOf(t, server, PATIENT);
      const name = `${new URL(url).pathname.slice(1)}_small`;
      const admin = url.replace(/\w+$/, 'postgres');
      await server.query(admin, `CREATE TABLESPACE small LOCATION '${folder}'`);
      await server.query(admin, `CREATE DATABASE ${name} TABLESPACE small`);
      const store = await openPostgresStore({ url: url.replace(/\w+$/, name), ...PATIENT });
      try {
        const fence = await take(store);
        disk.fill(4_000_000);
        let written = 0;
        const inline = crypto.getRandomValues(new Uint8Array(60_000));
        const fillUp = async (): Promise<void> => {
          for (;;) {
            await store.commit(fence, [submit(queued(written + 1), { input: { inline } })]);
            written++;
          }
        };
        await t.throwsAsync(fillUp, { code: 'DISK_FULL', message: /the database's disk is full \(53100\)/ });
        await t.throwsAsync(store.commit(fence, []), { code: 'DISK_FULL' }, 'until the cell is taken anew');
        disk.free();
        const next = await take(store);
        t.is((await queueOf(store)).length, written);
        t.deepEqual(await outcomes(store, next, submit(queued(written + 1), { input: { inline } })), ['ok']);
      } finally {
        await store.close();
        await server.query(admin, `DROP DATABASE ${name} WITH (FORCE)`);
        await server.query(admin, 'DROP TABLESPACE small');
      }
    },
  );
}

async function setSystem(sql: World['sql'], setting: string): Promise<void> {
  await sql(`ALTER SYSTEM SET ${setting}`);
  await sql('SELECT pg_reload_conf()');
}

const IS_WAITING = `SELECT count(*) > 0 AS is FROM pg_stat_activity WHERE ${WRITERS} AND wait_event = 'SyncRep'`;

/** Commits until one waits for a replica; the setting takes effect some time after it was made. */
async function untilWaiting(store: World['store'], sql: World['sql']) {
  for (let seq = 1; ; seq++) {
    const call = store.commit({ cell: 0, term: (await take(store)).term }, [submit(queued(seq))]);
    const state = { isAnswered: false };
    void call.then(
      () => (state.isAnswered = true),
      () => undefined,
    );
    while (!state.isAnswered) {
      const [row] = await sql<{ is: boolean }>(IS_WAITING);
      if (row?.is === true) return { call, seq };
    }
  }
}

/** A server that recovers refuses connections for a while. */
async function untilTaken(store: World['store']) {
  for (;;) {
    try {
      return await take(store);
    } catch (error) {
      if ((error as { code?: string }).code !== 'UNAVAILABLE') throw error;
    }
  }
}

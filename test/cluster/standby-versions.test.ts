/** Schedulers of two versions on one database: the schema is its owner's, and only a scheduler that knows it may own. */

import test from 'ava';
import { Client } from 'pg';

import { migrations } from '../../scheduler/store/postgres/migrations/all.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { schedulersOn, statusOf } from '../support/schedulers.ts';
import { lines } from '../support/several-schedulers.ts';

/** Advisory lock of the cell `default`. */
const LOCK = 'SELECT pg_advisory_lock(1128353875, 0)';
const VERSION = 'SELECT max(number) AS version FROM capstan.migrations';

await withPostgres('schedulers of two versions', tests);

function tests(server: PostgresServer): void {
  test('a newer standby leaves the schema of an older owner as it is, and migrates it when it takes over', async (t) => {
    const newest = migrations.at(-1)?.number;
    const before = migrations.at(-2)?.number;
    const store = await server.newDatabase();
    const older = new Client({ connectionString: store });
    await older.connect();
    await older.query('CREATE SCHEMA capstan; CREATE TABLE capstan.migrations (number int PRIMARY KEY, name text NOT NULL)');
    for (const { number, name, sql } of migrations.slice(0, -1)) {
      await older.query(sql);
      await older.query('INSERT INTO capstan.migrations (number, name) VALUES ($1, $2)', [number, name]);
    }
    await older.query(LOCK);
    await older.query(`INSERT INTO capstan.cells (cell, name, owner, address, term, batch, wall, highest_seq, highest_queue_position)
      VALUES (0, 'default', 'older', 'older.example:7070', 1, 0, 0, 0, 0)
      ON CONFLICT (cell) DO UPDATE SET owner = excluded.owner, address = excluded.address`);
    // As an owner that lives does.
    const renewal = setInterval(() => void older.query('UPDATE capstan.cells SET batch = batch + 1').catch(() => undefined), 200);

    const newer = await TestScheduler.open({ store, blobDir: await folderOf(t), isBlobDirShared: 'true' });
    t.teardown(() => newer.close());
    t.deepEqual(newer.handle.status, { kind: 'standby', owner: 'older.example:7070' });
    t.deepEqual((await older.query(VERSION)).rows, [{ version: before }]);
    clearInterval(renewal);
    await older.end();
    await statusOf(newer, 'owner');
    t.deepEqual(await server.query(store, VERSION), [{ version: newest }]);
  });

  test('an older standby stays up beside a newer schema, and takes nothing over', async (t) => {
    const { store, owner, standby: another } = await schedulersOn(t, server);
    const said = lines();
    const standby = await another({}, { log: said.log });
    const nobody = await another();
    await nobody.handle.close();
    await server.query(store, "INSERT INTO capstan.migrations (number, name) VALUES (999, 'of a later version')");
    await owner.handle.close();
    await said.until('of a newer version');
    t.is(standby.handle.status.kind, 'standby');
    const client = new Client({ connectionString: store });
    await client.connect();
    t.teardown(() => client.end());
    const { rows } = await client.query('SELECT pg_try_advisory_lock(1128353875, 0) AS free');
    t.deepEqual(rows, [{ free: true }], 'a scheduler that knows the schema gets the queue');
    await client.query('SELECT pg_advisory_unlock(1128353875, 0)');
    await t.throwsAsync(another(), { code: 'DATA_NEWER', message: /its schema is version 999/ }, 'one that starts says so');
    await server.query(store, 'DELETE FROM capstan.migrations WHERE number = 999');
    await statusOf(standby, 'owner');
    t.pass();
  });
}

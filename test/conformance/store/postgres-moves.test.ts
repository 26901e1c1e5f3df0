/** Moves between cells when something comes in between: another move, a lock, another owner, a broken connection. */
import test, { type ExecutionContext } from 'ava';
import { Client } from 'pg';

import { openPostgresStore, type PostgresStore } from '../../../scheduler/store/postgres/client.ts';
import type { Op } from '../../../scheduler/core/ports/store.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { entry, given } from './jobs.ts';
import { eventually, worldOf, type World } from './postgres-world.ts';
import { take } from './take.ts';

await withPostgres('moves between cells', tests);

/** Connections of moves that wait for a lock; in a transaction the view would always show the same. */
const WAITING = `SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'capstan cell % move'
  AND wait_event_type = 'Lock'`;

const account = (id: string): Op => ({ kind: 'put', rowKind: 'account', key: id, version: 1, value: '{}' });

function tests(server: PostgresServer): void {
  /** The cells `default` and `west`, each with an account and its owner. */
  async function two(t: ExecutionContext): Promise<World & { readonly west: PostgresStore }> {
    const world = await worldOf(t, server);
    // Another program's connection: who takes a cell over ends those of schedulers that hold its row.
    const client = new Client({ connectionString: world.url, application_name: 'another program' });
    await client.connect();
    t.teardown(() => client.end());
    const sql = async <R>(text: string, values: unknown[] = []): Promise<R[]> => (await client.query(text, values)).rows as R[];
    await world.store.cells.create('west');
    const west = await openPostgresStore({ url: world.url, cell: 'west' });
    t.teardown(() => west.close());
    await given(world.store, world.fence, account('acme'));
    await given(west, await take(west, 'owner-w', west.cell), account('other'));
    return { ...world, sql, west };
  }

  const waiting = async ({ sqlApart }: World, count: number): Promise<void> => {
    while (((await sqlApart(WAITING)) as { count: number }[])[0]?.count !== count);
  };

  const cellsOf = async ({ sql }: World): Promise<unknown> => {
    const rows = await sql<{ id: string; cell: number }>("SELECT id, cell FROM capstan.accounts WHERE id <> 'default' ORDER BY id");
    return rows.map(({ id, cell }) => [id, cell]);
  };

  test('two moves in opposite directions wait for one another: the second finds its term gone', async (t) => {
    const world = await two(t);
    const { sql, store, west } = world;
    // Each stops where it has locked the first row that it changes.
    await sql(`CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NEW; END $$`);
    await sql(
      `CREATE TRIGGER stop_here BEFORE UPDATE ON capstan.cells FOR EACH ROW WHEN (NEW.term > OLD.term) EXECUTE FUNCTION stop_here()`,
    );
    await sql('BEGIN');
    await sql('SELECT pg_advisory_xact_lock(42)');
    const moves = Promise.allSettled([
      store.cells.moveAccount({ account: 'acme', to: 'west' }, entry('move')),
      west.cells.moveAccount({ account: 'other', to: 'default' }, entry('move')),
    ]);
    await waiting(world, 2);
    await sql('COMMIT');
    const results = await moves;
    t.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    const refused = results.find((result) => result.status === 'rejected');
    t.regex(String(refused?.reason), /is in use: its cell changed in the meantime/, 'and the server ended neither');
    const isFirst = results[0]?.status === 'fulfilled';
    t.deepEqual(await cellsOf(world), [
      ['acme', isFirst ? 1 : 0],
      ['other', isFirst ? 1 : 0],
    ]);
    // Both owners go on under new terms.
    await given(store, await take(store));
    await given(west, await take(west, 'owner-w', west.cell));
  });

  test('a move waits for the row of a cell for a second at most, and changes nothing then', async (t) => {
    const world = await two(t);
    const { sql, store, west } = world;
    await sql('BEGIN');
    await sql('SELECT FROM capstan.cells WHERE cell = 1 FOR UPDATE');
    await t.throwsAsync(store.cells.moveAccount({ account: 'acme', to: 'west' }, entry('move')), {
      code: 'CONFLICT',
      message: 'cell: it is busy; try again',
    });
    // Nothing of it is left in the database: the owner has its cell back at once.
    await given(store, await take(store));
    await sql('ROLLBACK');
    await given(west, await take(west, 'owner-w', west.cell));
    t.deepEqual(await cellsOf(world), [
      ['acme', 0],
      ['other', 1],
    ]);
  });

  test('a move that is stuck past its limit is ended by the server', async (t) => {
    const world = await two(t);
    const { sql, store } = world;
    // A row of a tenant, not of a cell: its lock is waited for as long as any other of the same statement.
    await sql('BEGIN');
    await sql("SELECT FROM capstan.control WHERE cell = 0 AND key = 'acme' FOR UPDATE");
    await t.throwsAsync(store.cells.moveAccount({ account: 'acme', to: 'west' }, entry('move')), { code: 'CONFLICT', message: /busy/ });
    await sql('ROLLBACK');
    t.deepEqual(
      await sql(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%move' AND state <> 'idle'`),
      [],
    );
    t.deepEqual(await cellsOf(world), [
      ['acme', 0],
      ['other', 1],
    ]);
  });

  test('who takes a cell over does not wait for a move out of it that goes nowhere', async (t) => {
    const world = await two(t);
    const { sql, store, url } = world;
    await sql('BEGIN');
    await sql('SELECT FROM capstan.cells WHERE cell = 1 FOR UPDATE');
    const move = store.cells.moveAccount({ account: 'acme', to: 'west' }, entry('move'));
    move.catch(() => undefined);
    await waiting(world, 1);
    // The scheduler is gone; its move holds the row of its own cell.
    await store.close();
    const next = await openPostgresStore({ url });
    t.teardown(() => next.close());
    await given(next, await take(next, 'owner-b'));
    await sql('ROLLBACK');
    await t.throwsAsync(move);
  });

  test('a term that was lost before the move lets it fail', async (t) => {
    const world = await two(t);
    const { sql, store } = world;
    await sql('UPDATE capstan.cells SET term = term + 1 WHERE cell = 0');
    await t.throwsAsync(store.cells.moveAccount({ account: 'acme', to: 'west' }, entry('move')), {
      code: 'CONFLICT',
      message: /its cell changed/,
    });
    t.deepEqual(await cellsOf(world), [
      ['acme', 0],
      ['other', 1],
    ]);
  });

  test('a move whose answer is lost is not known, and the state that is read anew shows it', async (t) => {
    const world = await two(t);
    const { sql, store, proxy } = world;
    await sql('BEGIN');
    await sql('SELECT FROM capstan.cells WHERE cell = 1 FOR UPDATE');
    const move = store.cells.moveAccount({ account: 'acme', to: 'west' }, entry('move'));
    await waiting(world, 1);
    proxy.dropAnswers();
    await sql('COMMIT');
    await eventually(sql, "SELECT cell = 1 FROM capstan.accounts WHERE id = 'acme'");
    proxy.cut();
    await t.throwsAsync(move, { code: 'UNAVAILABLE' });
    proxy.forward();
    // The loss of its own connection may show a moment later.
    const fence = await take(store).catch(() => take(store));
    t.deepEqual(await store.read('control', 'account', '', 10), []);
    await given(store, fence, account('next'));
  });
}

/** Copies between SQLite and PostgreSQL: every row goes both ways, from any interruption on, and only from a store that rests. */
import { chown, cp, rename } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import Database from 'better-sqlite3';
import test, { type ExecutionContext } from 'ava';

import { copyStore, type CopyReport } from '../../../scheduler/store-copy.ts';
import { copyRows } from '../../../scheduler/store/copy/copy.ts';
import { PostgresSource } from '../../../scheduler/store/copy/postgres-source.ts';
import { PostgresTarget } from '../../../scheduler/store/copy/postgres-target.ts';
import type { CopySource, CopyTarget } from '../../../scheduler/store/copy/sides.ts';
import { openSqliteSource, SqliteTarget } from '../../../scheduler/store/copy/sqlite.ts';
import { COPY_TABLES } from '../../../scheduler/store/copy/tables.ts';
import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { openSqliteStore } from '../../../scheduler/store/sqlite/client.ts';
import { folderOf } from '../../support/folder.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { bytesInRows, columnsOfPostgres, fill, rowsOfSqlite } from './copied.ts';
import { idOf, queueOf, queued, submit } from './jobs.ts';
import { take } from './take.ts';

await withPostgres('postgres', tests);

function tests(server: PostgresServer): void {
  const copy = (from: string, to: string, startOver = false): Promise<CopyReport> =>
    copyStore({ from, to, folder: '/', startOver, onProgress: () => undefined });

  async function filled(t: ExecutionContext): Promise<{ folder: string; file: string }> {
    const folder = await folderOf(t);
    const file = join(folder, 'source.db');
    fill(file);
    return { folder, file };
  }

  test.serial('every row goes to PostgreSQL and back, with its numbers, and no term comes twice', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    const there = await copy(`sqlite:${file}`, url);
    t.false(there.isContinued);
    for (const { name, rows } of there.tables) t.true(rows > 0, `${name} has rows`);

    const store = await openPostgresStore({ url });
    t.deepEqual(await store.read('highest'), { seq: 50, queuePosition: 60 });
    const inlineBytes = bytesInRows(file);
    t.true(inlineBytes > 0);
    t.deepEqual(await store.read('bodyUsage'), [{ account: 'account-a', bytes: 70_000 * 4 + 90_000 + inlineBytes }]);
    t.deepEqual(await queueOf(store), [1, 3, 4]);
    t.is((await store.read('job', 'endpoint-a', idOf(6)))?.firstChunk, 3);
    t.is((await store.read('idempotency', 'key a\tb\nc\\d\r\\N "quoted" \u{1F600} äöü \\. \u0001'))?.jobId, idOf(3));
    await store.close();

    const back = await copy(url, `sqlite:${join(folder, 'back')}`);
    t.deepEqual(back.tables, there.tables);
    const again = join(folder, 'back/scheduler/capstan.db');
    t.deepEqual(rowsOfSqlite(again), rowsOfSqlite(file));

    const owner = await openSqliteStore({ file: again });
    t.deepEqual(await owner.read('highest'), { seq: 50, queuePosition: 60 });
    const { term } = await take(owner);
    t.is(term, 3n, 'one above the last of the source');
    await owner.close();
  });

  test.serial('a name with a NUL in a row of an earlier version is copied with a sign in its place', async (t) => {
    const { file } = await filled(t);
    const db = new Database(file);
    db.prepare('INSERT INTO control (kind, key, version, value) VALUES (?, ?, 1, ?)').run(
      ...['key', 'hash-2', JSON.stringify({ account: 'account-a', scope: 'KEY_SCOPE_ALL', name: 'a\0b' })],
    );
    db.close();
    const url = await server.newDatabase();
    await copy(`sqlite:${file}`, url);
    const store = await openPostgresStore({ url });
    t.teardown(() => store.close());
    const row = (await store.read('control', 'key', '', 10)).find(({ key }) => key === 'hash-2');
    t.is((JSON.parse(row?.value ?? '{}') as { name?: string }).name, 'a\u{FFFD}b');
  });

  test.serial('the first owner of a copy has a higher term than any on either side', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    await copy(`sqlite:${file}`, url);
    const store = await openPostgresStore({ url });
    const fence = await take(store, 'in PostgreSQL');
    t.true(fence.term > 1_700_000_000n);
    await store.commit(fence, [submit(queued(61))]);
    await store.close();
    const later = join(folder, 'later.db');
    t.is((await copy(url, `sqlite:${later}`)).term, Number(fence.term));
    const back = await openSqliteStore({ file: later });
    t.true((await take(back, 'in SQLite')).term > fence.term);
    t.deepEqual(await queueOf(back), [1, 3, 4, 61]);
    await back.close();
  });

  test.serial('a copy goes on after any write, in a new process each time, until it is whole', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    const there = await survive(
      t,
      () => Promise.resolve(openSqliteSource(file)),
      () => PostgresTarget.open(url),
    );
    const into = join(folder, 'back.db');
    const back = await survive(
      t,
      () => PostgresSource.open(url),
      () => Promise.resolve(new SqliteTarget(into)),
    );
    t.deepEqual(back.tables, there.tables);
    t.deepEqual(rowsOfSqlite(into), rowsOfSqlite(file));
  });

  test.serial('a copy that is whole is told again until a scheduler owned it', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    const first = await copy(`sqlite:${file}`, url);
    const again = await copy(`sqlite:${file}`, url);
    t.deepEqual([again.isContinued, again.tables], [true, first.tables]);
    const back = `sqlite:${join(folder, 'back.db')}`;
    await copy(url, back);
    t.true((await copy(url, back)).isContinued);
    const store = await openPostgresStore({ url });
    await take(store);
    await store.close();
    await t.throwsAsync(copy(`sqlite:${file}`, url), { code: 'ALREADY_EXISTS', message: /contains another queue/ });
  });

  test.serial('a whole copy in SQLite that was not moved to its place yet is moved there', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    await copy(`sqlite:${file}`, url);
    const into = join(folder, 'back.db');
    await copy(url, `sqlite:${into}`);
    await rename(into, `${into}.copying`);
    t.true((await copy(url, `sqlite:${into}`)).isContinued);
    t.deepEqual(rowsOfSqlite(into), rowsOfSqlite(file));
    t.false(existsSync(`${into}.copying`));
  });

  test.serial('an unfinished copy is no source', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    await t.throwsAsync(attempt(openSqliteSource(file), await PostgresTarget.open(url), 5), { message: 'killed' });
    const refusal = { code: 'CONFLICT', message: /^--from: .* is an unfinished copy itself; copy from its source$/ };
    await t.throwsAsync(copy(url, `sqlite:${join(folder, 'back.db')}`), refusal);
    await copy(`sqlite:${file}`, url);
    await t.throwsAsync(attempt(await PostgresSource.open(url), new SqliteTarget(join(folder, 'back.db')), 5), { message: 'killed' });
    await t.throwsAsync(copy(`sqlite:${join(folder, 'back.db.copying')}`, await server.newDatabase()), refusal);
  });

  test.serial('root leaves no files in the data folder of another user', async (t) => {
    if (process.getuid?.() !== 0) {
      t.log('skipped: only root can give files away');
      t.pass();
      return;
    }
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    await copy(`sqlite:${file}`, url);
    await chown(file, 65_534, 65_534);
    await t.throwsAsync(copy(`sqlite:${file}`, await server.newDatabase()), {
      code: 'DATA_DIR',
      message: /source\.db belongs to the user 65534; run the command as that user/,
    });
    await chown(folder, 65_534, 65_534);
    await t.throwsAsync(copy(url, `sqlite:${join(folder, 'data')}`), { code: 'DATA_DIR', message: /^--to: .* belongs to the user 65534/ });
    t.false(existsSync(join(folder, 'data')));
  });

  test.serial('no scheduler owns an unfinished copy', async (t) => {
    const { file } = await filled(t);
    const url = await server.newDatabase();
    await t.throwsAsync(attempt(openSqliteSource(file), await PostgresTarget.open(url), 5), { message: 'killed' });
    const store = await openPostgresStore({ url });
    await t.throwsAsync(take(store), { code: 'CONFIG', message: /the queue is an unfinished copy; finish it with: capstan store copy/ });
    await store.close();
    await copy(`sqlite:${file}`, url);
    const next = await openPostgresStore({ url });
    await take(next);
    await next.close();
  });

  test.serial('an unfinished copy of another source, or of another state, is refused until it is discarded', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    await t.throwsAsync(attempt(openSqliteSource(file), await PostgresTarget.open(url), 8), { message: 'killed' });
    const other = join(folder, 'other.db');
    await cp(file, other);
    const refusal = { code: 'CONFLICT', message: /contains an unfinished copy of another source, .* discard it with --start-over/ };
    await t.throwsAsync(copy(`sqlite:${other}`, url), refusal);
    // A scheduler that ran on the source meanwhile.
    const store = await openSqliteStore({ file });
    const fence = await take(store, 'a scheduler');
    await store.commit(fence, [{ kind: 'delete', seq: 1, dueBy: null }]);
    await store.close();
    await t.throwsAsync(copy(`sqlite:${file}`, url), refusal);
    const there = await copy(`sqlite:${file}`, url, true);
    t.is(there.tables.find(({ name }) => name === 'jobs')?.rows, 9);

    const into = join(folder, 'back.db');
    await t.throwsAsync(attempt(await PostgresSource.open(url), new SqliteTarget(into), 8), { message: 'killed' });
    const owner = await openPostgresStore({ url });
    await take(owner);
    await owner.close();
    await t.throwsAsync(copy(url, `sqlite:${into}`), refusal);
    await copy(url, `sqlite:${into}`, true);
    t.is((rowsOfSqlite(into)['jobs'] as unknown[]).length, 9);
  });

  test.serial('a source that a scheduler uses is refused, and so is a target', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    const sqlite = await openSqliteStore({ file });
    await t.throwsAsync(copy(`sqlite:${file}`, url), { code: 'DATA_DIR', message: /another process is using it/ });
    await sqlite.close();
    const owner = await openPostgresStore({ url });
    await take(owner);
    const refusal = (option: string) => ({
      code: 'CONFLICT',
      message: new RegExp(`^${option}: postgres://.*: a scheduler owns the queue, or waits for it; stop all schedulers first$`),
    });
    await t.throwsAsync(copy(`sqlite:${file}`, url), refusal('--to'));
    await t.throwsAsync(copy(url, `sqlite:${join(folder, 'back.db')}`), refusal('--from'));
    await owner.close();
    // One that only waits, too: it would take the queue over during the copy.
    const standby = await openPostgresStore({ url });
    await t.throwsAsync(copy(url, `sqlite:${join(folder, 'back.db')}`), refusal('--from'));
    await standby.close();
    await copy(`sqlite:${file}`, url);
  });

  test.serial('a scheduler that starts on the source during the copy spoils it', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    await copy(`sqlite:${file}`, url);
    const source = await PostgresSource.open(url);
    const into = new SqliteTarget(join(folder, 'back.db'));
    t.teardown(() => Promise.all([source.close(), into.close()]));
    let isTaken = false;
    const during = copyRows(source, into, {
      startOver: false,
      onProgress: () => {
        isTaken = true;
      },
    });
    // As a standby does after four seconds without a batch.
    await server.query(url, 'UPDATE capstan.cells SET term = term + 1');
    await t.throwsAsync(during, { code: 'CONFLICT', message: /a scheduler took the queue over during the copy/ });
    t.true(isTaken);
    t.false(existsSync(join(folder, 'back.db')));
  });

  test.serial('a target that holds anything else is left alone', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    const store = await openPostgresStore({ url });
    await store.commit(await take(store), [submit(queued(1))]);
    await store.close();
    await t.throwsAsync(copy(`sqlite:${file}`, url), {
      code: 'ALREADY_EXISTS',
      message: /contains another queue \(rows in capstan\.jobs\)/,
    });
    await t.throwsAsync(copy(`sqlite:${file}`, url, true), { code: 'ALREADY_EXISTS' }, 'not even to start over');
    const there = join(folder, 'there.db');
    await cp(file, there);
    await t.throwsAsync(copy(url, `sqlite:${there}`), { code: 'ALREADY_EXISTS', message: /there\.db already exists; move it away/ });
    const log = join(await folderOf(t, { 'capstan.db-wal': 'x' }), 'capstan.db');
    await t.throwsAsync(copy(url, `sqlite:${log}`), { code: 'ALREADY_EXISTS', message: /is left over from a deleted database/ });
    const accounts = await server.newDatabase();
    await (await openPostgresStore({ url: accounts })).close();
    await server.query(
      accounts,
      "INSERT INTO capstan.cells (cell, name, address, term, batch, wall, highest_seq, highest_queue_position) VALUES (7, 'other', '', 1, 0, 0, 0, 0)",
    );
    await server.query(accounts, "INSERT INTO capstan.accounts (id, cell) VALUES ('account-b', 7)");
    await t.throwsAsync(copy(`sqlite:${file}`, accounts), {
      code: 'ALREADY_EXISTS',
      message: /the account account-b belongs to another cell/,
    });
  });

  test.serial('places that are none are named', async (t) => {
    const { folder, file } = await filled(t);
    const url = await server.newDatabase();
    const cases: [from: string, to: string, code: string, message: RegExp][] = [
      [file, url, 'INVALID_ARGUMENT', /^--from: must be sqlite:<database file or data folder> or postgres:/],
      [`sqlite:${file}`, 'mysql://a@b/c', 'INVALID_ARGUMENT', /^--to: must be sqlite:/],
      [`sqlite:${file}`, `sqlite:${file}.2`, 'INVALID_ARGUMENT', /^--to: one store must be in SQLite and the other in PostgreSQL$/],
      [`sqlite:${folder}/none`, url, 'NOT_FOUND', /^--from: the database .*none\/scheduler\/capstan\.db does not exist$/],
      [url, `sqlite:${folder}/new`, 'NOT_FOUND', /^--from: postgres:.* is not a database of Capstan$/],
      [`sqlite:${file}`, 'postgres://u:secret@h/d', 'CONFIG', /^--to: must not contain a password/],
    ];
    for (const [from, to, code, message] of cases) {
      const error = await t.throwsAsync<Error & { code?: string }>(copy(from, to));
      t.is(error.code, code, error.message);
      t.regex(error.message, message);
      t.false(error.message.includes('secret'));
    }
  });

  test.serial('every table and column of either database is copied, or named here as one that is not', async (t) => {
    const { file } = await filled(t);
    const url = await server.newDatabase();
    await (await openPostgresStore({ url })).close();
    // The view is what copies read of the table `hook_hosts`, which owners of earlier versions keep.
    const notCopied = ['cells', 'accounts', 'schedulers', 'pending_hosts'];
    const more: Readonly<Record<string, readonly string[]>> = { control: ['account'], hooks: ['number'] };
    const tables = [...(await columnsOfPostgres(url))].filter(([name]) => !notCopied.includes(name));
    t.deepEqual(
      Object.fromEntries(tables.map(([name, columns]) => [name, columns.toSorted()])),
      Object.fromEntries(
        COPY_TABLES.map(({ name, columns }) => [name, [...columns.map((column) => column.name), ...(more[name] ?? [])].toSorted()]),
      ),
    );
    const db = new Database(file, { readonly: true });
    const names = db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").pluck().all();
    t.deepEqual(
      names.filter((name) => !['migrations', 'shards', 'marks'].includes(name)).toSorted(),
      COPY_TABLES.map(({ name }) => name).toSorted(),
    );
    for (const { name, columns } of COPY_TABLES)
      t.deepEqual(
        db.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(name).toSorted(),
        columns.map((column) => column.name).toSorted(),
      );
    db.close();
  });
}

/** Copies row by row, each attempt a write further than the one before; what the last one returns. */
async function survive(t: ExecutionContext, from: () => Promise<CopySource>, into: () => Promise<CopyTarget>): Promise<CopyReport> {
  for (let writes = 0; ; writes++) {
    try {
      const report = await attempt(await from(), await into(), writes % 4);
      t.true(writes > 10, 'it was interrupted often');
      return report;
    } catch (error) {
      if (!(error instanceof Error && error.message === 'killed')) throw error;
    }
  }
}

/** A copy that ends after so many writes, with its connections. */
async function attempt(source: CopySource, target: CopyTarget, writes: number): Promise<CopyReport> {
  let left = writes;
  const slow: CopySource = {
    shown: source.shown,
    head: () => source.head(),
    version: () => source.version(),
    count: (table) => source.count(table),
    async *read(table, after) {
      for await (const rows of source.read(table, after)) for (const row of rows) yield [row];
    },
    mustBeUnchanged: () => source.mustBeUnchanged(),
    close: () => source.close(),
  };
  const mortal: CopyTarget = {
    shown: target.shown,
    open: (fingerprint, startOver) => target.open(fingerprint, startOver),
    async write(table, rows, position) {
      if (left-- === 0) throw new Error('killed');
      await target.write(table, rows, position);
    },
    read: (table) => target.read(table),
    finish: (head) => target.finish(head),
    close: () => target.close(),
  };
  try {
    return await copyRows(slow, mortal, { startOver: false, onProgress: () => undefined });
  } finally {
    await target.close();
    await source.close();
  }
}

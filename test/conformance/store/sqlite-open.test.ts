import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import Database from 'better-sqlite3';

import { CapstanError } from '../../../lib/errors.ts';
import { openSqliteStore } from '../../../scheduler/store/sqlite/client.ts';
import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { migrations } from '../../../scheduler/store/sqlite/migrations/all.ts';
import { openDatabase } from '../../../scheduler/store/sqlite/open.ts';
import { completed, deliveryOf, json, leased, queued, submit } from './jobs.ts';
import { folderOf } from '../../support/folder.ts';

/** Opening is refused by the engine and through the thread with the same one line. */
async function refused(file: string): Promise<CapstanError> {
  let direct: unknown;
  try {
    new SqliteEngine({ file }).close();
  } catch (error) {
    direct = error;
  }
  let threaded: unknown;
  try {
    await (await openSqliteStore({ file })).close();
  } catch (error) {
    threaded = error;
  }
  if (!(direct instanceof CapstanError) || !(threaded instanceof CapstanError)) throw new Error(`${file} was opened`);
  if (direct.message !== threaded.message || direct.code !== threaded.code)
    throw new Error(`${direct.message} against ${threaded.message}`);
  return direct;
}

test('a missing folder is made, for its owner alone', async (t) => {
  const folder = await folderOf(t);
  const file = join(folder, 'data', 'scheduler', 'capstan.db');
  const engine = new SqliteEngine({ file });
  t.is((await stat(join(folder, 'data', 'scheduler'))).mode & 0o777, 0o700);
  for (const name of [file, `${file}-wal`]) t.is((await stat(name)).mode & 0o777, 0o600, name);
  engine.close();
});

test('a database of a newer version is refused as it is', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  openDatabase(file, {
    migrations: [...migrations, { number: migrations.length + 1, name: 'future', sql: 'CREATE TABLE future (x)' }],
  }).close();
  const before = await readFile(file);

  const error = await refused(file);
  t.is(error.code, 'DATA_NEWER');
  t.is(
    error.message,
    `store ${file}: cannot open: its layout has version ${migrations.length + 1}, this program supports up to ${migrations.length}`,
  );
  t.deepEqual(await readFile(file), before);
});

test('an older database is brought up to date with its data, once', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const engine = new SqliteEngine({ file });
  const { term } = engine.acquire(0, 'owner', 1);
  engine.commit({ cell: 0, term }, [submit(queued(1))]);
  engine.close();

  const next = { number: migrations.length + 1, name: 'next', sql: 'CREATE TABLE next (x); INSERT INTO next SELECT id FROM jobs;' };
  openDatabase(file, { migrations: [...migrations, next] }).close();
  const db = openDatabase(file, { migrations: [...migrations, next] });
  t.teardown(() => db.close());
  t.deepEqual(db.prepare('SELECT x FROM next').pluck().all(), [queued(1).id]);
});

test('the bodies of a database of before their usage was kept are counted when it is opened', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const before = new SqliteEngine({ file });
  const fence = { cell: 0, term: before.acquire(0, 'owner', 1).term };
  const blob = (id: string, size: number) => ({ blob: { id, size } });
  before.commit(fence, [
    { kind: 'put', rowKind: 'endpoint', key: 'endpoint-a', version: 1, value: '{"account":"account-a"}' },
    submit(leased(1), { input: blob('in', 100_000) }),
    completed(1, { output: blob('out', 200_000), chunks: [blob('chunk', 3_000)], delivery: deliveryOf(1) }),
    submit(queued(2, { endpoint: 'deleted' }), { input: blob('other', 50) }),
    submit(leased(3)),
    completed(3, { output: json('output'), chunks: [json('chunk')], delivery: deliveryOf(3) }),
    // The highest numbers are of a job that is gone.
    submit(queued(8, { queuePosition: 9 })),
    { kind: 'delete', seq: 8, dueBy: null },
  ]);
  const counted = before.read('bodyUsage');
  const due = before.read('due', Number.MAX_SAFE_INTEGER, 9);
  const whole = before.read('job', 'endpoint-a', queued(3).id);
  before.close();
  const older = new Database(file);
  const triggers = older.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'trigger'").pluck().all();
  older.exec(
    `${triggers.map((name) => `DROP TRIGGER ${name};`).join('')} DROP TABLE bodies; DROP TABLE body_usage; DROP TABLE history; DROP TABLE queue_reasons; DROP TABLE device_history; DROP TABLE inline_usage; DROP TABLE audit;`,
  );
  for (const { number, sql } of migrations)
    if (number >= 5)
      for (const [, name = ''] of sql.matchAll(/ALTER TABLE jobs ADD COLUMN (\w+)/g)) older.exec(`ALTER TABLE jobs DROP COLUMN ${name};`);
  older.exec(
    `ALTER TABLE jobs RENAME COLUMN seq TO no; ALTER TABLE jobs RENAME COLUMN queue_position TO position; ALTER TABLE inputs RENAME COLUMN seq TO no; ALTER TABLE chunks RENAME COLUMN seq TO no;
    DROP TABLE marks; CREATE TABLE marks (name TEXT PRIMARY KEY CHECK (name IN ('no', 'position')), value INTEGER NOT NULL CHECK (value >= 0)) STRICT, WITHOUT ROWID;
    INSERT INTO marks (name, value) VALUES ('no', 8), ('position', 9);`,
  );
  older.exec('DELETE FROM migrations WHERE number >= 5');
  older.close();

  const engine = new SqliteEngine({ file });
  t.teardown(() => engine.close());
  t.deepEqual(engine.read('bodyUsage'), counted);
  t.deepEqual(engine.read('highest'), { seq: 8, queuePosition: 9 });
  t.deepEqual(engine.read('due', Number.MAX_SAFE_INTEGER, 9), due);
  t.deepEqual(engine.read('job', 'endpoint-a', queued(3).id), whole);
  t.is(whole?.chunks.length, 1);
  t.deepEqual(counted, [
    { account: '', bytes: 50 },
    // Besides, 14 bytes of an input and 13 of an output, each twice, and 12 of a chunk.
    { account: 'account-a', bytes: 303_000 + 2 * (14 + 13) + 12 },
  ]);
  const { term } = engine.acquire(0, 'owner', 1);
  engine.commit({ cell: 0, term }, [
    { kind: 'delete', seq: 1, dueBy: null },
    { kind: 'delete', seq: 2, dueBy: null },
    { kind: 'delivery', id: deliveryOf(1).id, after: null, to: null },
    { kind: 'delete', seq: 3, dueBy: null },
    { kind: 'delivery', id: deliveryOf(3).id, after: null, to: null },
  ]);
  t.deepEqual(engine.read('bodyUsage'), []);
});

test('a migration that fails leaves the database as it was', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  openDatabase(file).close();
  const broken = { number: migrations.length + 1, name: 'broken', sql: 'CREATE TABLE half (x); CREATE TABLE jobs (x);' };
  t.throws(() => openDatabase(file, { migrations: [...migrations, broken] }), { message: /cannot open: table jobs already exists/ });
  const db = openDatabase(file);
  t.teardown(() => db.close());
  t.is(db.prepare("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").pluck().get(), 0);
});

test('a file that is no database is refused', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  await writeFile(file, 'this is a text and no database at all, and it is long enough to have a header '.repeat(20));
  const error = await refused(file);
  t.is(error.code, 'DATA_LOST');
  t.is(error.message, `store ${file}: cannot open: the file is not a database (SQLITE_NOTADB)`);
});

test('a damaged database is refused', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  new SqliteEngine({ file }).close();
  const bytes = await readFile(file);
  bytes.fill(0xff, 100, 4_096);
  await writeFile(file, bytes);
  const error = await refused(file);
  t.is(error.code, 'DATA_LOST');
  t.regex(error.message, /cannot open: the file is damaged \(SQLITE_CORRUPT/);
});

test("another program's database is refused", async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const db = new Database(file);
  db.exec('CREATE TABLE notes (text)');
  db.close();
  const error = await refused(file);
  t.is(error.code, 'DATA_DIR');
  t.is(error.message, `store ${file}: cannot open: the file is a database of another program`);
});

test('a folder in the place of the file is refused', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  await mkdir(file);
  const error = await refused(file);
  t.is(error.code, 'DATA_DIR');
  t.regex(error.message, /cannot open: the file cannot be opened \(SQLITE_CANTOPEN/);
});

test('a file in the place of the folder is refused', async (t) => {
  const folder = await folderOf(t);
  await writeFile(join(folder, 'scheduler'), '');
  const error = await refused(join(folder, 'scheduler', 'capstan.db'));
  t.is(error.code, 'DATA_DIR');
  t.regex(error.message, /cannot open: creating its folder failed: /);
  t.false(error.message.includes('\n'));
});

test('a database that is in use is refused to a second opener', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const store = await openSqliteStore({ file });
  t.teardown(() => store.close());
  const error = await refused(file);
  t.is(error.code, 'DATA_DIR');
  t.regex(error.message, /cannot open: another process is using it \(SQLITE_BUSY/);
});

/** Searches on a connection and a thread of their own: what they may take, and what the second connection must not give up. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import Database from 'better-sqlite3';

import { openSqliteStore } from '../../../scheduler/store/sqlite/client.ts';
import { acceptLoss } from '../../../scheduler/store/sqlite/accept-loss.ts';
import { MAX_LISTED } from '../../../scheduler/core/ports/store.ts';
import { given, queued, submit } from './jobs.ts';
import { take } from './take.ts';
import { folderOf } from '../../support/folder.ts';

const run = promisify(execFile);
const UNAVAILABLE = { code: 'UNAVAILABLE' };
const JOBS = 100_000;

test('a search beyond its time is refused, and the store goes on', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  let readMs = 1;
  const searchLimits = {
    get readMs() {
      return readMs;
    },
    memoryMb: 64,
  };
  const first = await openSqliteStore({ file });
  await given(first, await take(first), submit(queued(1)));
  await first.close();
  multiply(file);

  const store = await openSqliteStore({ file, searchLimits });
  t.teardown(() => store.close());
  const fence = await take(store);
  await t.throwsAsync(store.search('page', 'endpoint-a', null, 0, 10), { ...UNAVAILABLE, message: /a search took longer than 1 ms/ });
  await given(store, fence, submit(queued(JOBS + 1)));
  readMs = 60_000;
  const { jobs, total } = await store.search('page', 'endpoint-a', null, 0, 10);
  t.is(total, JOBS + 1);
  t.is(jobs[0]?.job.seq, JOBS + 1);
});

test('pages reach and count a bounded number of jobs', async (t) => {
  const store = await openSqliteStore({ file: join(await folderOf(t), 'capstan.db') });
  t.teardown(() => store.close());
  await given(store, await take(store), submit(queued(1)));
  t.deepEqual(await store.search('page', 'endpoint-a', null, MAX_LISTED, 10), { jobs: [], total: 1 });
  t.deepEqual(await store.search('page', 'endpoint-a', null, Number.MAX_SAFE_INTEGER, 10), { jobs: [], total: 1 });
});

test('the log begins anew while searches go on', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const store = await openSqliteStore({ file, checkpointPages: 50 });
  t.teardown(() => store.close());
  const fence = await take(store);
  const over = new AbortController();
  const searches = (async () => {
    while (!over.signal.aborted) await store.search('newest', 'endpoint-a', null, 1_000, 50);
  })();
  for (let i = 1; i <= 400; i++) await given(store, fence, submit(queued(i), { input: { inline: new Uint8Array(20_000) } }));
  over.abort();
  await searches;
  await store.read('highest');
  // Eight MB were written.
  t.true((await stat(`${file}-wal`)).size < 4_000_000);
});

test('a store that is closed leaves no log', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const store = await openSqliteStore({ file });
  await given(store, await take(store), submit(queued(1)));
  await store.search('page', 'endpoint-a', null, 0, 10);
  await store.close();
  t.false(existsSync(`${file}-wal`));
  t.false(existsSync(`${file}-shm`));
});

test('other processes are refused while a store is open, and not after it', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const store = await openSqliteStore({ file });
  t.teardown(() => store.close());
  await given(store, await take(store), submit(queued(1)));
  await store.search('page', 'endpoint-a', null, 0, 10);
  t.regex(await openedElsewhere(file), /^DATA_DIR .*another process is using it/);
  // A version that locks the database itself, as all did.
  t.regex(await lockedElsewhere(file), /database is locked/);
  t.throws(() => acceptLoss(file, 'now'), { code: 'DATA_DIR', message: /another process is using it/ });
  await store.close();
  t.is(await openedElsewhere(file), 'opened');
  t.is(await lockedElsewhere(file), 'locked');
  t.is(acceptLoss(file, 'now'), null);
});

test('a lock file with something in it is named, and no damage of the database', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  await (await openSqliteStore({ file })).close();
  await writeFile(`${file}-lock`, 'something that is not a database, and long enough to have a header of one'.repeat(20));
  await t.throwsAsync(openSqliteStore({ file }), { code: 'DATA_DIR', message: /its lock file .*capstan\.db-lock must be empty/ });
});

/** Copies the one job until there are many, newest last. */
function multiply(file: string): void {
  const db = new Database(file);
  const columns = (db.pragma('table_info(jobs)') as { readonly name: string }[]).map(({ name }) => name);
  const value = (name: string): string =>
    name === 'seq' || name === 'queue_position' ? 'n' : name === 'id' ? "'0198a1b2-0000-7000-8000-' || printf('%012d', n) || '-u1'" : name;
  db.exec(`INSERT INTO jobs (${columns.join(', ')}) SELECT ${columns.map(value).join(', ')} FROM jobs,
    (WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${JOBS}) SELECT n FROM numbers)`);
  db.close();
}

async function openedElsewhere(file: string): Promise<string> {
  const client = new URL('../../../scheduler/store/sqlite/client.ts', import.meta.url).href;
  return evaluate(
    file,
    `
    const { openSqliteStore } = await import(${JSON.stringify(client)});
    try {
      await (await openSqliteStore({ file: ${JSON.stringify(file)} })).close();
      console.log('opened');
    } catch (error) {
      console.log(error.code, error.message);
    }`,
  );
}

async function lockedElsewhere(file: string): Promise<string> {
  return evaluate(
    file,
    `
    const { default: Database } = await import(${JSON.stringify(import.meta.resolve('better-sqlite3'))});
    const db = new Database(${JSON.stringify(file)}, { timeout: 0 });
    try {
      db.pragma('locking_mode = EXCLUSIVE');
      db.pragma('journal_mode = WAL');
      db.prepare('SELECT count(*) FROM jobs').get();
      console.log('locked');
    } catch (error) {
      console.log(error.message);
    }
    db.close();`,
  );
}

async function evaluate(file: string, script: string): Promise<string> {
  const program = `${file}.mjs`;
  await writeFile(program, script);
  const { stdout } = await run(process.execPath, [program]);
  return stdout.trim();
}

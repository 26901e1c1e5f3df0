/** An installation moves to PostgreSQL and back: its callers, workers and webhooks go on where they were. */
import { once } from 'node:events';
import { mkdir, rename } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';

import test from 'ava';

import type { CopyReport } from '../../scheduler/store-copy.ts';
import { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import { run } from '../cli/fakes/run.ts';
import { rowsOfSqlite } from '../conformance/store/copied.ts';
import { queued, START, submit } from '../conformance/store/jobs.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
const BIG = 'x'.repeat(100_000);
const APP = {
  'handlers.ts': `
export function echo(input: unknown): unknown { return input; }
export function failing(): never { throw new Error('cannot\\tdo "it"'); }
export function* counting(count: number): Generator<number> { for (let n = 1; n <= count; n += 1) yield n; }
export const parked = echo;
`,
  'tool_manifest.json': JSON.stringify({
    resources: Object.fromEntries(
      ['echo', 'failing', 'counting', 'parked'].map((name) => [
        name,
        { functions: [{ name, module: 'handlers.ts' }], workersMax: name === 'parked' ? 0 : 1 },
      ]),
    ),
  }),
};

await withPostgres('postgres', tests);

async function copy(from: string, to: string): Promise<CopyReport> {
  const running = run([tool, 'store', 'copy', '--from', from, '--to', to, '--json']);
  const code = await running.ended;
  if (code !== 0) throw new Error(`${code}: ${running.stderr()}`);
  return JSON.parse(running.stdout()) as CopyReport;
}

function tests(server: PostgresServer): void {
  test('a stack goes on from PostgreSQL, and from SQLite again', async (t) => {
    const stack = await Stack.start();
    t.teardown(() => stack.close());
    const endpoints = await stack.deploy(await folderOf(t, APP));
    const [echo = '', failing = '', counting = '', parked = ''] = ['echo', 'failing', 'counting', 'parked'].map((name) =>
      endpoints.get(name),
    );
    const small = await post(stack, echo, { input: { n: 1 }, webhook: `http://127.0.0.1:${await closedPort()}/hook` });
    const large = await post(stack, echo, { input: { text: BIG } });
    const broken = await post(stack, failing, { input: {} });
    const counted = await post(stack, counting, { input: { count: 5 } });
    const ended: [string, string][] = [
      [echo, small],
      [echo, large],
      [failing, broken],
      [counting, counted],
    ];
    for (const [endpoint, job] of ended) await stack.ended(endpoint, job);
    const waiting: string[] = [];
    for (let n = 0; n < 20; n++) waiting.push(await post(stack, parked, { input: { n } }, `key-${n}`));
    const s3Config = { accessId: 'a', accessSecret: 'b', bucketName: 'c', endpointUrl: 'https://s3.example' };
    waiting.push(await post(stack, parked, { input: { text: BIG }, s3Config }));
    const before = await statuses(stack, [...ended, ...waiting.map((job): [string, string] => [parked, job])]);
    await stack.interrupt();

    const url = await server.newDatabase();
    const there = await copy(`sqlite:${stack.dataDir}`, url);
    // The agent of this stack has no GPU; postgres-copy copies histories of devices.
    for (const { name, rows } of there.tables) if (name !== 'device_history') t.true(rows > 0, `${name} has rows`);
    const back = await copy(url, `sqlite:${join(stack.scratch, 'back.db')}`);
    t.deepEqual(back.tables, there.tables);
    const database = join(stack.dataDir, 'scheduler/capstan.db');
    t.deepEqual(rowsOfSqlite(join(stack.scratch, 'back.db')), rowsOfSqlite(database));

    await mkdir(join(stack.scratch, 'moved'));
    await rename(database, join(stack.scratch, 'moved/capstan.db'));
    stack.variables['CAPSTAN_STORE'] = url;
    await stack.up();
    t.deepEqual(
      await statuses(
        stack,
        [...before.keys()].map((key) => key.split(' ') as [string, string]),
      ),
      before,
    );
    t.is(await post(stack, parked, { input: { n: 3 } }, 'key-3'), waiting[3] ?? '', 'the key is still taken');
    await stack.tool('endpoints', 'set', parked, 'workersMax=2');
    for (const [n, job] of waiting.slice(0, 10).entries()) t.deepEqual(await outputOf(stack, parked, job), { n });
    const last = await post(stack, echo, { input: { n: 'last' } });
    t.deepEqual(await outputOf(stack, echo, last), { n: 'last' });
    const onPostgres = await statuses(stack, [...ended, [echo, last]]);
    await stack.interrupt();

    await copy(url, `sqlite:${stack.dataDir}`);
    delete stack.variables['CAPSTAN_STORE'];
    await stack.up();
    t.deepEqual(await statuses(stack, [...ended, [echo, last]]), onPostgres);
    t.deepEqual(await outputOf(stack, parked, waiting[20] ?? ''), { text: BIG });
    t.is(await post(stack, parked, { input: { n: 3 } }, 'key-3'), waiting[3] ?? '');
  });

  test('a copy that was killed is continued by the same command', async (t) => {
    const folder = await folderOf(t);
    const file = join(folder, 'capstan.db');
    fillWith(file, 30_000);
    const url = await server.newDatabase();
    const first = run([tool, 'store', 'copy', '--from', `sqlite:${file}`, '--to', url]);
    t.teardown(() => first.child.kill('SIGKILL'));
    await until('some jobs are copied', async () => {
      const rows = await server.query(url, 'SELECT position FROM capstan.store_copy').catch(() => []);
      const position = rows[0]?.['position'];
      return typeof position === 'string' && (JSON.parse(position) as { table: string }).table === 'jobs';
    });
    first.child.kill('SIGKILL');
    t.is(await first.ended, 'SIGKILL');
    const report = await copy(`sqlite:${file}`, url);
    t.true(report.isContinued);
    t.deepEqual(
      report.tables.filter(({ rows }) => rows > 0).map(({ name, rows }) => [name, rows]),
      [
        ['jobs', 30_000],
        ['inputs', 30_000],
        ['inline_usage', 1],
      ],
    );
  });

  test('the tool says what is missing and what is next', async (t) => {
    const folder = await folderOf(t);
    fillWith(join(folder, 'capstan.db'), 1);
    const url = await server.newDatabase();
    const without = run([tool, 'store', 'copy', '--to', url]);
    t.is(await without.ended, 2);
    t.regex(without.stderr(), /--from: is required/);
    const done = run([tool, 'store', 'copy', '--from', 'sqlite:capstan.db', '--to', url], { cwd: folder });
    t.is(await done.ended, 0, done.stderr());
    t.regex(done.stdout(), /^jobs {2}1 rows {2}sha256 [0-9a-f]{64}$/m);
    t.regex(done.stderr(), /The copy contains neither blobs .* nor secrets/);
    t.true(done.stderr().includes(`next: CAPSTAN_STORE=${url} capstan scheduler`), done.stderr());
  });
}

/** Submits a job; its id. */
async function post(stack: Stack, endpoint: string, body: object, key?: string): Promise<string> {
  const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key };
  const response = await stack.call(`/v2/${endpoint}/run`, { method: 'POST', body: JSON.stringify(body), headers });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return ((await response.json()) as { id: string }).id;
}

/** Whole status documents, by endpoint and job. */
async function statuses(stack: Stack, jobs: readonly (readonly [string, string])[]): Promise<Map<string, unknown>> {
  const found = await Promise.all(jobs.map(async ([endpoint, job]) => [`${endpoint} ${job}`, await stack.status(endpoint, job)] as const));
  return new Map(found);
}

async function outputOf(stack: Stack, endpoint: string, job: string): Promise<unknown> {
  return (await stack.ended(endpoint, job)).output;
}

function fillWith(file: string, jobs: number): void {
  const engine = new SqliteEngine({ file, now: () => START });
  const { term } = engine.acquire(0, 'owner', 1);
  for (let seq = 1; seq <= jobs; seq += 5_000)
    engine.commit(
      { cell: 0, term },
      Array.from({ length: Math.min(5_000, jobs - seq + 1) }, (_, i) => submit(queued(seq + i))),
    );
  engine.close();
}

/** A port at which nobody listens: deliveries to it stay. */
async function closedPort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

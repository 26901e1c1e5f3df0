/** `capstan up --schedulers`: several schedulers on one host, for trying. */
import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import type { ClusterRow } from '../../lib/owner/cluster-list.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { run } from './fakes/run.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
const app = join(import.meta.dirname, '../contract/app');

await withPostgres('up with several schedulers', tests);

const refused = [
  [['--schedulers', '3'], /^✗ --schedulers: 3 schedulers require a queue in PostgreSQL\nhint: Set it with --store postgres:/],
  [['--schedulers', '0'], /^✗ --schedulers: must be a number between 1 and 9\n/],
  [['--schedulers', '2', '--store', 'sqlite:/tmp/queue'], /^✗ --store: must start with postgres:\/\/\n/],
  [
    ['--store', 'postgres://me:hunter2@db/queue'],
    /^✗ --store: must not contain a password; use a password file and set PGPASSFILE to its path\n/,
  ],
  [
    ['--schedulers', '3', '--store', 'postgres://me@127.0.0.1/queue', '--grpc-port', '65534'],
    /^✗ --grpc-port: 65534 leaves no ports for 3 schedulers\n/,
  ],
] as const;
for (const [args, message] of refused)
  test(`refused: up ${args.join(' ')}`, async (t) => {
    const up = run([tool, 'up', '--data-dir', join(await folderOf(t), 'data'), ...args]);
    t.is(await up.ended, 2);
    t.regex(up.stderr(), message);
    t.notRegex(up.stderr(), /hunter2/);
  });

function tests(postgres: PostgresServer): void {
  test('three schedulers: jobs go on when the owner is killed, and it comes back as a standby', async (t) => {
    const stack = await Stack.start({ CAPSTAN_SCHEDULERS: '3', CAPSTAN_STORE: await postgres.newDatabase() });
    t.teardown(() => stack.close());
    t.is(stack.pids('scheduler').length, 3);
    const echo = (await stack.deploy(app)).get('echo') ?? '';
    const before = await stack.run(echo, { n: 1 });
    t.is((await stack.ended(echo, before)).status, 'COMPLETED');

    const list = async (): Promise<ClusterRow> => JSON.parse(await stack.tool('schedulers', '--json')) as ClusterRow;
    const { cells, schedulers } = await list();
    t.is(new Set(schedulers.map(({ address }) => address)).size, 3);
    t.deepEqual([cells[0]?.standbys, cells[0]?.takeOvers], [2, 0]);
    t.deepEqual(
      schedulers.map(({ masterKeyIds }) => masterKeyIds),
      schedulers.map(() => [cells[0]?.masterKeyId]),
      'all have the secrets of the first',
    );

    const parts = JSON.parse(await readFile(join(stack.dataDir, 'parts.json'), 'utf8')) as Record<string, { readonly pid: number }>;
    t.deepEqual(Object.keys(parts).sort(), ['agent', 'gateway', 'scheduler', 'scheduler-2', 'scheduler-3']);
    process.kill(parts['scheduler']?.pid ?? 0, 'SIGKILL');
    const jobs = await Promise.all(Array.from({ length: 20 }, (_, n) => stack.run(echo, { n })));
    for (const job of jobs) t.is((await stack.ended(echo, job)).status, 'COMPLETED');
    t.is((await stack.status(echo, before)).status, 'COMPLETED', 'what ended before is kept');

    const after = await until('three schedulers again', async () => {
      const found = await list();
      return found.cells[0]?.standbys === 2 ? found : null;
    });
    t.is(after.cells[0]?.takeOvers, 1);
    t.is(after.cells[0]?.previousOwnerAddress, cells[0]?.ownerAddress ?? '');
    t.deepEqual(
      after.schedulers.map(({ address }) => address).toSorted(),
      schedulers.map(({ address }) => address).toSorted(),
      'it returns to its address, and what was killed is not listed beside it',
    );
    const secrets = join(stack.dataDir, 'secrets');
    for (const number of ['2', '3']) t.is(await realpath(join(stack.dataDir, 'schedulers', number, 'secrets')), await realpath(secrets));
    t.is(await stack.interrupt(), 0);
    await stack.gone();
  });
}

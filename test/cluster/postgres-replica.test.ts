/** The loss of the database's host with a real streaming replica: one that has all that was acknowledged, and one that is behind. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { folderOf } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { postgresBinaries, runAsServer, startPostgres, startPostgresOn, type PostgresServer } from '../support/postgres.ts';
import { TestScheduler, type TestChannel } from '../support/scheduler-client.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const TOOLS = ['pg_basebackup'];
const binaries = await postgresBinaries(TOOLS);
if (binaries === undefined)
  test('postgres', (t) => {
    t.log(`skipped: no PostgreSQL server with ${TOOLS.join(', ')} of its version is installed (Debian: postgresql)`);
    t.pass();
  });
else tests(binaries);

interface Pair {
  readonly primary: PostgresServer;
  readonly replica: PostgresServer;
  /** Address of a database, through a proxy that {@link fail} points to the replica. */
  readonly store: string;
  /** The replica's way to the primary. */
  readonly replication: TcpProxy;
  /** The primary is lost; the replica takes its place. */
  fail(): Promise<void>;
}

async function pairOf(t: ExecutionContext, bin: string): Promise<Pair> {
  const primary = await startPostgres(bin);
  t.teardown(() => primary.stop());
  const front = await TcpProxy.open(t, primary.port);
  const replication = await TcpProxy.open(t, primary.port);
  const direct = await primary.newDatabase();
  const base = join(primary.folder, 'base');
  const source = `postgres://capstan@127.0.0.1:${replication.port}/postgres`;
  const args = ['--pgdata', base, '--dbname', source, '--checkpoint', 'fast', '--wal-method', 'stream', '--write-recovery-conf'];
  await runAsServer(join(bin, 'pg_basebackup'), [...args, '--no-sync', '--no-manifest'], primary.folder);
  const replica = await startPostgresOn(bin, async (data) => void (await promisify(execFile)('cp', ['-a', base, data])));
  t.teardown(() => replica.stop());
  const postgres = direct.replace(/\/[^/]+$/, '/postgres');
  await until('the replica streams', async () => {
    const [row] = await primary.query(postgres, "SELECT count(*)::int AS n FROM pg_stat_replication WHERE state = 'streaming'");
    return row?.['n'] === 1;
  });
  return {
    primary,
    replica,
    store: direct.replace(/:\d+\//, `:${front.port}/`),
    replication,
    async fail() {
      primary.process.kill('SIGQUIT');
      await once(primary.process, 'exit');
      front.pointTo(replica.port);
      const [row] = await replica.query(direct.replace(/:\d+\//, `:${replica.port}/`), 'SELECT pg_promote() AS done');
      t.true(row?.['done']);
    },
  };
}

function tests(bin: string): void {
  test('with a synchronous replica nothing acknowledged is lost with the host of the database', async (t) => {
    const pair = await pairOf(t, bin);
    const direct = `postgres://capstan@127.0.0.1:${pair.primary.port}/postgres`;
    await pair.primary.query(direct, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    await pair.primary.query(direct, 'SELECT pg_reload_conf()');
    const fatal: unknown[] = [];
    const unlimited = { rateLimits: 'run=0/0,status=0/0' };
    const owner = await TestScheduler.open(
      { store: pair.store, blobDir: await folderOf(t), ...unlimited },
      { onFatal: (error) => fatal.push(error) },
    );
    t.teardown(() => owner.close());
    const { endpoints } = await owner.deploy([{ name: 'echo', workersMax: 0 }]);
    const endpoint = endpoints[0]?.id ?? '';
    const channel = owner.channel();
    const acknowledged: string[] = [];
    // The host is lost among submissions: only those with an answer count.
    const submissions = Array.from({ length: 400 }, async (_, i) => {
      const reply = await channel.ask(endpoint, submit(`job-${i}`)).catch(() => null);
      if (reply !== null && stateOf(reply) === JobState.IN_QUEUE) acknowledged.push(`job-${i}`);
    });
    await until('the first are acknowledged', () => acknowledged.length > 20);
    await pair.fail();
    void Promise.allSettled(submissions);
    await until('the scheduler owns its cell again', () => owner.handle.status.kind === 'owner');
    let states: (JobState | null)[] = [];
    await until('it answers', async () => {
      const again = owner.channel();
      states = await Promise.all(acknowledged.map((job) => look(again, endpoint, job))).catch(() => []);
      return states.length > 0;
    });
    t.deepEqual(new Set(states), new Set([JobState.IN_QUEUE]));
    t.deepEqual(fatal, []);
  });

  test('a scheduler that knows of more than the replica has stops, and says what is missing', async (t) => {
    const pair = await pairOf(t, bin);
    const fatal = Promise.withResolvers<unknown>();
    const owner = await TestScheduler.open({ store: pair.store, blobDir: await folderOf(t) }, { onFatal: fatal.resolve });
    t.teardown(() => owner.close());
    const { endpoints } = await owner.deploy([{ name: 'echo', workersMax: 0 }]);
    const endpoint = endpoints[0]?.id ?? '';
    const channel = owner.channel();
    await channel.ask(endpoint, submit('early'));
    // Nothing listens there: the replica does not reach the primary again.
    pair.replication.pointTo(await freePort());
    pair.replication.cut();
    t.is(stateOf(await channel.ask(endpoint, submit('late'))), JobState.IN_QUEUE);
    await pair.fail();
    const error = await fatal.promise;
    t.true(error instanceof CapstanError);
    t.is((error as CapstanError).code, 'DATA_LOST');
    t.regex((error as CapstanError).message, /failed over to a replica that was behind; acknowledged jobs are missing/);
    const [row] = await pair.replica.query(
      pair.store.replace(/:\d+\//, `:${pair.replica.port}/`),
      "SELECT count(*)::int AS n FROM capstan.jobs WHERE id = 'late'",
    );
    t.is(row?.['n'], 0, 'the replica was behind');
  });
}

function submit(jobId: string): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 },
  };
}

const stateOf = ({ result }: JobReply): JobState | null => (result?.$case === 'job' ? result.value.state : null);

/** State of a job; null if it is unknown. */
async function look(channel: TestChannel, endpoint: string, jobId: string): Promise<JobState | null> {
  return stateOf(await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } }));
}

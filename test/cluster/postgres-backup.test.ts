/** Backups of PostgreSQL while schedulers serve: what a restored scheduler has, and what it refuses of the time that was lost. */
import { once } from 'node:events';
import { execFile } from 'node:child_process';
import { chmod, cp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import type { StatBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome, type Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';
import { postgresBinaries, runAsServer, startPostgres, startPostgresOn, type PostgresServer } from '../support/postgres.ts';
import { TestNode, TestScheduler, unary, type TestChannel, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const TOOLS = ['pg_dump', 'pg_restore', 'pg_basebackup'];
const binaries = await postgresBinaries(TOOLS);
if (binaries === undefined)
  test('postgres', (t) => {
    t.log(`skipped: no PostgreSQL server with ${TOOLS.join(', ')} of its version is installed (Debian: postgresql)`);
    t.pass();
  });
else tests(binaries);

function tests(bin: string): void {
  test('a dump under load, with blobs and secrets, holds all that was acknowledged', async (t) => {
    const server = await started(t, bin);
    const store = await server.newDatabase();
    const blobDir = await folderOf(t);
    const unlimited = { rateLimits: 'run=0/0,status=0/0' };
    const owner = await TestScheduler.open({ store, blobDir, ...unlimited });
    t.teardown(() => owner.close());
    const { endpoints } = await owner.deploy([{ name: 'echo', env: { SECRET: 'kept' }, workersMin: 1 }]);
    const endpoint = endpoints[0]?.id ?? '';
    const channel = owner.channel();
    const bytes = Buffer.alloc(100_000, ' ');
    const body = await owner.putBody(bytes);
    await channel.ask(endpoint, submit('big', { input: { body: { $case: 'blob', value: { id: body, size: bytes.length } } } }));
    await channel.ask(endpoint, submit('keyed', keyed('taken')));
    const before = Array.from({ length: 300 }, (_, i) => `before-${i}`);
    const replies = await Promise.all(before.map((job) => channel.ask(endpoint, submit(job))));
    t.true(replies.every((reply) => stateOf(reply) === JobState.IN_QUEUE));

    // Submissions go on all the while.
    let meanwhile = 0;
    const stop = new AbortController();
    const load = (async () => {
      while (!stop.signal.aborted) await channel.ask(endpoint, submit(`meanwhile-${meanwhile++}`));
    })();
    const backup = await folderOf(t);
    const dump = join(backup, 'queue.dump');
    await cp(blobDir, join(backup, 'blobs'), { recursive: true });
    await run(join(bin, 'pg_dump'), ['--format=custom', `--file=${dump}`, '--schema=capstan', store]);
    await cp(blobDir, join(backup, 'blobs'), { recursive: true });
    await cp(join(owner.dataDir, 'secrets'), join(backup, 'secrets'), { recursive: true });
    stop.abort();
    await load;
    const formerTerm = await termOf(server, store);
    // The lost service went on for a while under further terms.
    await owner.restart();
    t.true((await termOf(server, store)) > formerTerm);

    const target = await server.newDatabase();
    await run(join(bin, 'pg_restore'), ['--exit-on-error', '--no-owner', `--dbname=${target}`, dump]);
    const dataDir = await folderOf(t);
    await cp(join(backup, 'secrets'), join(dataDir, 'secrets'), { recursive: true });
    const lastTerm = await termOf(server, store);
    const restored = await TestScheduler.open({ store: target, blobDir: join(backup, 'blobs'), dataDir, ...unlimited });
    t.teardown(() => restored.close());
    t.true((await termOf(server, target)) > lastTerm, 'no term of the lost service comes again');

    const again = restored.channel();
    const states = await Promise.all(['big', 'keyed', ...before].map((job) => look(again, endpoint, job)));
    t.deepEqual(new Set(states), new Set([JobState.IN_QUEUE]));
    const repeated = await again.ask(endpoint, submit('keyed-again', keyed('taken')));
    t.is(repeated.result?.$case === 'job' ? repeated.result.value.id : '', 'keyed');
    const gateway = restored.bearer(owner.secret('gateway-token'));
    t.true((await unary<StatBlobResponse>((done) => restored.blobs.stat({ id: body }, gateway, done))).exists);
    // What is encrypted can be read.
    const session = (await restored.join('host')).session();
    let desired = await session.take('desired');
    while (desired.releases.length === 0) desired = await session.take('desired');
    t.deepEqual(desired.releases[0]?.env, { SECRET: 'kept' });
    session.close();
  });

  test('a base backup with its log goes back to an earlier time, and what happened after it is unknown', async (t) => {
    const archive = await folderOf(t);
    await chmod(archive, 0o777); // the server is another user
    const first = await started(t, bin, { archive_mode: 'on', archive_command: `cp %p ${archive}/%f` });
    const store = await first.newDatabase();
    const blobDir = await folderOf(t);
    const lost = await TestScheduler.open({ store, blobDir });
    t.teardown(() => lost.close());
    const { endpoints } = await lost.deploy([{ name: 'echo', workersMin: 1 }]);
    const endpoint = endpoints[0]?.id ?? '';
    const channel = lost.channel();
    await channel.ask(endpoint, submit('early'));
    const base = join(first.folder, 'base');
    await runAsServer(
      join(bin, 'pg_basebackup'),
      [
        '--pgdata',
        base,
        '--dbname',
        `postgres://capstan@127.0.0.1:${first.port}/postgres`,
        '--checkpoint',
        'fast',
        '--wal-method',
        'none',
        '--no-sync',
        '--no-manifest',
      ],
      first.folder,
    );
    const node = await lost.join('host');
    await channel.ask(endpoint, submit('kept'));
    const [time] = await first.query(store, 'SELECT clock_timestamp()::text AS at');
    const before = String(time?.['at']);

    // After that time: another term and one more job, and the first two run.
    await lost.restart();
    await lost.channel().ask(endpoint, submit('late'));
    const session = node.session();
    const [worker] = await session.bringUp();
    const early = await session.take('dispatch');
    t.is(early.jobId, 'early');
    complete(session, early);
    const kept = await session.take('dispatch');
    t.is(kept.jobId, 'kept');
    complete(session, kept);
    const late = await session.take('dispatch');
    const formerTerm = await termOf(first, store);
    await first.query(store, 'CREATE TABLE public.switched AS SELECT pg_walfile_name(pg_switch_wal()) AS wal');
    await until('the log is archived', async () => {
      const [row] = await first.query(store, 'SELECT last_archived_wal >= wal AS done FROM pg_stat_archiver, public.switched');
      return row?.['done'] === true;
    });
    session.close();
    await lost.handle.close();
    first.process.kill('SIGINT');
    await once(first.process, 'exit');

    const second = await startPostgresOn(
      bin,
      async (data) => {
        await run('cp', ['-a', base, data]);
        await runAsServer('touch', [join(data, 'recovery.signal')], join(data, '..'));
      },
      { restore_command: `cp ${archive}/%f %p`, recovery_target_time: before, recovery_target_action: 'promote', archive_mode: 'off' },
    );
    t.teardown(() => second.stop());
    const address = store.replace(/:\d+\//, `:${second.port}/`);
    await until('the server accepts writes', async () => {
      const [row] = await second.query(address, 'SELECT pg_is_in_recovery() AS waits');
      return row?.['waits'] === false;
    });
    const fatal: unknown[] = [];
    const restored = await TestScheduler.open(
      { store: address, blobDir, dataDir: lost.dataDir },
      { onFatal: (error) => fatal.push(error) },
    );
    t.teardown(() => restored.close());
    t.true((await termOf(second, address)) > formerTerm);

    const again = restored.channel();
    t.is(await look(again, endpoint, 'late'), null);
    for (const job of ['early', 'kept']) t.is(await look(again, endpoint, job), JobState.IN_QUEUE);
    // The node joined before that time: it comes with the attempts and results of the time that was lost.
    const here = new TestNode(restored, node.id, node.credentials.get('authorization')[0]?.toString().slice('Bearer '.length) ?? '');
    const attempts = [kept, late].map(({ jobId, token }) => ({
      jobId,
      token,
      workerId: worker?.workerId ?? '',
      started: true,
      startedAgoMs: 5,
    }));
    const back = here.session({ attempts });
    complete(back, kept);
    complete(back, late);
    const acknowledged = [(await back.take('ack')).jobId, (await back.take('ack')).jobId];
    t.deepEqual(acknowledged.toSorted(), ['kept', 'late']);
    await back.bringUp();
    for (const job of ['early', 'kept']) {
      const dispatch = await back.take('dispatch');
      t.is(dispatch.jobId, job, 'it runs once more');
      complete(back, dispatch);
      await back.take('ack');
      t.is(await look(again, endpoint, job), JobState.COMPLETED);
    }
    t.is(await look(again, endpoint, 'late'), null);
    t.is(stateOf(await again.ask(endpoint, submit('late'))), JobState.IN_QUEUE, 'its caller may send it again');
    t.deepEqual(fatal, []);
    back.close();
  });
}

async function started(t: ExecutionContext, bin: string, settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const server = await startPostgres(bin, settings);
  t.teardown(() => server.stop());
  return server;
}

/** The term under which the queue was last owned. */
async function termOf(server: PostgresServer, address: string): Promise<number> {
  const [row] = await server.query(address, 'SELECT term::float8 AS term FROM capstan.cells WHERE cell = 0');
  return Number(row?.['term']);
}

function submit(jobId: string, more: Partial<Submit> = {}): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, ...more },
  };
}

const keyed = (key: string): Partial<Submit> => ({ idempotencyKey: key, bodyHash: Buffer.alloc(32, 1) });

const stateOf = ({ result }: JobReply): JobState | null => (result?.$case === 'job' ? result.value.state : null);

/** State of a job; null if it is unknown. */
async function look(channel: TestChannel, endpoint: string, jobId: string): Promise<JobState | null> {
  return stateOf(await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } }));
}

function complete(session: TestSession, { jobId, token }: Dispatch): void {
  const output = { body: { $case: 'inline', value: Buffer.from('"done"') } } as const;
  const ended = {
    jobId,
    token,
    outcome: AttemptOutcome.COMPLETED,
    output,
    error: '',
    executionMs: 5,
    agoMs: 0,
    started: true,
    chunks: 0,
    slotHeld: false,
  };
  session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } }, { $case: 'ended', value: ended });
}

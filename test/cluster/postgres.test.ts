/** Schedulers on PostgreSQL: what was acknowledged outlives its scheduler, and a standby takes the queue over. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import test from 'ava';

import type { CapstanError } from '../../lib/errors.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { copyOfSecrets, statusOf } from '../support/schedulers.ts';
import { lines } from '../support/several-schedulers.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');
/** Ends the connection that commits, as a broken network or a killed scheduler does. */
const END_OWNER = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND application_name LIKE 'capstan cell %'
    AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)`;

await withPostgres('postgres', tests);

function tests(server: PostgresServer): void {
  test('a standby takes over from an owner that lost its connection, with the jobs', async (t) => {
    const store = await server.newDatabase();
    const blobDir = await folderOf(t);
    const shared = { store, blobDir, isBlobDirShared: 'true' };
    const owner = await TestScheduler.open(shared);
    t.teardown(() => owner.close());
    const { endpoints } = await owner.deploy([{ name: 'echo' }]);
    const endpoint = endpoints[0]?.id ?? '';
    t.is(stateOf(await owner.channel().ask(endpoint, submit('first'))), JobState.IN_QUEUE);

    const said = lines();
    const standby = await TestScheduler.open({ ...shared, dataDir: await copyOfSecrets(t, owner.dataDir) }, { log: said.log });
    t.teardown(() => standby.close());
    await said.until(`standby: the queue's owner is ${owner.handle.address}`);
    t.is(stateOf(await owner.channel().ask(endpoint, submit('second'))), JobState.IN_QUEUE);
    await server.query(store, END_OWNER);

    await statusOf(standby, 'owner');
    t.like(
      await statusOf(owner, 'standby', (status) => 'owner' in status),
      { owner: standby.handle.address },
      'the last owner is a standby now',
    );
    const channel = standby.channel();
    for (const jobId of ['first', 'second'])
      t.is(stateOf(await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } })), JobState.IN_QUEUE);
    t.is(stateOf(await channel.ask(endpoint, submit('third'))), JobState.IN_QUEUE);
  });

  test('an owner without a rival takes the queue over from itself', async (t) => {
    const store = await server.newDatabase();
    const scheduler = await TestScheduler.open({ store });
    t.teardown(() => scheduler.close());
    const { endpoints } = await scheduler.deploy([{ name: 'echo' }]);
    const endpoint = endpoints[0]?.id ?? '';
    t.is(stateOf(await scheduler.channel().ask(endpoint, submit('first'))), JobState.IN_QUEUE);
    await server.query(store, END_OWNER);
    // As a gateway does: a request without an answer is sent again, on a new channel.
    const states: (JobState | null)[] = [];
    while (states.at(-1) !== JobState.IN_QUEUE) {
      const channel = scheduler.channel();
      states.push(
        await Promise.race([channel.ask(endpoint, submit('second'), states.length > 0).then(stateOf), channel.ended.then(() => null)]),
      );
    }
    t.true(states.includes(null), 'the first one was refused with the state');
    t.is(stateOf(await scheduler.channel().ask(endpoint, { $case: 'get', value: { jobId: 'first', waitMs: 0 } })), JobState.IN_QUEUE);
  });

  test('jobs survive a restart, and the tool says how to back the database up', async (t) => {
    const scheduler = await TestScheduler.open({ store: await server.newDatabase() });
    t.teardown(() => scheduler.close());
    const { endpoints } = await scheduler.deploy([{ name: 'echo' }]);
    const endpoint = endpoints[0]?.id ?? '';
    await scheduler.channel().ask(endpoint, submit('first'));
    await scheduler.restart();
    t.is(stateOf(await scheduler.channel().ask(endpoint, { $case: 'get', value: { jobId: 'first', waitMs: 0 } })), JobState.IN_QUEUE);
    const refusal = await new Promise<string>((resolve) => {
      scheduler.control.snapshotQueue({}, scheduler.bearer(scheduler.secret('api-key')), (error) => resolve(error?.details ?? ''));
    });
    t.regex(refusal, /pg_dump/);
  });

  test('a second scheduler is refused without the bodies or the secrets of the first', async (t) => {
    const store = await server.newDatabase();
    const blobDir = await folderOf(t);
    const owner = await TestScheduler.open({ store, blobDir, isBlobDirShared: 'true' });
    const again = { store, dataDir: await copyOfSecrets(t, owner.dataDir) };
    await t.throwsAsync(TestScheduler.open(again), { code: 'CONFIG', message: /a standby requires CAPSTAN_BLOB_DIR_SHARED/ });
    await owner.close();
    const stranger = TestScheduler.open({ store, blobDir, isBlobDirShared: 'true', dataDir: await folderOf(t) });
    await t.throwsAsync(stranger, {
      code: 'CONFIG',
      message: /secrets: was re-created, but the queue is encrypted with another master key/,
    });
  });

  test('a standby ends at once when it is told to', async (t) => {
    const store = await server.newDatabase();
    const blobDir = await folderOf(t);
    const owner = await TestScheduler.open({ store, blobDir, isBlobDirShared: 'true' });
    t.teardown(() => owner.close());
    const standby = spawn(process.execPath, [tool, 'scheduler'], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        CAPSTAN_STORE: store,
        CAPSTAN_BLOB_DIR: blobDir,
        CAPSTAN_BLOB_DIR_SHARED: 'true',
        CAPSTAN_GRPC_PORT: '0',
        CAPSTAN_DATA_DIR: await copyOfSecrets(t, owner.dataDir),
      },
    });
    t.teardown(() => standby.kill('SIGKILL'));
    for await (const text of standby.stderr) if (String(text).includes('standby: ')) break;
    standby.kill('SIGTERM');
    t.deepEqual(await once(standby, 'exit'), [0, null]);
  });

  test('a setting that is wrong is named', async (t) => {
    const cases = [
      [{ store: 'mysql://a@b/c' }, /^CAPSTAN_STORE: must be empty or start with postgres:\/\/$/],
      [
        { store: 'postgres://u:secret@h/d' },
        /^CAPSTAN_STORE: must not contain a password; use a password file and set PGPASSFILE to its path$/,
      ],
      [{ store: 'postgres://h/d' }, /^CAPSTAN_STORE: must name a user before the host$/],
      [{ store: 'postgres://u@h' }, /^CAPSTAN_STORE: must name one database after the host$/],
      [{ store: 'postgres://u@h/d?pool=3' }, /^CAPSTAN_STORE: unknown option "pool"/],
      [
        { store: 'postgres://u@h/d?sslmode=prefer' },
        /^CAPSTAN_STORE: sslmode must be disable, require, verify-ca or verify-full, not "prefer"$/,
      ],
      [{ store: 'postgres://u@127.0.0.1/d', isBlobDirShared: 'true' }, /^CAPSTAN_BLOB_DIR_SHARED: requires CAPSTAN_BLOB_DIR$/],
    ] as const;
    for (const [settings, message] of cases) {
      const error = await t.throwsAsync<CapstanError>(TestScheduler.open({ ...settings, dataDir: await folderOf(t) }), {
        code: 'CONFIG',
        message,
      });
      t.notRegex(error?.message ?? '', /secret@/);
    }
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

/** Backups of a scheduler that serves: what was acknowledged before is in the copy, and a scheduler starts from it. */
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { backUp } from '../../supervisor/backup.ts';
import { BlobPurpose, type StatBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { GetEndpointResponse, SnapshotQueueResponse } from '../../proto/gen/capstan/v1/control.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { run } from '../cli/fakes/run.ts';
import { TestScheduler, unary, type TestChannel } from '../support/scheduler-client.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');

async function open(t: ExecutionContext, settings: Record<string, unknown> = {}): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open(settings);
  t.teardown(() => scheduler.close());
  return scheduler;
}

const snapshot = async (scheduler: TestScheduler): Promise<string> => {
  const key = scheduler.bearer(scheduler.secret('api-key'));
  return (await unary<SnapshotQueueResponse>((done) => scheduler.control.snapshotQueue({}, key, done))).file;
};

function submit(channel: TestChannel, endpoint: string, jobId: string, body: NonNullable<Submit['input']>['body']): Promise<JobReply> {
  const job = { jobId, kind: JobKind.RUN, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 };
  return channel.ask(endpoint, { $case: 'submit', value: { ...job, input: body === undefined ? {} : { body } } });
}

async function stateOf(channel: TestChannel, endpoint: string, jobId: string): Promise<JobState | undefined> {
  const { result } = await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } });
  return result?.$case === 'job' ? result.value.state : undefined;
}

async function putBody(scheduler: TestScheduler, bytes: Buffer): Promise<string> {
  const { id } = await unary<{ id: string }>((done) => {
    const call = scheduler.blobs.put(scheduler.bearer(scheduler.secret('gateway-token')), done);
    call.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BODY, size: bytes.length, digest: '' } } });
    call.write({ part: { $case: 'data', value: bytes } });
    call.end();
  });
  return id;
}

test('a backup under load holds all that was acknowledged, and a scheduler starts from it', async (t) => {
  const unlimited = { rateLimits: 'run=0/0,status=0/0' };
  const scheduler = await open(t, unlimited);
  const { endpoints } = await scheduler.deploy([{ name: 'echo', env: { SECRET: 'kept' }, workersMin: 1 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const channel = scheduler.channel();
  const body = await putBody(scheduler, Buffer.alloc(100_000, ' '));
  await submit(channel, endpoint, 'big', { $case: 'blob', value: { id: body, size: 100_000 } });
  const small = { $case: 'inline', value: Buffer.from('{}') } as const;
  const before: string[] = [];
  for (let i = 0; i < 500; i += 1) before.push(`before-${i}`);
  const replies = await Promise.all(before.map((id) => submit(channel, endpoint, id, small)));
  t.true(replies.every(({ result }) => result?.$case === 'job'));

  // Submissions go on all the while.
  let meanwhile = 0;
  const stop = new AbortController();
  const load = (async () => {
    while (!stop.signal.aborted) await submit(channel, endpoint, `meanwhile-${meanwhile++}`, small);
  })();
  const target = join(await folderOf(t), 'copy');
  const tool = run([bin, 'backup', target, '--json', '--data-dir', scheduler.dataDir, '--scheduler', scheduler.handle.address]);
  t.is(await tool.ended, 0, tool.stderr());
  const made = JSON.parse(tool.stdout()) as { folder: string; files: number; bytes: number };
  t.is(made.folder, target);
  t.regex(tool.stderr(), /next: cp -a /);
  stop.abort();
  await load;
  t.true(made.files >= 8 && made.bytes > 100_000, JSON.stringify(made));
  t.deepEqual(
    (await readdir(join(scheduler.dataDir, 'scheduler'))).filter((name) => name.includes('snapshot')),
    [],
  );
  for (const name of ['secrets/master-key', 'scheduler/capstan.db']) t.is((await stat(join(target, name))).mode & 0o777, 0o600, name);

  const restored = await open(t, { ...unlimited, dataDir: target });
  const again = restored.channel();
  const states = await Promise.all(['big', ...before].map((id) => stateOf(again, endpoint, id)));
  t.deepEqual(new Set(states), new Set([JobState.IN_QUEUE]));
  const key = restored.bearer(scheduler.secret('api-key'));
  const found = await unary<GetEndpointResponse>((done) => restored.control.getEndpoint({ endpointId: endpoint }, key, done));
  t.is(found.info?.spec?.name, 'echo');
  const gateway = restored.bearer(scheduler.secret('gateway-token'));
  // What is encrypted can be read, and the build that workers start from is there.
  const session = (await restored.join('host')).session();
  let desired = await session.take('desired');
  while (desired.releases.length === 0) desired = await session.take('desired');
  t.deepEqual(desired.releases[0]?.env, { SECRET: 'kept' });
  for (const [id, who] of [
    [body, gateway],
    [`build/${desired.releases[0]?.buildDigest ?? ''}`, key],
  ] as const)
    t.true((await unary<StatBlobResponse>((done) => restored.blobs.stat({ id }, who, done))).exists, id);
});

test('a backup never replaces anything, and a failed one leaves nothing', async (t) => {
  const scheduler = await open(t);
  const { dataDir } = scheduler;
  const folder = await folderOf(t);
  const take = () => snapshot(scheduler);
  await mkdir(join(folder, 'there'));
  const refusals: [string, string, RegExp][] = [
    [join(folder, 'there'), 'ALREADY_EXISTS', /already exists/],
    [join(folder, 'no', 'such'), 'NOT_FOUND', /does not exist/],
    [join(dataDir, 'copy'), 'INVALID_ARGUMENT', /inside the data folder/],
  ];
  for (const [target, code, message] of refusals) await t.throwsAsync(backUp({ dataDir, target, snapshot: take }), { code, message });
  const target = join(folder, 'copy');
  await t.throwsAsync(backUp({ dataDir: folder, target, snapshot: take }), {
    code: 'DATA_DIR',
    message: /is not a data folder of Capstan/,
  });
  const other = await open(t);
  await t.throwsAsync(backUp({ dataDir, target, snapshot: () => snapshot(other) }), {
    code: 'INVALID_ARGUMENT',
    message: /has its data in/,
  });
  t.deepEqual(await readdir(folder), ['there']);
});

test('one copy of the database is written at a time, and what a cut-off backup left goes with the next start', async (t) => {
  const scheduler = await open(t);
  const settled = await Promise.allSettled([snapshot(scheduler), snapshot(scheduler)]);
  t.deepEqual(settled.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  const file = await snapshot(scheduler);
  await writeFile(`${file}-journal`, '');
  await scheduler.restart();
  t.deepEqual(
    (await readdir(join(scheduler.dataDir, 'scheduler'))).filter((name) => name.includes('snapshot')),
    [],
  );
});

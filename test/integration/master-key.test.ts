/** Rotating the master key: nothing that was encrypted is lost, wherever it is cut off, and nothing is left under the old one. */
import { readFileSync } from 'node:fs';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import Database from 'better-sqlite3';

import { backUp } from '../../supervisor/backup.ts';
import { JobKind, WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import {
  AlertChannelKind,
  type AlertChannel,
  type GetWebhookSecretResponse,
  type KeyEntry,
  type ListAlertChannelsResponse,
  type MasterKeyInfo,
  type RotateWebhookSecretResponse,
  type SnapshotQueueResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import { WorkerStatus } from '../../proto/gen/capstan/v1/nodes.ts';
import { masterKeyId } from '../../scheduler/secrets/cipher.ts';
import { prepareDataFolder } from '../../scheduler/secrets/data-folder.ts';
import { WorkerTokens } from '../../scheduler/secrets/worker-tokens.ts';
import { run } from '../cli/fakes/run.ts';
import { TestScheduler, unary, type TestChannel, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
const mortal = join(import.meta.dirname, 'mortal-scheduler.ts');
const s3Config = { accessId: 'id', accessSecret: 'very secret', bucketName: 'b', endpointUrl: 'https://s3.example', more: '', json: '' };
const keyFiles = (dataDir: string): Promise<string[]> =>
  readdir(join(dataDir, 'secrets')).then((names) => names.filter((name) => name.startsWith('master-key')));
const presentKey = (dataDir: string): string => readFileSync(join(dataDir, 'secrets', 'master-key'), 'utf8').trim();
const idOfKey = (hex: string): string => masterKeyId(Buffer.from(hex, 'hex'));

async function submit(channel: TestChannel, endpoint: string, jobId: string): Promise<void> {
  const job = { jobId, kind: JobKind.RUN, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, s3Config };
  await channel.ask(endpoint, { $case: 'submit', value: { ...job, input: { body: { $case: 'inline', value: Buffer.from('{}') } } } });
}

/** Ids of the keys that encrypted something of what is stored, and how many values there are. */
function keysInUse(file: string): { readonly ids: Set<string>; readonly values: number } {
  const db = new Database(file, { readonly: true });
  try {
    const sealed: Buffer[] = db.prepare<[], Buffer>('SELECT s3 FROM inputs WHERE s3 IS NOT NULL').pluck().all();
    for (const text of db.prepare<[], string>('SELECT value FROM control').pluck().all()) {
      JSON.parse(text, (name, value: unknown) => {
        if (/^(envSealed|webhookSecretSealed|sealed)$/.test(name) && typeof value === 'string') sealed.push(Buffer.from(value, 'base64'));
        return value;
      });
    }
    return { ids: new Set(sealed.map((bytes) => bytes.subarray(1, 5).toString('hex'))), values: sealed.length };
  } finally {
    db.close();
  }
}

interface Filled {
  readonly endpoint: string;
  readonly webhookSecret: string;
  /** How many values are encrypted; the release and the last deployment have one in common. */
  readonly values: number;
}

/** An account's webhook secrets and alert channel, two deployments and jobs with credentials. */
async function fill(scheduler: TestScheduler, jobs: number): Promise<Filled> {
  const owner = scheduler.bearer(scheduler.secret('api-key'));
  await scheduler.deploy([{ name: 'echo', env: { SECRET: 'first' }, workersMin: 1 }], { bytes: Buffer.from('another build') });
  const { endpoints } = await scheduler.deploy([{ name: 'echo', env: { SECRET: 'kept' }, workersMin: 1 }]);
  await unary<GetWebhookSecretResponse>((done) => scheduler.control.getWebhookSecret({}, owner, done));
  const { secret } = await unary<RotateWebhookSecretResponse>((done) => scheduler.control.rotateWebhookSecret({}, owner, done));
  const endpoint = endpoints[0]?.id ?? '';
  const channel = scheduler.channel();
  await Promise.all(Array.from({ length: jobs }, (_, i) => submit(channel, endpoint, `job-${i}`)));
  const alerts = { kind: AlertChannelKind.WEBHOOK, address: 'http://127.0.0.1:1/secret' };
  await unary<AlertChannel>((done) => scheduler.control.addAlertChannel(alerts, owner, done));
  // Two secrets, the address of alerts, a release and two deployments.
  return { endpoint, webhookSecret: secret, values: jobs + 6 };
}

/** A worker of a new host is ready; what its agent was told. */
async function worker(scheduler: TestScheduler): Promise<{ session: TestSession; token: string; env: Record<string, string> | undefined }> {
  const session = (await scheduler.join('host')).session();
  let desired = await session.take('desired');
  while (desired.workers.length === 0) desired = await session.take('desired');
  const { epoch, workers, releases } = desired;
  const [spec] = workers;
  const [release] = releases;
  const { workerId = '', releaseId = '', token = '' } = spec ?? {};
  const status = WorkerStatus.fromPartial({ workerId, releaseId, endpointId: release?.endpointId ?? '', state: WorkerState.IDLE });
  session.send({ $case: 'workers', value: { epoch, workers: [status] } });
  return { session, token, env: release?.env };
}

/** What was encrypted comes back as it was: to agents, to jobs, to who checks webhooks. */
async function readsBack(t: ExecutionContext, scheduler: TestScheduler, { webhookSecret }: Filled): Promise<void> {
  const { session, env } = await worker(scheduler);
  t.deepEqual(env, { SECRET: 'kept' });
  t.deepEqual((await session.take('dispatch')).s3Config, s3Config);
  const owner = scheduler.bearer(scheduler.secret('api-key'));
  const { secret } = await unary<GetWebhookSecretResponse>((done) => scheduler.control.getWebhookSecret({}, owner, done));
  t.is(secret, webhookSecret);
  const { channels } = await unary<ListAlertChannelsResponse>((done) => scheduler.control.listAlertChannels({}, owner, done));
  const id = channels[0]?.id ?? '';
  const { error } = await unary<{ error: string }>((done) => scheduler.control.testAlertChannel({ id }, owner, done));
  t.is(error, 'connection refused', 'the address is read, and nobody listens there');
}

const stateOf = (scheduler: TestScheduler): Promise<MasterKeyInfo> =>
  unary((done) => scheduler.control.getMasterKey({}, scheduler.bearer(scheduler.secret('api-key')), done));
const rotate = (scheduler: TestScheduler): Promise<MasterKeyInfo> =>
  unary((done) => scheduler.control.rotateMasterKey({}, scheduler.bearer(scheduler.secret('api-key')), done));

/** A copy of the database, which the running scheduler itself has locked. */
async function snapshot(scheduler: TestScheduler): Promise<string> {
  const owner = scheduler.bearer(scheduler.secret('api-key'));
  return (await unary<SnapshotQueueResponse>((done) => scheduler.control.snapshotQueue({}, owner, done))).file;
}

async function open(t: ExecutionContext, settings: Record<string, unknown> = {}): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open({ rateLimits: 'run=0/0', webhookAllow: '127.0.0.0/8', ...settings });
  t.teardown(() => scheduler.close());
  return scheduler;
}

test('a rotation while everything serves: all is read as before, nothing is left under the old key, and no worker loses its token', async (t) => {
  const scheduler = await open(t);
  const filled = await fill(scheduler, 250);
  const { dataDir } = scheduler;
  const before = presentKey(dataDir);
  t.like(await stateOf(scheduler), { id: idOfKey(before), rotating: false });
  const first = await worker(scheduler);
  const workerKey = (token: string) =>
    unary<KeyEntry>((done) =>
      scheduler.control.lookupKey({ hash: Buffer.alloc(0), workerToken: token }, scheduler.bearer(scheduler.secret('gateway-token')), done),
    );

  // Submissions go on all the while.
  let meanwhile = 0;
  const stop = new AbortController();
  const load = (async () => {
    const channel = scheduler.channel();
    while (!stop.signal.aborted) await submit(channel, filled.endpoint, `meanwhile-${meanwhile++}`);
  })();
  const tool = run([bin, 'master-key', 'rotate', '--json', '--data-dir', dataDir, '--scheduler', scheduler.handle.address]);
  t.is(await tool.ended, 0, tool.stderr());
  stop.abort();
  await load;
  const after = presentKey(dataDir);
  t.not(after, before);
  const told = JSON.parse(tool.stdout()) as { id: string; since: string; rotating: boolean; renewed: number };
  t.like(told, { id: idOfKey(after), rotating: false });
  t.true(told.renewed >= filled.values - 1, `${told.renewed} of ${filled.values}`);
  t.deepEqual(await keyFiles(dataDir), ['master-key']);
  const inUse = keysInUse(await snapshot(scheduler));
  t.deepEqual([...inUse.ids], [idOfKey(after)]);
  t.is(inUse.values, filled.values + meanwhile + 2, 'and the keys of before: of the token of the worker, and of webhooks’ URLs');

  // The worker of before has its token in its environment; who knows the old key can make none for later workers.
  t.deepEqual((await first.session.take('dispatch')).s3Config, s3Config);
  t.is((await workerKey(first.token)).environment, 'default');
  await scheduler.deploy([{ name: 'later', workersMin: 1 }]);
  let desired = await first.session.take('desired');
  while (desired.workers.length < 2) desired = await first.session.take('desired');
  const second = desired.workers.find(({ token }) => token !== first.token);
  if (second === undefined) throw new Error('the worker of before has another token');
  const id = second.workerId;
  t.is((await workerKey(second.token)).environment, 'default');
  const forged = new WorkerTokens(Buffer.from(before, 'hex')).tokenOf({ id, tokenKey: '' });
  await t.throwsAsync(workerKey(forged), { code: 'NOT_FOUND' });

  await scheduler.restart();
  t.is((await workerKey(first.token)).environment, 'default');
  t.is((await workerKey(second.token)).environment, 'default');
  t.like(await stateOf(scheduler), { id: idOfKey(after), rotating: false, renewed: 0 });
  // Once more: the key of the token of the first worker comes along.
  await rotate(scheduler);
  t.is((await workerKey(first.token)).environment, 'default');
  t.is((await workerKey(second.token)).environment, 'default');
  t.is(keysInUse(await snapshot(scheduler)).ids.size, 1);
});

test('a rotation killed wherever it is goes on at the next start, and until then both keys are there', async (t) => {
  const dataDir = await folderOf(t);
  const scheduler = await TestScheduler.open({ dataDir, rateLimits: 'run=0/0', webhookAllow: '127.0.0.0/8' });
  const filled = await fill(scheduler, 1_500);
  await scheduler.handle.close();
  const before = presentKey(dataDir);

  // The first begins the rotation, the others go on with what is left of it.
  const left: number[] = [];
  for (const times of [0, 25, 40]) {
    const child = run([mortal, dataDir, String(times)]);
    t.is(await child.ended, 'SIGKILL', child.stderr());
    const keys = await prepareDataFolder(dataDir);
    const held = [keys.secrets.masterKey, ...keys.secrets.olderMasterKeys].map(masterKeyId);
    t.true(held.includes(idOfKey(before)));
    const { ids } = keysInUse(join(dataDir, 'scheduler', 'capstan.db'));
    for (const id of ids) t.true(held.includes(id), `a value needs the key ${id}, there are ${held.join(', ')}`);
    left.push(ids.size);
  }
  t.true(left.includes(2), `one was killed while some values were under either key: ${left.join(', ')}`);

  const restored = await open(t, { dataDir });
  await until('the rotation is over', async () => !(await stateOf(restored)).rotating);
  t.deepEqual(await keyFiles(dataDir), ['master-key']);
  const after = presentKey(dataDir);
  t.not(after, before);
  const { ids, values } = keysInUse(await snapshot(restored));
  t.deepEqual([...ids], [idOfKey(after)]);
  t.is(values, filled.values + 1, 'and the key of webhooks’ URLs of before');
  await readsBack(t, restored, filled);
});

test('a rotation cut off before it had its new key leaves the old one, and nothing else', async (t) => {
  const scheduler = await open(t);
  const { dataDir } = scheduler;
  const filled = await fill(scheduler, 1);
  const key = presentKey(dataDir);
  await writeFile(join(dataDir, 'secrets', 'master-key.old'), `${key}\n`);
  await writeFile(join(dataDir, 'secrets', '.new-0123456789abcdef'), 'half a k');
  await scheduler.restart();
  await until('nothing is left of it', async () => (await readdir(join(dataDir, 'secrets'))).length === 4);
  t.is(presentKey(dataDir), key);
  await readsBack(t, scheduler, filled);
});

test('a backup made while the key changes holds the keys that read its copy of the database', async (t) => {
  const scheduler = await open(t);
  const { dataDir } = scheduler;
  const filled = await fill(scheduler, 1);
  const before = presentKey(dataDir);
  const target = join(await folderOf(t), 'copy');
  await backUp({
    dataDir,
    target,
    snapshot: async () => {
      const file = await snapshot(scheduler);
      await rotate(scheduler);
      return file;
    },
  });
  t.is(presentKey(target), before);
  t.not(presentKey(dataDir), before);
  t.deepEqual(
    (await readdir(join(dataDir, 'scheduler'))).filter((name) => name.includes('snapshot')),
    [],
  );
  await readsBack(t, await open(t, { dataDir: target }), filled);
});

test('keys that are no keys are refused by their file, and a value that no key opens keeps no rotation from its end', async (t) => {
  const scheduler = await open(t);
  const { dataDir } = scheduler;
  const filled = await fill(scheduler, 1);
  await scheduler.handle.close();
  const old = join(dataDir, 'secrets', 'master-key.old');
  await writeFile(old, 'short\n');
  await t.throwsAsync(prepareDataFolder(dataDir), { code: 'DATA_DIR', message: /each line of master-key\.old must be 64 hex digits/ });
  await rm(old);
  const db = new Database(join(dataDir, 'scheduler', 'capstan.db'));
  const lost = Buffer.concat([Buffer.of(1), Buffer.from('00000000', 'hex'), Buffer.alloc(40)]);
  db.prepare("INSERT INTO inputs (seq, inline, s3) VALUES (1000, x'7b7d', ?)").run(lost);
  db.close();
  const again = await open(t, { dataDir });
  t.like(await rotate(again), { rotating: false, renewed: filled.values - 1 });
});

/** Builds and bodies of several schedulers: in S3-compatible storage, or in a folder that they share. */
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start as startGateway } from '../../gateway/assembly/start.ts';
import { BlobPurpose, type PutBlobResponse, type StatBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { s3Settings, startS3, type S3Server } from '../support/s3-server.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { copyOfSecrets } from '../support/schedulers.ts';
import { lines, openScheduler, serving, stop } from '../support/several-schedulers.ts';
import { until } from '../support/until.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
const HOUR = 3_600_000;
const large = Buffer.alloc(100_000, 'input ');

await withPostgres('cluster blobs', tests);

function tests(server: PostgresServer): void {
  test('with S3-compatible storage a standby has bodies and builds, without a common folder', async (t) => {
    const storage = await s3(t);
    const shared = { store: await server.newDatabase(), ...s3Settings(storage) };
    const owner = await openScheduler(t, shared);
    const build = Buffer.alloc(250_000, 'build');
    const { endpoints } = await owner.deploy([{ name: 'echo', workersMin: 1 }], { bytes: build });
    const endpoint = endpoints[0]?.id ?? '';
    const body = await owner.putBody(large);
    t.is(stateOf(await owner.channel().ask(endpoint, submit('job', body))), JobState.IN_QUEUE);
    t.deepEqual(filesOf(owner), [], 'nothing stays in the folder');

    const starting = openScheduler(t, { ...shared, dataDir: await copyOfSecrets(t, owner.dataDir) });
    await stop(owner);
    const standby = await serving(await starting);
    const node = await standby.join('host');
    const session = node.session();
    await session.bringUp();
    const { input } = await session.take('dispatch');
    t.is(input?.body?.$case === 'blob' ? input.body.value.id : '', body);
    t.true((await read(standby, body, node.credentials)).equals(large));
    t.true((await read(standby, `build/${digestOf(build)}`, node.credentials)).equals(build));
  });

  test('an upload that a failover cut off begins anew at the next owner, and its sender is told where', async (t) => {
    const shared = { store: await server.newDatabase(), ...s3Settings(await s3(t)) };
    const owner = await openScheduler(t, shared);
    const build = Buffer.alloc(200_000, 'parts');
    t.is((await part(owner, build, 0, 120_000)).received, 120_000);
    const starting = openScheduler(t, { ...shared, dataDir: await copyOfSecrets(t, owner.dataDir) });
    await stop(owner);
    const next = await serving(await starting);
    await t.throwsAsync(part(next, build, 120_000, build.length), { code: 'CONFLICT', message: /must start at byte 0/ });
    t.like(await stat(next, build), { exists: false, received: 0 });
    t.is((await part(next, build, 0, 120_000)).received, 120_000);
    t.is((await part(next, build, 120_000, build.length)).received, build.length);
    t.like(await stat(next, build), { exists: true, size: build.length });
  });

  test('a deployment whose upload meets a failover ends well: the tool begins it anew', async (t) => {
    const storage = await s3(t);
    const shared = { store: await server.newDatabase(), ...s3Settings(storage) };
    const owner = await openScheduler(t, shared);
    const standby = await openScheduler(t, { ...shared, dataDir: await copyOfSecrets(t, owner.dataDir) });
    const schedulers = `${owner.handle.address},${standby.handle.address}`;
    const own = { scheduler: schedulers, token: owner.secret('gateway-token'), port: 0, logLevel: 'silent', closeGraceMs: 0 };
    const gateway = await startGateway(readConfig(own, {}));
    t.teardown(() => gateway.close());
    const folder = await folderOf(t);
    await writeFile(join(folder, 'noise.bin'), randomBytes(20_000_000));
    await writeFile(
      join(folder, 'hello.ts'),
      "import { endpoint } from '@capstan/sdk';\nexport const hello = endpoint({ name: 'hello' }, (name: string) => name);\n",
    );
    // All parts have arrived, and the owner goes while it sends the build to the storage.
    let stopping: Promise<void> | undefined;
    storage.fault = (method, key) => {
      if (method !== 'PUT' || !key.startsWith('build/') || stopping !== undefined) return undefined;
      stopping = stop(owner);
      return stopping.then(() => ({ kind: 'status', status: 503, code: 'SlowDown' }));
    };
    const env = { SERVICE_API_KEY: owner.secret('api-key'), CAPSTAN_URL: gateway.url, CAPSTAN_DATA_DIR: await folderOf(t) };
    const tool = run([bin, 'deploy', folder, '--no-wait', '--url', gateway.url], { cwd: folder, env });
    t.is(await tool.ended, 0, tool.stderr());
    t.not(stopping, undefined);
    t.regex(tool.stderr(), /retrying in/);
    t.is([...storage.objects.keys()].filter((key) => key.startsWith('build/')).length, 1);
  });

  test('a storage that is busy refuses a body before a row names it', async (t) => {
    const storage = await s3(t);
    const owner = await openScheduler(t, { store: await server.newDatabase(), ...s3Settings(storage) });
    storage.fault = (method) => (method === 'PUT' ? { kind: 'status', status: 503, code: 'SlowDown' } : undefined);
    await t.throwsAsync(owner.putBody(large), { code: 'UNAVAILABLE', message: /status 503 \(SlowDown\)/ });
    t.deepEqual(filesOf(owner), []);
    storage.fault = () => undefined;
    t.regex(await owner.putBody(large), /^body\//);
  });

  test('a second scheduler that would lack bodies is refused, and the message names the setting', async (t) => {
    const shared = { store: await server.newDatabase(), ...s3Settings(await s3(t)), s3Bodies: 'false' };
    const owner = await openScheduler(t, shared);
    const second = TestScheduler.open({ ...shared, dataDir: await copyOfSecrets(t, owner.dataDir) });
    await t.throwsAsync(second, { code: 'CONFIG', message: /a standby requires CAPSTAN_S3_BODIES, or CAPSTAN_BLOB_DIR_SHARED/ });
    const alone = TestScheduler.open({ dataDir: await folderOf(t), s3Bodies: 'true' });
    await t.throwsAsync(alone, { code: 'CONFIG', message: /^CAPSTAN_S3_BODIES: requires CAPSTAN_S3_ENDPOINT$/ });
  });

  test('a standby whose shared folder is not mounted says so and does not take the queue over', async (t) => {
    const [blobDir, notMounted] = [await folderOf(t), await folderOf(t)];
    const shared = { store: await server.newDatabase(), isBlobDirShared: 'true' };
    const owner = await openScheduler(t, { ...shared, blobDir });
    const said = lines();
    const settings = { ...shared, blobDir: notMounted, dataDir: await copyOfSecrets(t, owner.dataDir) };
    const starting = openScheduler(t, settings, said.log);
    await said.until(`CAPSTAN_BLOB_DIR: ${notMounted} is not the blob store of the queue: it has no store-id`);
    await stop(owner);
    const [before] = await server.query(shared.store, 'SELECT take_overs::int AS count FROM capstan.cells');
    t.deepEqual(before, { count: 0 });
    await copyFile(join(blobDir, 'store-id'), join(notMounted, 'store-id'));
    await serving(await starting);
    t.pass();
  });

  test('blobs move from a shared folder to S3-compatible storage: the folder is still read, and the bucket is the store', async (t) => {
    const storage = await s3(t);
    const folder = { store: await server.newDatabase(), blobDir: await folderOf(t), isBlobDirShared: 'true' };
    const first = await openScheduler(t, folder);
    const body = await first.putBody(large);
    await stop(first);
    const shared = { ...folder, ...s3Settings(storage), isBlobDirShared: 'false', s3Bodies: 'true' };
    const next = await serving(await openScheduler(t, { ...shared, dataDir: await copyOfSecrets(t, first.dataDir) }));
    t.true((await read(next, body, next.bearer(next.secret('gateway-token')))).equals(large));
    t.is(storage.objects.get('store-id')?.bytes.toString(), (await readFile(join(folder.blobDir, 'store-id'), 'utf8')).trim());
    await stop(next);
    const other = await s3(t);
    const said = lines();
    const stranger = { ...shared, ...s3Settings(other), blobDir: await folderOf(t), dataDir: await copyOfSecrets(t, first.dataDir) };
    const starting = openScheduler(t, stranger, said.log);
    await said.until('CAPSTAN_S3_BUCKET: capstan is not the blob store of the queue: it has no store-id');
    t.false(other.objects.has('store-id'));
    await starting;
  });

  test('a standby that starts on the shared folder leaves an upload of the owner alone', async (t) => {
    const blobDir = await folderOf(t);
    const shared = { store: await server.newDatabase(), blobDir, isBlobDirShared: 'true' };
    const owner = await openScheduler(t, shared);
    const incoming = (): string[] => readdirSync(join(blobDir, 'incoming'));
    const upload = Promise.withResolvers<PutBlobResponse>();
    const call = owner.blobs.put(owner.bearer(owner.secret('gateway-token')), (error, reply) =>
      error === null ? upload.resolve(reply) : upload.reject(error),
    );
    call.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BODY, size: large.length, digest: '' } } });
    call.write({ part: { $case: 'data', value: large.subarray(0, 50_000) } });
    await until('the upload has a file', () => incoming().length === 1);

    const starting = openScheduler(t, { ...shared, dataDir: await copyOfSecrets(t, owner.dataDir) });
    await server.query(shared.store, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'capstan cell %'");
    await until('the standby is there', async () => (await connections(server, shared.store)) > 1);
    call.write({ part: { $case: 'data', value: large.subarray(50_000) } });
    call.end();
    const { id } = await upload.promise;
    await stop(owner);
    const standby = await serving(await starting);
    t.true((await read(standby, id, standby.bearer(standby.secret('gateway-token')))).equals(large));
  });

  test('the sweep of a new owner keeps builds of other cells and the bodies that agents still have to name', async (t) => {
    const storage = await s3(t);
    const shared = { store: await server.newDatabase(), ...s3Settings(storage) };
    const owner = await openScheduler(t, shared);
    const [orphan, another] = [await owner.putBody(large), Buffer.alloc(10_000, 'other cell')];
    // The last one in the order of the listing.
    const stray = `build/${'f'.repeat(64)}`;
    const named = `build/${digestOf(another)}`;
    for (const id of [stray, named]) storage.objects.set(id, { bytes: another, etag: '"e"', metadata: {}, at: 0 });
    await owner.deploy([{ name: 'echo' }]);
    await server.query(
      shared.store,
      `INSERT INTO capstan.cells (cell, name, owner, address, term, batch, wall, highest_seq, highest_queue_position)
         VALUES (77, 'other', 'o', 'h:1', 1, 0, 0, 0, 0);
       INSERT INTO capstan.control (version, cell, kind, key, value) VALUES (1, 77, 'build', '${digestOf(another)}', '{}')`,
    );
    for (const object of storage.objects.values()) object.at = Date.now() - 2 * HOUR;
    const before = [...storage.objects.keys()];
    await owner.restart();
    await until('the stray build is gone', () => !storage.objects.has(stray));
    t.deepEqual([...storage.objects.keys()].toSorted(), before.filter((id) => id !== stray).toSorted());
    t.true(storage.objects.has(named) && storage.objects.has(orphan));
  });
}

async function s3(t: ExecutionContext): Promise<S3Server> {
  const storage = await startS3();
  t.teardown(() => storage.close());
  return storage;
}

async function connections(server: PostgresServer, store: string): Promise<number> {
  const [row] = await server.query(
    store,
    "SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'capstan cell %'",
  );
  return Number(row?.['count']);
}

/** Blobs and parts of them in the scheduler's own folder. */
function filesOf({ dataDir }: TestScheduler): string[] {
  return readdirSync(join(dataDir, 'scheduler', 'blobs'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);
}

function submit(jobId: string, id: string): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'blob', value: { id, size: large.length } } } as const;
  const value = { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 };
  return { $case: 'submit', value };
}

async function read(scheduler: TestScheduler, id: string, credentials: ReturnType<TestScheduler['bearer']>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const message of scheduler.blobs.get({ id }, credentials)) {
    const { part: piece } = message as { part?: { $case: string; value: unknown } };
    if (piece?.$case === 'data') parts.push(piece.value as Buffer);
  }
  return Buffer.concat(parts);
}

/** Sends a part of a build, as the gateway does. */
function part(scheduler: TestScheduler, build: Buffer, offset: number, end: number): Promise<PutBlobResponse> {
  return unary((done) => {
    const call = scheduler.blobs.put(scheduler.bearer(scheduler.secret('api-key')), done);
    const value = { purpose: BlobPurpose.BUILD, size: build.length, digest: digestOf(build), offset };
    call.write({ part: { $case: 'header', value } });
    call.write({ part: { $case: 'data', value: build.subarray(offset, end) } });
    call.end();
  });
}

function stat(scheduler: TestScheduler, build: Buffer): Promise<StatBlobResponse> {
  return unary((done) => scheduler.blobs.stat({ id: `build/${digestOf(build)}` }, scheduler.bearer(scheduler.secret('api-key')), done));
}

const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const stateOf = ({ result }: JobReply): JobState | null => (result?.$case === 'job' ? result.value.state : null);

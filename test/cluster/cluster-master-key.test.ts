/** Rotating the master key of several schedulers: all have the new key first, and whoever lacks a key owns nothing. */
import { existsSync, readFileSync } from 'node:fs';
import { copyFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { JobKind } from '../../proto/gen/capstan/v1/common.ts';
import type { GetWebhookSecretResponse, MasterKeyInfo, PrepareMasterKeyResponse } from '../../proto/gen/capstan/v1/control.ts';
import { masterKeyId } from '../../scheduler/secrets/cipher.ts';
import { run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { unary, type TestScheduler } from '../support/scheduler-client.ts';
import { copyOfSecrets } from '../support/schedulers.ts';
import { lines, openScheduler, serving, stop } from '../support/several-schedulers.ts';
import { until } from '../support/until.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
const mortal = join(import.meta.dirname, '../integration/mortal-scheduler.ts');
const s3Config = { accessId: 'id', accessSecret: 'very secret', bucketName: 'b', endpointUrl: 'https://s3.example', more: '', json: '' };

await withPostgres('cluster master key', tests);

function tests(server: PostgresServer): void {
  test('a rotation is refused while a scheduler lacks the new key, and names it; then all follow it', async (t) => {
    const shared = await sharedSettings(t, server);
    const owner = await openScheduler(t, shared);
    const secret = await fill(owner);
    const standbyFolder = await copyOfSecrets(t, owner.dataDir);
    const starting = openScheduler(t, { ...shared, dataDir: standbyFolder });
    await until('the owner sees the standby', async () => (await holders(server, shared.store)) === 2);
    const before = presentKey(owner.dataDir);

    await t.throwsAsync(rotate(owner), {
      code: 'CONFLICT',
      message: /^the queue has other schedulers \(.+\): create the new key with `capstan master-key prepare`, copy .*master-key\.next/,
    });
    const tool = run([bin, 'master-key', 'prepare', '--json', '--data-dir', owner.dataDir, '--scheduler', owner.handle.address]);
    t.is(await tool.ended, 0, tool.stderr());
    const prepared = JSON.parse(tool.stdout()) as { id: string; file: string; lacking: string[] };
    t.is(prepared.file, join(owner.dataDir, 'secrets', 'master-key.next'));
    t.is(prepared.lacking.length, 1);
    t.regex(tool.stderr(), /does not have the key: copy the file/);
    t.is((await prepare(owner)).id, prepared.id, 'a second time gives the same key');
    await t.throwsAsync(rotate(owner), {
      code: 'CONFLICT',
      message: new RegExp(`^these schedulers lack the new master key ${prepared.id}: .+`),
    });
    t.is(presentKey(owner.dataDir), before);

    await copyFile(prepared.file, join(standbyFolder, 'secrets', 'master-key.next'));
    await until('nobody lacks it', async () => (await prepare(owner)).lacking.length === 0);
    t.like(await rotate(owner), { id: prepared.id, rotating: false, nextId: '' });
    for (const folder of [owner.dataDir, standbyFolder]) {
      await until('only the new key is left', async () => (await keyFiles(folder)).join() === 'master-key');
      t.is(idOf(presentKey(folder)), prepared.id);
    }
    t.deepEqual(await keysInUse(server, shared.store), [prepared.id]);

    await stop(owner);
    const next = await serving(await starting);
    t.is(await webhookSecret(next), secret);
    t.like(await stateOf(next), { id: prepared.id, rotating: false });
  });

  test('key rotation with a standby down: it comes back without the key, says so and owns nothing until it has it', async (t) => {
    const shared = await sharedSettings(t, server);
    const owner = await openScheduler(t, shared);
    const secret = await fill(owner);
    const downFolder = await copyOfSecrets(t, owner.dataDir);
    t.is((await rotate(owner)).rotating, false);

    const said = lines();
    const starting = openScheduler(t, { ...shared, dataDir: downFolder }, said.log);
    await said.until('this scheduler cannot own the queue');
    t.regex(
      said.text(),
      new RegExp(`${downFolder}/secrets/master-key: this scheduler cannot own the queue, because it needs the master keys`),
    );
    t.notRegex(said.text(), new RegExp(presentKey(owner.dataDir)));
    await stop(owner);
    await until('it was there alone for a while', () => isAlone(server, shared.store));
    t.is(await ownerOf(server, shared.store), 1, 'nobody took the term');

    await copyFile(join(owner.dataDir, 'secrets', 'master-key'), join(downFolder, 'secrets', 'master-key'));
    const next = await serving(await starting);
    t.is(await webhookSecret(next), secret);
    t.is(await ownerOf(server, shared.store), 2);
  });

  test('an owner that is killed anywhere in a rotation leaves values that the next owner reads', async (t) => {
    const outcomes = new Set<string>();
    for (const times of [0, 2, 5, 12, 30]) {
      const shared = await sharedSettings(t, server);
      const first = await openScheduler(t, { ...shared, rateLimits: 'run=0/0' });
      const secret = await fill(first, 300);
      const { id } = await prepare(first);
      const [dataDir, standbyFolder] = [first.dataDir, await copyOfSecrets(t, first.dataDir)];
      const killedFolder = await copyOfSecrets(t, dataDir);
      await stop(first);
      const before = idOf(presentKey(dataDir));

      const child = run([mortal, killedFolder, String(times), JSON.stringify(shared)]);
      t.is(await child.ended, 'SIGKILL', child.stderr());
      const killed = idOf(presentKey(killedFolder));
      outcomes.add(`${(await keysInUse(server, shared.store)).length} keys are in use`);
      const standby = await serving(await openScheduler(t, { ...shared, dataDir: standbyFolder }));
      t.is(await webhookSecret(standby), secret);
      await until('the rotation is over, or was not begun', async () => !(await stateOf(standby)).rotating);
      const { id: present } = await stateOf(standby);
      outcomes.add(present === before ? 'not begun' : 'finished by the standby');
      t.true([before, id].includes(present));
      t.deepEqual(await keysInUse(server, shared.store), [present]);

      // Who was killed holds what the queue needs, and a rotation that it began is finished.
      await stop(standby);
      const back = await serving(await openScheduler(t, { ...shared, dataDir: killedFolder }));
      t.is(await webhookSecret(back), secret);
      await until('the rotation is over', async () => !(await stateOf(back)).rotating);
      const left = killed === id ? id : present;
      t.is((await stateOf(back)).id, left);
      t.deepEqual(await keysInUse(server, shared.store), [left]);
      await stop(back);
    }
    const expected = ['1 keys are in use', '2 keys are in use', 'finished by the standby', 'not begun'];
    t.deepEqual([...outcomes].toSorted(), expected);
  });
}

async function sharedSettings(t: ExecutionContext, server: PostgresServer) {
  return { store: await server.newDatabase(), blobDir: await folderOf(t), isBlobDirShared: 'true' };
}

/** Secrets of each kind; the webhook secret. */
async function fill(scheduler: TestScheduler, jobs = 20): Promise<string> {
  const { endpoints } = await scheduler.deploy([{ name: 'echo', env: { SECRET: 'kept' } }]);
  const channel = scheduler.channel();
  const submit = (jobId: string) => {
    const job = { jobId, kind: JobKind.RUN, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, s3Config };
    const input = { body: { $case: 'inline', value: Buffer.from('{}') } } as const;
    return channel.ask(endpoints[0]?.id ?? '', { $case: 'submit', value: { ...job, input } });
  };
  await Promise.all(Array.from({ length: jobs }, (_, number) => submit(`job-${number}`)));
  channel.end();
  return webhookSecret(scheduler);
}

async function webhookSecret(scheduler: TestScheduler): Promise<string> {
  const owner = scheduler.bearer(scheduler.secret('api-key'));
  return (await unary<GetWebhookSecretResponse>((done) => scheduler.control.getWebhookSecret({}, owner, done))).secret;
}

const stateOf = (scheduler: TestScheduler): Promise<MasterKeyInfo> =>
  unary((done) => scheduler.control.getMasterKey({}, scheduler.bearer(scheduler.secret('api-key')), done));
const rotate = (scheduler: TestScheduler): Promise<MasterKeyInfo> =>
  unary((done) => scheduler.control.rotateMasterKey({}, scheduler.bearer(scheduler.secret('api-key')), done));
const prepare = (scheduler: TestScheduler): Promise<PrepareMasterKeyResponse> =>
  unary((done) => scheduler.control.prepareMasterKey({}, scheduler.bearer(scheduler.secret('api-key')), done));

const presentKey = (dataDir: string): string => readFileSync(join(dataDir, 'secrets', 'master-key'), 'utf8').trim();
const idOf = (hex: string): string => masterKeyId(Buffer.from(hex, 'hex'));

async function keyFiles(dataDir: string): Promise<string[]> {
  const secrets = join(dataDir, 'secrets');
  return existsSync(secrets) ? (await readdir(secrets)).filter((name) => name.startsWith('master-key')) : [];
}

/** Ids of the keys that encrypted something of what is stored. */
async function keysInUse(server: PostgresServer, store: string): Promise<string[]> {
  const inputs = await server.query(store, "SELECT encode(substr(s3, 2, 4), 'hex') AS id FROM capstan.inputs WHERE s3 IS NOT NULL");
  const ids = new Set(inputs.map(({ id }) => String(id)));
  for (const { value } of await server.query(store, 'SELECT value::text AS value FROM capstan.control'))
    JSON.parse(String(value), (name, found: unknown) => {
      if (/^(envSealed|webhookSecretSealed|sealed)$/.test(name) && typeof found === 'string')
        ids.add(Buffer.from(found, 'base64').subarray(1, 5).toString('hex'));
      return found;
    });
  return [...ids];
}

async function holders(server: PostgresServer, store: string): Promise<number> {
  return (await server.query(store, 'SELECT id FROM capstan.schedulers')).length;
}

/** Whether the last scheduler's row was written long after the owner's last batch. */
async function isAlone(server: PostgresServer, store: string): Promise<boolean> {
  const started = await server.query(
    store,
    "SELECT count(*)::int AS count FROM capstan.schedulers s WHERE s.seen_at > s.started_at + interval '3 seconds'",
  );
  return started[0]?.['count'] === 1 && (await holders(server, store)) === 1;
}

/** How many schedulers took the cell over so far. */
async function ownerOf(server: PostgresServer, store: string): Promise<number> {
  const [row] = await server.query(store, 'SELECT take_overs::int AS count FROM capstan.cells');
  return Number(row?.['count']) + 1;
}

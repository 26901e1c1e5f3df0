/** Operators' keys and the accounts they manage, against a running scheduler: data folders of earlier versions, deletion, revocation. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import type { Metadata, ServiceError } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';
import Database from 'better-sqlite3';
import { pino, type Logger } from 'pino';

import { BlobPurpose, type PutBlobResponse, type StatBlobResponse } from '../../proto/gen/capstan/v1/blobs.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import * as control from '../../proto/gen/capstan/v1/control.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';

const { ALL, OPERATOR, READ_ONLY } = control.KeyScope;

type Done<Reply> = (error: ServiceError | null, reply: Reply) => void;

/** Calls with one key. */
function as(scheduler: TestScheduler, key = scheduler.secret('api-key')) {
  const metadata = scheduler.bearer(key);
  const call = async <Reply>(start: (client: control.ControlServiceClient, sent: Metadata, done: Done<Reply>) => unknown): Promise<Reply> =>
    unary<Reply>((done) => start(scheduler.control, sent(), done));
  const sent = (): Metadata => metadata;
  return {
    createKey: async (request: Partial<control.CreateKeyRequest>) => {
      const whole = control.CreateKeyRequest.fromPartial({ name: 'made', scope: ALL, ...request });
      return (await call<control.CreateKeyResponse>((client, with_, done) => client.createKey(whole, with_, done))).text;
    },
    keys: async (account = '') =>
      (await call<control.ListKeysResponse>((client, with_, done) => client.listKeys({ account }, with_, done))).keys,
    revoke: async (id: string) => call((client, with_, done: Done<object>) => client.revokeKey({ id, account: '' }, with_, done)),
    account: async () => call<control.AccountInfo>((client, with_, done) => client.getAccount({}, with_, done)),
    accounts: async (page = { afterId: '', limit: 0 }) =>
      (await call<control.ListAccountsResponse>((client, with_, done) => client.listAccounts(page, with_, done))).accounts.map(
        ({ id }) => id,
      ),
    createAccount: async (id: string) =>
      (await call<control.CreateAccountResponse>((client, with_, done) => client.createAccount({ id, workerQuota: 0 }, with_, done)))
        .keyText,
    updateAccount: async (id: string) => call<control.AccountInfo>((client, with_, done) => client.updateAccount({ id }, with_, done)),
    deleteAccount: async (id: string, { force = false, stopJobs = false } = {}) =>
      call<control.AccountInfo>((client, with_, done) => client.deleteAccount({ id, force, stopJobs }, with_, done)),
    endpoints: async () =>
      (await call<control.ListEndpointsResponse>((client, with_, done) => client.listEndpoints({ environment: '' }, with_, done)))
        .endpoints,
  };
}

async function open(t: ExecutionContext, log?: Logger): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open({}, log === undefined ? {} : { log });
  t.teardown(() => scheduler.close());
  return scheduler;
}

const scopesOf = (keys: readonly control.KeyInfo[]): string[] => keys.map(({ name, scope }) => `${name} ${scope}`);

test('the keys that operated the service of an earlier version operate it on; no key becomes an operator’s later', async (t) => {
  const scheduler = await open(t);
  const team = await as(scheduler).createAccount('team');
  const keys = {
    old: await as(scheduler).createKey({ name: 'old', expiresInS: 3_600 }),
    reader: await as(scheduler).createKey({ name: 'reader', scope: READ_ONLY }),
  };
  await scheduler.handle.close();
  // As an earlier version left it: no key has the scope OPERATOR, and the migration was not run.
  const db = new Database(join(scheduler.dataDir, 'scheduler', 'capstan.db'));
  const changed = db.prepare("UPDATE control SET value = json_set(value, '$.scope', ?) WHERE kind = 'key' AND value ->> 'scope' = ?");
  t.is(changed.run(ALL, OPERATOR).changes, 1);
  db.exec(
    `ALTER TABLE jobs RENAME COLUMN seq TO no; ALTER TABLE jobs RENAME COLUMN queue_position TO position; ALTER TABLE inputs RENAME COLUMN seq TO no; ALTER TABLE chunks RENAME COLUMN seq TO no;
    DROP TABLE marks; CREATE TABLE marks (name TEXT PRIMARY KEY CHECK (name IN ('no', 'position')), value INTEGER NOT NULL CHECK (value >= 0)) STRICT, WITHOUT ROWID;
    INSERT INTO marks (name, value) VALUES ('no', 0), ('position', 0); DROP TRIGGER audit_moves; DROP TABLE audit; ALTER TABLE jobs DROP COLUMN submitted_by;`,
  );
  db.exec(
    'DROP TABLE inline_usage; DROP TABLE device_history; DROP TABLE history; DROP TRIGGER history_ends; DROP TABLE queue_reasons; DROP TRIGGER queue_reasons_end; ALTER TABLE jobs DROP COLUMN past_attempts; ALTER TABLE jobs DROP COLUMN trace; ALTER TABLE jobs DROP COLUMN tags; DELETE FROM migrations WHERE number >= 6',
  );
  db.close();
  await scheduler.restart();
  t.deepEqual(scopesOf(await as(scheduler).keys()), [`first key ${OPERATOR}`, `old ${OPERATOR}`, `reader ${READ_ONLY}`]);
  t.deepEqual(scopesOf(await as(scheduler).keys('team')), [`first key ${ALL}`]);
  t.deepEqual(await as(scheduler, keys.old).accounts(), ['default', 'team']);
  for (const key of [keys.reader, team]) await t.throwsAsync(as(scheduler, key).accounts(), { code: 'PERMISSION_DENIED' });
  // A key of today is what it was created as, also after the next start.
  const application = await as(scheduler, keys.old).createKey({ name: 'application' });
  await scheduler.restart();
  t.like((await as(scheduler).keys()).at(-1), { name: 'application', scope: ALL });
  await t.throwsAsync(as(scheduler, application).accounts(), { code: 'PERMISSION_DENIED' });
  t.is((await as(scheduler, application).account()).id, 'default');
});

test('gateways of the previous version get an operator’s key as one with the scope ALL', async (t) => {
  const scheduler = await open(t);
  const gateway = scheduler.bearer(scheduler.secret('gateway-token'));
  const hash = createHash('sha256').update(scheduler.secret('api-key')).digest();
  const entry = await unary<control.KeyEntry>((done) => scheduler.control.lookupKey({ hash, workerToken: '' }, gateway, done));
  t.like(entry, { accountId: 'default', scope: ALL, isOperator: true });
});

test('a deleted account takes its keys and endpoints with it, and its id stays used up', async (t) => {
  const scheduler = await open(t);
  const operator = as(scheduler);
  const key = await operator.createAccount('team');
  await operator.createAccount('other');
  const [endpoint = ''] = (await scheduler.deploy([{ name: 'echo' }], { token: key })).endpoints.map(({ id }) => id);
  const channel = scheduler.channel();
  const input = { body: { $case: 'inline', value: Buffer.from('{}') } } as const;
  const job = { jobId: 'job', kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 };
  t.like(await channel.ask(endpoint, { $case: 'submit', value: job }), {
    result: { $case: 'job', value: { state: JobState.IN_QUEUE } },
  });
  await t.throwsAsync(operator.deleteAccount('default', { force: true }), {
    code: 'INVALID_ARGUMENT',
    message: /^id: the account default/,
  });
  await t.throwsAsync(operator.deleteAccount('none'), { code: 'NOT_FOUND', message: 'id: account none does not exist' });
  await t.throwsAsync(operator.deleteAccount('team'), { code: 'CONFLICT', message: /^id: account team has 1 endpoint;/ });
  t.is((await as(scheduler, key).endpoints()).length, 1);

  t.like(await operator.deleteAccount('team', { force: true }), { id: 'team', endpoints: 1 });
  await t.throwsAsync(as(scheduler, key).endpoints(), { code: 'UNAUTHENTICATED' });
  t.like(await channel.ask(endpoint, { $case: 'submit', value: { ...job, jobId: 'late' } }), {
    result: { $case: 'failure', value: { code: 'NOT_FOUND' } },
  });
  for (let round = 0; round < 2; round += 1) {
    t.deepEqual(await operator.accounts(), ['default', 'other']);
    await t.throwsAsync(operator.createAccount('team'), { code: 'ALREADY_EXISTS', message: /its id cannot be used again/ });
    for (const refused of [
      operator.updateAccount('team'),
      operator.createKey({ account: 'team' }),
      operator.keys('team'),
      operator.deleteAccount('team'),
    ])
      await t.throwsAsync(refused, { code: 'NOT_FOUND', message: /account team does not exist/ });
    await scheduler.restart();
  }
  t.deepEqual(await operator.accounts({ afterId: 'default', limit: 1 }), ['other']);
});

test('no key of an account outlives a deletion that is under way at the same time', async (t) => {
  const scheduler = await open(t);
  const operator = as(scheduler);
  for (let n = 0; n < 20; n += 1) {
    const id = `team-${n}`;
    await operator.createAccount(id);
    const [, made] = await Promise.allSettled([operator.deleteAccount(id), operator.createKey({ account: id })]);
    if (made.status === 'fulfilled') await t.throwsAsync(as(scheduler, made.value).account(), { code: 'UNAUTHENTICATED' });
  }
  t.deepEqual(await operator.accounts(), ['default']);
});

test('a build whose key is revoked during the upload belongs to nobody', async (t) => {
  const scheduler = await open(t);
  const operator = as(scheduler);
  const key = await operator.createKey({ name: 'uploader' });
  const bytes = Buffer.alloc(1_000, 7);
  const digest = createHash('sha256').update(bytes).digest('hex');
  const stat = async (): Promise<StatBlobResponse> =>
    unary((done) => scheduler.blobs.stat({ id: `build/${digest}` }, scheduler.bearer(scheduler.secret('api-key')), done));
  let call: ReturnType<typeof scheduler.blobs.put> | undefined;
  const uploaded = unary<PutBlobResponse>((done) => {
    call = scheduler.blobs.put(scheduler.bearer(key), done);
    call.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BUILD, size: bytes.length, digest, offset: 0 } } });
    call.write({ part: { $case: 'data', value: bytes.subarray(0, 500) } });
  });
  while ((await stat()).received !== 500);
  await operator.revoke('uploader');
  call?.write({ part: { $case: 'data', value: bytes.subarray(500) } });
  call?.end();
  await t.throwsAsync(uploaded, { code: 'UNAUTHENTICATED' });
  t.false((await stat()).exists);
});

test('the log says which key changed what, and shows no key', async (t) => {
  const lines: string[] = [];
  const scheduler = await open(t, pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }));
  const operator = as(scheduler);
  const first = (await operator.keys())[0]?.id;
  const texts = [await operator.createAccount('team'), await operator.createKey({ name: 'second', scope: OPERATOR })];
  const second = as(scheduler, texts[1]);
  const id = (await operator.keys()).at(-1)?.id;
  // It revokes itself: the line names it nevertheless.
  await second.revoke('second');
  await operator.deleteAccount('team');
  const changes = lines.flatMap((line) => {
    const { msg, call, by, account, key } = JSON.parse(line) as Record<string, unknown>;
    return msg === 'control plane changed' ? [{ call, by, account, key }] : [];
  });
  const team = changes[0]?.key;
  t.deepEqual(changes, [
    { call: 'CreateAccount', by: first, account: 'team', key: team },
    { call: 'CreateKey', by: first, account: 'default', key: id },
    { call: 'RevokeKey', by: id, account: 'default', key: id },
    { call: 'DeleteAccount', by: first, account: 'team', key: undefined },
  ]);
  for (const text of [...texts, scheduler.secret('api-key')]) t.false(lines.join('').includes(text));
});

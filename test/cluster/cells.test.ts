/** Two cells on one PostgreSQL, each with its scheduler: what belongs to one is out of reach of the other. */
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { Metadata } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';

import type { CapstanError } from '../../lib/errors.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import {
  KeyScope,
  type CellInfo,
  type CreateAccountResponse,
  type CreateJoinTokenResponse,
  type CreateKeyResponse,
  type ListAccountsResponse,
  type ListCellsResponse,
  type ListNodesResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import { start as startAgent } from '../../agent/start.ts';
import { readConfig as agentConfig } from '../../agent/config.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { buildDigest, endpointSpec, TestScheduler, unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

await withPostgres('cells', tests);

test('with SQLite there is one cell, and no other can be made', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  t.deepEqual((await listCells(scheduler)).cells, [{ name: 'default', accounts: 1, address: '' }]);
  await t.throwsAsync(createCell(scheduler, 'west'), { code: 'CONFLICT', message: /^the queue is in SQLite, which supports one cell/ });
  await t.throwsAsync(TestScheduler.open({ cell: 'west' }), { code: 'CONFIG', message: /^CAPSTAN_CELL: west requires CAPSTAN_STORE/ });
});

interface Two {
  readonly east: TestScheduler;
  readonly west: TestScheduler;
  readonly operator: string;
}

function tests(server: PostgresServer): void {
  /** The cells `default` and `west`. */
  async function two(t: ExecutionContext, settings: Record<string, unknown> = {}): Promise<Two> {
    const store = await server.newDatabase();
    const shared = { store, blobDir: await folderOf(t), isBlobDirShared: 'true', ...settings };
    const east = await TestScheduler.open(shared);
    t.teardown(() => east.close());
    await t.throwsAsync(TestScheduler.open({ ...shared, cell: 'west', dataDir: await copyOfSecrets(t, east) }), {
      code: 'CONFIG',
      message: 'CAPSTAN_CELL: the database has no cell west; create it with: capstan cell create west',
    });
    await createCell(east, 'west');
    await t.throwsAsync(TestScheduler.open({ ...shared, cell: 'west', dataDir: await folderOf(t) }), {
      code: 'CONFIG',
      message: /secrets: was re-created, but the queue is encrypted with another master key/,
    });
    const west = await TestScheduler.open({ ...shared, cell: 'west', dataDir: await copyOfSecrets(t, east) });
    t.teardown(() => west.close());
    return { east, west, operator: east.secret('api-key') };
  }

  test('a call for another cell is refused before its credentials, with the address of its owner', async (t) => {
    const { east, west } = await two(t);
    const call = (scheduler: TestScheduler, metadata: Metadata) =>
      unary((done) => scheduler.control.listNodes({ afterId: '', limit: 0 }, metadata, done));
    const node = new Metadata();
    node.set('authorization', 'Bearer not-a-secret');
    node.set('capstan-node', 'node-0');
    // An agent of an earlier version names no cell: it is one of `default`.
    const error = await t.throwsAsync<CapstanError>(call(west, node), { code: 'NOT_OWNER' });
    t.regex(error?.message ?? '', /^this scheduler serves the cell west, the call is for another one/);
    t.truthy(error?.owner, 'the owner of the cell default is known');
    await t.throwsAsync(call(east, node), { code: 'UNAUTHENTICATED' });
    await t.throwsAsync(call(east, west.bearer(east.secret('api-key'))), { code: 'NOT_OWNER' });
    const join = { joinToken: east.secret('join-token'), name: 'n' };
    await t.throwsAsync(
      unary((done) => west.nodes.join(join, done)),
      { code: 'NOT_OWNER' },
    );
    await t.throwsAsync(
      unary((done) => west.nodes.join(join, west.bearer('x'), done)),
      { code: 'UNAUTHENTICATED' },
    );
  });

  test('the operator works in every cell, and owns nothing outside of its own', async (t) => {
    const { east, west, operator } = await two(t);
    const made = await createAccount(west, 'acme', operator);
    t.deepEqual(
      (await accountsOf(west, operator)).accounts.map(({ id }) => id),
      ['acme'],
    );
    t.deepEqual(
      (await accountsOf(east, operator)).accounts.map(({ id }) => id),
      ['default'],
    );
    await t.throwsAsync(west.deploy([{ name: 'echo' }], { token: operator }), {
      code: 'PERMISSION_DENIED',
      message: 'account: default is not in the cell of this scheduler',
    });
    for (const account of ['', 'default'])
      await t.throwsAsync(createKey(west, operator, account), {
        code: 'PERMISSION_DENIED',
        message: /^account: default is not in the cell of this scheduler/,
      });
    const second = await createKey(west, operator, 'acme');
    await west.deploy([{ name: 'echo' }], { token: second.text });
    await west.deploy([{ name: 'echo' }], { token: made.keyText });
    await t.throwsAsync(createAccount(west, 'other', made.keyText), { code: 'PERMISSION_DENIED' }, 'a tenant of west is none');
    await t.throwsAsync(accountsOf(east, made.keyText), { code: 'UNAUTHENTICATED' }, 'a key of west is unknown in default');
  });

  test('the id of an account is of one cell, also after it was deleted there', async (t) => {
    const { east, west, operator } = await two(t);
    await createAccount(west, 'acme', operator);
    await t.throwsAsync(createAccount(east, 'acme', operator), {
      code: 'ALREADY_EXISTS',
      message: 'id: acme is taken in the cell west',
    });
    await t.throwsAsync(createAccount(west, 'default', operator), { code: 'ALREADY_EXISTS', message: /in the cell default$/ });
    await unary((done) => west.control.deleteAccount({ id: 'acme', force: false, stopJobs: false }, west.bearer(operator), done));
    await t.throwsAsync(createAccount(east, 'acme', operator), { code: 'ALREADY_EXISTS' });
    t.deepEqual(
      (await listCells(east)).cells.map(({ name, accounts }) => [name, accounts]),
      [
        ['default', 1],
        ['west', 1],
      ],
    );
  });

  test('an operator’s key that is revoked or not of the scope ends in every cell', async (t) => {
    const { east, west, operator } = await two(t);
    const { text, key } = await createKey(east, operator, '', KeyScope.OPERATOR);
    const plain = await createKey(east, operator, '', KeyScope.ALL);
    // The other cell reads the keys once a second.
    while ((await accountsOf(west, text).catch(code)) === 'UNAUTHENTICATED');
    await accountsOf(west, text);
    await t.throwsAsync(accountsOf(west, plain.text), { code: 'UNAUTHENTICATED' });
    await unary((done) => east.control.revokeKey({ id: key?.id ?? '', account: '' }, east.bearer(operator), done));
    while ((await accountsOf(west, text).catch(code)) !== 'UNAUTHENTICATED');
    await t.throwsAsync(accountsOf(west, text), { code: 'UNAUTHENTICATED' });
  });

  test('a node joins the cell of its token, and keeps to it', async (t) => {
    const { east, west, operator } = await two(t);
    const { joinToken } = await unary<CreateJoinTokenResponse>((done) =>
      west.control.createJoinToken({ name: '', expiresInS: 0, maxUses: 0, neverExpires: false }, west.bearer(operator), done),
    );
    t.regex(joinToken, /^join_west_[0-9a-f]{64}$/);
    const dataDir = await folderOf(t);
    const agent = await startAgent(
      agentConfig({ dataDir, scheduler: west.handle.address, joinToken, logLevel: 'silent', nodeName: 'n', isolation: 'none' }, {}),
    );
    t.teardown(() => agent.close());
    const id = await agent.joined;
    t.like(JSON.parse(await readFile(join(dataDir, 'agent', 'node.json'), 'utf8')), { nodeId: id, cell: 'west' });
    const nodesOf = (scheduler: TestScheduler) =>
      unary<ListNodesResponse>((done) => scheduler.control.listNodes({ afterId: '', limit: 0 }, scheduler.bearer(operator), done));
    while ((await nodesOf(west)).nodes[0]?.connected !== true);
    t.deepEqual((await nodesOf(east)).nodes, []);
  });

  test('jobs of two cells go side by side', async (t) => {
    const { east, west, operator } = await two(t);
    const { keyText } = await createAccount(west, 'acme', operator);
    const of = async (scheduler: TestScheduler, token: string) =>
      (await scheduler.deploy([{ name: 'echo' }], { token })).endpoints[0]?.id ?? '';
    const there = { east: await of(east, operator), west: await of(west, keyText) };
    t.not(there.east, there.west);
    const submit = (scheduler: TestScheduler, endpoint: string, text: string) =>
      scheduler.channel().ask(endpoint, {
        $case: 'submit',
        value: {
          jobId: 'the-same-id',
          kind: JobKind.RUN,
          input: { body: { $case: 'inline', value: Buffer.from(`{"n":"${text}"}`) } },
          webhook: '',
          idempotencyKey: 'the-same-key',
          bodyHash: Buffer.alloc(32),
          waitMs: 0,
        },
      });
    for (const reply of await Promise.all([submit(east, there.east, 'east'), submit(west, there.west, 'west')]))
      t.is(reply.result?.$case === 'job' ? reply.result.value.state : reply.result, JobState.IN_QUEUE);
    const unknown = await submit(east, there.west, 'strange');
    t.is(unknown.result?.$case === 'failure' ? unknown.result.value.code : '', 'NOT_FOUND');
  });

  test('an idle account moves to another cell with all that is its own, and a busy one says why not', async (t) => {
    const { east, west, operator } = await two(t, { runRetentionMs: 1_000 });
    const { keyText } = await createAccount(east, 'acme', operator);
    const other = await createAccount(east, 'other', operator);
    const spec = { name: 'echo', workersMin: 0, workersMax: 0 };
    const endpoint = (await east.deploy([spec], { token: keyText })).endpoints[0]?.id ?? '';
    await east.deploy([spec], { token: other.keyText });
    const move = (id: string, cell: string, token = operator) =>
      unary((done) => east.control.moveAccount({ id, cell }, east.bearer(token), done));
    const submit = (scheduler: TestScheduler, jobId: string) =>
      scheduler.channel().ask(endpoint, {
        $case: 'submit',
        value: {
          jobId,
          kind: JobKind.RUN,
          input: { body: { $case: 'inline', value: Buffer.from('{}') } },
          webhook: '',
          idempotencyKey: 'once',
          bodyHash: Buffer.alloc(32),
          waitMs: 0,
        },
      });
    await submit(east, 'first');
    await t.throwsAsync(move('acme', 'west'), { code: 'CONFLICT', message: /^account: acme has 1 stored jobs/ });
    await t.throwsAsync(move('acme', 'north'), { code: 'NOT_FOUND', message: 'cell: north does not exist' });
    await t.throwsAsync(move('acme', 'default'), { code: 'CONFLICT', message: /is already in default/ });
    await t.throwsAsync(move('default', 'west'), { code: 'INVALID_ARGUMENT', message: /its keys operate the service/ });
    await t.throwsAsync(move('nobody', 'west'), { code: 'NOT_FOUND' });
    await t.throwsAsync(move('acme', 'west', keyText), { code: 'PERMISSION_DENIED' });

    // Workers of another account do not matter, those of its own do.
    const node = await east.join('n');
    const session = node.session();
    await session.take('welcome');
    await east.deploy([{ name: 'busy', workersMin: 1, workersMax: 1 }], { token: other.keyText });
    await session.bringUp();
    await t.throwsAsync(move('other', 'west'), { code: 'CONFLICT', message: /^account: other has workers: busy \(1\)/ });

    await unary((done) => east.jobs.cancel({ endpointId: endpoint, jobId: 'first' }, east.bearer(east.secret('gateway-token')), done));
    // Until the retention of the ended job is over.
    for (;;) {
      const refusal = await move('acme', 'west').then(
        () => null,
        (error: CapstanError) => error,
      );
      if (refusal === null) break;
      t.is(refusal.code, 'CONFLICT');
    }
    session.close();

    const ask = (scheduler: TestScheduler, token: string) =>
      unary<{ endpoints: { id: string }[] }>((done) => scheduler.control.listEndpoints({ environment: '' }, scheduler.bearer(token), done));
    // Both owners read their states anew.
    const found = await until('the account is in its new cell', () => ask(west, keyText).catch(nothingYet));
    t.deepEqual(
      found.endpoints.map(({ id }) => id),
      [endpoint],
    );
    await until('it has left its old one', () =>
      ask(east, keyText).then(
        () => null,
        (error: CapstanError) => error.code === 'UNAUTHENTICATED',
      ),
    );
    t.is((await until('the old cell serves', () => ask(east, other.keyText).catch(nothingYet))).endpoints.length, 2);
    const entries = (await east.audited()).filter(({ action }) => action === 'createCell' || action === 'moveAccount');
    t.deepEqual(
      entries.map(({ action, object, beforeJson, afterJson }) => [action, object, beforeJson, afterJson]),
      [
        ['moveAccount', 'acme', '{"cell":"default"}', '{"cell":"west"}'],
        ['createCell', 'west', '', ''],
      ],
      'what was refused has no entry',
    );
    t.deepEqual(
      (await west.audited(keyText)).map(({ action }) => action),
      ['deploy', 'createAccount'],
      'its own log is where it is',
    );
    t.deepEqual(
      (await listCells(west)).cells.map(({ name, accounts }) => [name, accounts]),
      [
        ['default', 2],
        ['west', 1],
      ],
    );
    await t.throwsAsync(createAccount(east, 'acme', operator), { code: 'ALREADY_EXISTS', message: /in the cell west/ });
    // The build of both accounts belongs to each in its own cell: it is deployed without being sent.
    const again = { environment: '', buildDigest, buildSize: 0, endpoints: [endpointSpec({ ...spec, maxConcurrency: 2 })], keep: [] };
    for (const [scheduler, token] of [
      [west, keyText],
      [east, other.keyText],
    ] as const)
      await unary((done) => scheduler.control.deploy(again, scheduler.bearer(token), done));
    const reply = await submit(west, 'second');
    t.is(reply.result?.$case === 'failure' ? reply.result.value.code : reply.result?.$case, 'IDEMPOTENCY_EXPIRED');
    await t.throwsAsync(move('acme', 'west'), { code: 'NOT_FOUND' }, 'it is gone from the cell that was asked');
  });
}

const nothingYet = (error: CapstanError): null => {
  if (['UNAVAILABLE', 'NOT_OWNER', 'UNAUTHENTICATED'].includes(error.code)) return null;
  throw error;
};

const code = (error: unknown): string => (error as CapstanError).code;

/** A data folder with the secrets of a scheduler's. */
async function copyOfSecrets(t: ExecutionContext, { dataDir }: TestScheduler): Promise<string> {
  const folder = await folderOf(t);
  await cp(join(dataDir, 'secrets'), join(folder, 'secrets'), { recursive: true });
  return folder;
}

function listCells(scheduler: TestScheduler): Promise<ListCellsResponse> {
  return unary((done) => scheduler.control.listCells({}, scheduler.bearer(scheduler.secret('gateway-token')), done));
}

function createCell(scheduler: TestScheduler, name: string): Promise<CellInfo> {
  return unary((done) => scheduler.control.createCell({ name }, scheduler.bearer(scheduler.secret('api-key')), done));
}

function createAccount(scheduler: TestScheduler, id: string, token: string): Promise<CreateAccountResponse> {
  return unary((done) => scheduler.control.createAccount({ id, workerQuota: 0 }, scheduler.bearer(token), done));
}

function accountsOf(scheduler: TestScheduler, token: string): Promise<ListAccountsResponse> {
  return unary((done) => scheduler.control.listAccounts({ afterId: '', limit: 0 }, scheduler.bearer(token), done));
}

function createKey(scheduler: TestScheduler, token: string, account: string, scope: KeyScope = KeyScope.ALL): Promise<CreateKeyResponse> {
  const request = { name: 'k', scope, endpoints: [], environment: '', expiresInS: 0, account };
  return unary((done) => scheduler.control.createKey(request, scheduler.bearer(token), done));
}

/** A node moves to another cell: real schedulers on one PostgreSQL, and a real agent that follows. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import test, { type ExecutionContext } from 'ava';

import type { Identity } from '../../agent/session/identity.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { CreateAccountResponse, CreateJoinTokenResponse, ListNodesResponse, NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import { archiveOf } from '../agent/fixtures.ts';
import { folderOf } from '../support/folder.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { withPostgres } from '../support/with-postgres.ts';
import { TestNode, TestScheduler, unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

const AGENT = fileURLToPath(new URL('../agent/agent-process.ts', import.meta.url));

await withPostgres('nodes move between cells', tests);

test('with SQLite no node moves: there is one cell', async (t) => {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const { id } = await scheduler.join('n');
  await t.throwsAsync(assign(scheduler, id, 'west', scheduler.secret('api-key')), {
    code: 'CONFLICT',
    message: /^the queue is in SQLite, which supports one cell/,
  });
});

interface Two {
  readonly east: TestScheduler;
  readonly west: TestScheduler;
  readonly operator: string;
}

function tests(server: PostgresServer): void {
  /** The cells `default` and `west`. */
  async function two(t: ExecutionContext): Promise<Two> {
    const shared = { store: await server.newDatabase(), blobDir: await folderOf(t), isBlobDirShared: 'true' };
    const east = await TestScheduler.open(shared);
    t.teardown(() => east.close());
    const operator = east.secret('api-key');
    await unary((done) => east.control.createCell({ name: 'west' }, east.bearer(operator), done));
    const dataDir = await folderOf(t);
    await cp(join(east.dataDir, 'secrets'), join(dataDir, 'secrets'), { recursive: true });
    const west = await TestScheduler.open({ ...shared, cell: 'west', dataDir });
    t.teardown(() => west.close());
    return { east, west, operator };
  }

  test('an idle node moves, its agent follows without a token, and runs jobs of the new cell', async (t) => {
    const { east, west, operator } = await two(t);
    const tenant = await unary<CreateAccountResponse>((done) =>
      west.control.createAccount({ id: 'acme', workerQuota: 0 }, west.bearer(operator), done),
    );
    const dataDir = await folderOf(t);
    const scheduler = `${east.handle.address},${west.handle.address}`;
    await agentProcess(t, { dataDir, scheduler, joinToken: east.secret('join-token') });
    const { id } = await until('the node has joined', () => connected(east, operator));
    const joined = await identityOf(dataDir);
    t.is(joined.cell, 'default');

    // It is refused with the reason, and nothing changes.
    await t.throwsAsync(assign(east, 'node-none', 'west', operator), { code: 'NOT_FOUND', message: 'node node-none does not exist' });
    await t.throwsAsync(assign(east, id, 'north', operator), { code: 'NOT_FOUND', message: 'cell: north does not exist' });
    await t.throwsAsync(assign(east, id, 'default', operator), { code: 'CONFLICT', message: /already belongs to the cell default/ });
    await t.throwsAsync(assign(west, id, 'west', operator), { code: 'NOT_FOUND' }, 'a node of another cell');
    await t.throwsAsync(assign(west, id, 'west', tenant.keyText), { code: 'PERMISSION_DENIED' });
    await t.throwsAsync(
      unary((done) => east.control.assignNode({ nodeId: id, cell: 'west' }, east.bearer(joined.nodeSecret, id), done)),
      { code: 'PERMISSION_DENIED' },
      'a node does not move itself',
    );
    const code = await archiveOf(t, { 'echo.ts': 'export const echo = (n: string) => `echo ${n}`;' });
    await east.deploy([{ name: 'echo', workersMin: 1 }], { bytes: code });
    await until('it has a worker', async () => ((await connected(east, operator))?.workers ?? 0) > 0);
    await t.throwsAsync(assign(east, id, 'west', operator), { code: 'CONFLICT', message: /^node: n has 1 worker; drain it/ });
    t.deepEqual(await identityOf(dataDir), joined);
    await undeploy(east, operator);
    await until('the node is idle and has moved', () =>
      assign(east, id, 'west', operator).then(
        () => true,
        (error: CapstanError) => {
          t.is(error.code, 'CONFLICT', error.message);
          return null;
        },
      ),
    );
    const there = await until('its agent has followed', () => connected(west, operator));
    t.is(there.id, id);
    t.deepEqual(await identityOf(dataDir), { ...joined, cell: 'west' }, 'with the credentials that it had');
    t.deepEqual(await until('the old cell serves', () => nodesOf(east, operator)), []);

    const endpoint = (await west.deploy([{ name: 'echo', workersMin: 1 }], { token: tenant.keyText, bytes: code })).endpoints[0]?.id ?? '';
    const { result } = await west.channel().ask(endpoint, {
      $case: 'submit',
      value: {
        jobId: 'a',
        kind: JobKind.RUNSYNC,
        input: { body: { $case: 'inline', value: Buffer.from('{"n":"x"}') } },
        webhook: '',
        idempotencyKey: '',
        bodyHash: Buffer.alloc(0),
        waitMs: 60_000,
      },
    });
    t.is(result?.$case === 'job' ? result.value.state : result, JobState.COMPLETED);
    await undeploy(west, tenant.keyText);

    // And back, where what it left behind gives way to it.
    await until('it has moved back', () =>
      assign(west, id, 'default', operator).then(
        () => true,
        (error: CapstanError) => {
          t.is(error.code, 'CONFLICT', error.message);
          return null;
        },
      ),
    );
    t.is((await until('its agent has come back', () => connected(east, operator))).id, id);
    t.deepEqual(await identityOf(dataDir), joined);
    const entries = (await east.audited(operator)).filter(({ action }) => action === 'assignNode');
    t.deepEqual(
      entries.map(({ object, beforeJson, afterJson }) => [object, beforeJson, afterJson]),
      [
        ['n', '{"cell":"west"}', '{"cell":"default"}'],
        ['n', '{"cell":"default"}', '{"cell":"west"}'],
      ],
      'of what was made, and not of what was refused',
    );
  });

  test('where a moved node is, its old cell tells nobody but the holder of its secret', async (t) => {
    const { east, west, operator } = await two(t);
    const node = await east.join('n');
    await assign(east, node.id, 'west', operator);
    const secret = node.credentials.get('authorization')[0]?.toString().replace('Bearer ', '') ?? '';
    const told = await until('the owner has read its state anew', async () => {
      const error = (await node.session().ended) as CapstanError;
      return ['UNAVAILABLE', 'NOT_OWNER'].includes(error.code) ? null : error;
    });
    t.deepEqual([told.code, told.cell, told.message], ['CONFLICT', 'west', 'the node n was moved to the cell west']);
    const stranger = (await new TestNode(east, node.id, 'another-secret').session().ended) as CapstanError;
    t.deepEqual([stranger.code, stranger.cell], ['UNAUTHENTICATED', undefined]);
    const unknown = (await new TestNode(east, 'node-none', secret).session().ended) as CapstanError;
    t.deepEqual([unknown.code, unknown.message], [stranger.code, stranger.message], 'as a node that does not exist');
    await until('the new cell knows it', async () => (await nodesOf(west, operator))?.some(({ id }) => id === node.id));
    // Another cell's scheduler reads no credentials, and its own cell's takes them.
    const session = west.nodes.session(node.credentials);
    const refusal = (await new Promise((resolve) => void session.once('error', resolve))) as { metadata: { get(key: string): unknown[] } };
    t.deepEqual([refusal.metadata.get('capstan-error'), refusal.metadata.get('capstan-cell')], [['NOT_OWNER'], []]);
    const own = new TestNode(west, node.id, secret).session();
    await own.take('welcome');
    own.close();
    t.is(((await new TestNode(west, node.id, 'another-secret').session().ended) as CapstanError).code, 'UNAUTHENTICATED');
  });

  test('a node that its cell does not know joins another one with a token of that', async (t) => {
    const { east, west, operator } = await two(t);
    const { joinToken } = await unary<CreateJoinTokenResponse>((done) =>
      west.control.createJoinToken({ name: '', expiresInS: 0, maxUses: 0, neverExpires: false }, west.bearer(operator), done),
    );
    const dataDir = await folderOf(t);
    await mkdir(join(dataDir, 'agent'));
    await writeFile(join(dataDir, 'agent', 'node.json'), JSON.stringify({ nodeId: 'node-lost', nodeSecret: 'lost', cell: 'default' }));
    await agentProcess(t, { dataDir, scheduler: `${east.handle.address},${west.handle.address}`, joinToken });
    const { id } = await until('it has joined the other cell', () => connected(west, operator));
    t.like(await identityOf(dataDir), { nodeId: id, cell: 'west' });
  });
}

async function assign(scheduler: TestScheduler, nodeId: string, cell: string, token: string): Promise<void> {
  await unary((done) => scheduler.control.assignNode({ nodeId, cell }, scheduler.bearer(token), done));
}

async function undeploy(scheduler: TestScheduler, token: string): Promise<void> {
  const request = { environment: 'default', endpoints: [], all: true, stopJobs: true };
  await unary((done) => scheduler.control.undeploy(request, scheduler.bearer(token), done));
}

/** Null while the owner reads its state anew. */
async function nodesOf(scheduler: TestScheduler, token: string): Promise<NodeInfo[] | null> {
  const asked = unary<ListNodesResponse>((done) => scheduler.control.listNodes({ afterId: '', limit: 0 }, scheduler.bearer(token), done));
  return asked.then(
    ({ nodes }) => nodes,
    (error: CapstanError) => {
      if (['UNAVAILABLE', 'NOT_OWNER'].includes(error.code)) return null;
      throw error;
    },
  );
}

async function connected(scheduler: TestScheduler, token: string): Promise<NodeInfo | undefined> {
  return (await nodesOf(scheduler, token))?.find((node) => node.connected);
}

async function identityOf(dataDir: string): Promise<Identity> {
  return JSON.parse(await readFile(join(dataDir, 'agent', 'node.json'), 'utf8')) as Identity;
}

/** An agent as a process of its own, which ends with the test. */
async function agentProcess(t: ExecutionContext, config: object): Promise<void> {
  const all = { nodeName: 'n', logLevel: 'info', containerSocket: 'none', spareHosts: 0, ...config };
  const child = spawn(process.execPath, [AGENT, JSON.stringify(all)], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (text: Buffer) => (log += text.toString()));
  await once(child, 'spawn');
  t.teardown(async () => {
    if (!t.passed) t.log(log);
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
}

/** The audit log: every mutation of the control plane leaves who, what and from where, in the transaction of its change, and no secret. */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import Database from 'better-sqlite3';

import { readConfig } from '../../gateway/config.ts';
import { ADDRESS_KEY, GATEWAY_KEY } from '../../lib/caller-address.ts';
import { schema } from '../../gateway/graphql/schema.ts';
import { start } from '../../gateway/assembly/start.ts';
import { ControlServiceService } from '../../proto/gen/capstan/v1/control.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';

interface Entry {
  readonly id: string;
  readonly at: string;
  readonly key: string;
  readonly keyName: string;
  readonly address: string | null;
  readonly action: string;
  readonly object: string;
  readonly before: unknown;
  readonly after: unknown;
}

type Query = <T>(query: string, key?: string) => Promise<T>;

const SECRET = 'never-in-the-log-51c2';
/** Calls of the control plane that change nothing. A new call belongs here, or into {@link CHANGES}. */
const READS = new Set(
  `watchDirectory lookupKey lookupEndpoint lookupEndpointName listEndpoints listEnvironments listBuilds listDeployments listActivity
  getHistory getDeviceHistory searchJobs summarizeJobs countJobs listBulkOperations getJob listKeys getSession getAccount listAccounts listCells
  listNodes listMachineTypes listWorkers listAttention getEndpoint listJoinTokens getLogs getMetrics listWebhooks getWebhookSecret
  listAlertChannels listSecrets listAudit getMasterKey`.split(/\s+/),
);
/** Calls without an entry: a first worker is asked for again and again, as by a job; gateways tell when keys were used. */
const UNRECORDED = new Set(['startWorker', 'noteKeyUse']);
/** The others, with the action of their entry where its name is another. */
const CHANGES: Readonly<Record<string, string>> = {
  undeploy: 'deleteEndpoints',
  createKey: 'createApiKey',
  revokeKey: 'revokeApiKey',
  createSession: 'signIn',
  endSession: 'signOut',
};
/**
 * Calls that need what this world lacks: several cells, a failed webhook, an operation that takes long. Their entries are expected in
 * test/cluster/cells.test.ts, cells-moves.test.ts and cells-nodes.test.ts, and in webhooks.test.ts and graphql-bulk.test.ts of this folder.
 */
const OTHER_WORLDS = new Set(['createCell', 'moveAccount', 'assignNode', 'redeliverWebhook', 'stopBulkOperation']);

async function open(t: ExecutionContext): Promise<{ scheduler: TestScheduler; query: Query; url: string }> {
  const scheduler = await TestScheduler.open({ webhookAllow: '127.0.0.1/32' });
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', graphqlPerSecond: 1_000 }, {}));
  t.teardown(() => gateway.close());
  const first = scheduler.secret('api-key');
  // 503 until the gateway has read the directory.
  while ((await fetch(`${gateway.url}/v2/none/health`, { headers: { authorization: first } })).status === 503);
  const query: Query = async (text, key = first) => {
    const response = await fetch(`${gateway.url}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: text }),
    });
    const { data, errors } = (await response.json()) as { data: never; errors?: [{ message: string }] };
    if (errors !== undefined) throw new Error(errors[0].message);
    return data;
  };
  return { scheduler, query, url: gateway.url };
}

const LOG = `{ audit(limit: 1000) { entries { id at key keyName address action object before after } next } }`;

test('every mutation leaves an entry with its author, and none has a secret', async (t) => {
  const { scheduler, query } = await open(t);
  const log = async (key?: string) => (await query<{ audit: { entries: Entry[] } }>(LOG, key)).audit.entries;
  const { endpoints } = await scheduler.deploy([{ name: 'echo', env: { KEY: SECRET }, workersMax: 2 }]);
  const id = endpoints[0]?.id ?? '';
  const node = await scheduler.join('host');
  const done = async (field: string, selection = '{ __typename }') =>
    query<Record<string, { id: string; token: { id: string } }>>(`mutation { ${field} ${selection} }`);
  await done(`updateEndpoint(endpoint: "${id}", settings: { workersMax: 3, env: { KEY: "${SECRET}2", MORE: "x" } })`);
  await done(`setSecret(name: "TOKEN", value: "${SECRET}")`);
  await done('deleteSecret(name: "TOKEN")');
  const { addAlertChannel } = await done(`addAlertChannel(kind: WEBHOOK, address: "http://127.0.0.1:9/${SECRET}")`, '{ id }');
  await done(`testAlertChannel(id: "${addAlertChannel?.id ?? ''}")`, '');
  await done(`removeAlertChannel(id: "${addAlertChannel?.id ?? ''}")`);
  await done('createEnvironment(name: "staging")');
  await done('deleteEnvironment(name: "staging")');
  await done('createApiKey(name: "ci", scope: READ_ONLY)');
  await done('revokeApiKey(id: "ci")');
  await done('rotateWebhookSecret', '{ secret }');
  await done('createAccount(id: "team", workerQuota: 5)');
  await done('updateAccount(id: "team", workerQuota: 7)');
  const ofTeam = (await query<{ audit: { entries: Entry[] } }>(LOG.replace('audit(', 'audit(account: "team", '))).audit.entries;
  t.deepEqual(
    ofTeam.map(({ action }) => action),
    ['updateAccount', 'createAccount'],
  );
  t.like(ofTeam[0], { object: 'team', before: { workerQuota: 5 }, after: { workerQuota: 7 } });
  await done('deleteAccount(id: "team")');
  const { createJoinToken } = await done('createJoinToken(name: "rack")', '{ token { id } }');
  await done(`revokeJoinToken(id: "${createJoinToken?.token.id ?? ''}")`);
  await done(`drainNode(id: "${node.id}")`);
  await done(`resumeNode(id: "${node.id}")`);
  await done(`startBulkOperation(endpoint: "${id}", action: PURGE, filter: {})`);
  await scheduler.deploy([{ name: 'echo', env: { KEY: SECRET }, workersMax: 2 }], { bytes: Buffer.from('another build') });
  await done('rollback');
  await done(`deleteEndpoint(endpoint: "${id}")`);
  await done('deleteEndpoints(environment: "default")').catch(() => undefined);
  await done(`removeNode(id: "${node.id}", force: true)`, '');

  const owner = scheduler.bearer(scheduler.secret('api-key'));
  const { token } = await unary<{ token: string }>((end) => scheduler.control.createSession({}, owner, end));
  await unary((end) => scheduler.control.endSession({}, scheduler.bearer(token), end));
  await unary((end) => scheduler.control.snapshotQueue({}, owner, end));
  await unary((end) => scheduler.control.prepareMasterKey({}, owner, end));
  await unary((end) => scheduler.control.rotateMasterKey({}, owner, end));

  const entries = await log();
  const actions = new Set(entries.map(({ action }) => action));
  const fields = Object.keys(schema.getMutationType()?.getFields() ?? {});
  // Deletions of one endpoint and of several are one call.
  const missing = fields.filter(
    (name) => !actions.has(name === 'deleteEndpoint' ? 'deleteEndpoints' : name) && !UNRECORDED.has(name) && !OTHER_WORLDS.has(name),
  );
  t.deepEqual(
    missing.filter((name) => !['createAccount', 'updateAccount'].includes(name)),
    [],
  );
  const calls = Object.keys(ControlServiceService).filter((name) => !READS.has(name) && !UNRECORDED.has(name) && !OTHER_WORLDS.has(name));
  const recorded = new Set([...actions, 'createAccount', 'updateAccount']);
  t.deepEqual(
    calls.filter((name) => !recorded.has(CHANGES[name] ?? name)),
    [],
    'every call that changes the control plane leaves an entry',
  );
  t.false(JSON.stringify(entries).includes(SECRET));
  const update = entries.find(({ action }) => action === 'updateEndpoint');
  t.like(update, { object: 'default/echo', before: { workersMax: 2, env: ['KEY'] }, after: { workersMax: 3, env: ['KEY', 'MORE'] } });
  t.true(
    entries.every(({ key, keyName }) => key !== '' && keyName !== ''),
    JSON.stringify(entries.find(({ key }) => key === '')),
  );
  t.is(update?.address, '127.0.0.1');
  t.is(entries.find(({ action }) => action === 'addAlertChannel')?.object, addAlertChannel?.id);
  t.deepEqual(
    entries.map(({ at }) => at),
    entries.map(({ at }) => at).toSorted((a, b) => (a < b ? 1 : -1)),
  );
});

test('an address is that of a gateway: neither what a caller of the scheduler names, nor an untrusted X-Forwarded-For', async (t) => {
  const { scheduler, query, url } = await open(t);
  const key = scheduler.secret('api-key');
  const named = async (token?: string, address = '203.0.113.9'): Promise<string | undefined> => {
    const metadata = scheduler.bearer(key);
    metadata.set(ADDRESS_KEY, address);
    if (token !== undefined) metadata.set(GATEWAY_KEY, token);
    await unary((end) => scheduler.control.rotateWebhookSecret({}, metadata, end));
    return (await scheduler.audited())[0]?.address;
  };
  t.is(await named(), '');
  t.is(await named('guessed'), '');
  t.is(await named(key), '');
  const token = scheduler.secret('gateway-token');
  t.is(await named(token), '203.0.113.9');
  for (const address of ['1'.repeat(8_000), '127.0.0.1 [2J', '<b>']) t.is(await named(token, address), '');
  await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'x-forwarded-for': '203.0.113.9' },
    body: JSON.stringify({ query: 'mutation { rotateWebhookSecret { secret } }' }),
  });
  const { entries } = (await query<{ audit: { entries: Entry[] } }>(LOG)).audit;
  t.like(entries[0], { action: 'rotateWebhookSecret', address: '127.0.0.1' });
});

test('a refused change leaves no entry, pages go on, and another account sees its own only', async (t) => {
  const { scheduler, query } = await open(t);
  await t.throwsAsync(query('mutation { deleteSecret(name: "NONE") { name } }'));
  await t.throwsAsync(query('mutation { setSecret(name: "a b", value: "x") { name } }'));
  for (let i = 0; i < 3; i++) await query(`mutation { setSecret(name: "S${i}", value: "x") { name } }`);
  const team = await query<{ createAccount: { keyText: string } }>('mutation { createAccount(id: "team") { keyText } }');
  const page = async (args: string, key?: string) =>
    (await query<{ audit: { entries: Entry[]; next: string | null } }>(`{ audit(${args}) { entries { id action object } next } }`, key))
      .audit;
  const first = await page('limit: 2');
  t.deepEqual(
    first.entries.map(({ object }) => object),
    ['S2', 'S1'],
  );
  const rest = await page(`limit: 2, before: "${first.next ?? ''}"`);
  t.deepEqual([rest.entries.map(({ object }) => object), rest.next], [['S0'], null]);
  const key = team.createAccount.keyText;
  t.deepEqual(
    (await page('limit: 9', key)).entries.map(({ action }) => action),
    ['createAccount'],
  );
  t.deepEqual(
    (await page(`limit: 9, before: "${first.next ?? ''}"`, key)).entries.map(({ action }) => action),
    ['createAccount'],
  );
  await t.throwsAsync(page('account: "default"', key), { message: /OPERATOR/ });
  const made = async (args: string) =>
    (await query<{ createApiKey: { text: string } }>(`mutation { createApiKey(${args}) { text } }`)).createApiKey.text;
  const { endpoints } = await scheduler.deploy([{ name: 'echo' }, { name: 'build' }]);
  const [deployed] = await scheduler.audited();
  const { build, endpoints: settings } = JSON.parse(deployed?.afterJson ?? '') as { build: string; endpoints: object };
  t.regex(build, /^[0-9a-f]{12}$/, 'also where an endpoint has that name');
  t.deepEqual(Object.keys(settings), ['echo', 'build']);
  await scheduler.deploy([{ name: 'echo' }, { name: 'build', workersMax: 7 }]);
  const [again] = await scheduler.audited();
  t.deepEqual(JSON.parse(again?.beforeJson ?? ''), { endpoints: { echo: {}, build: { workersMax: 1 } } }, 'what changed alone');
  t.deepEqual((JSON.parse(again?.afterJson ?? '') as { endpoints: object }).endpoints, { echo: {}, build: { workersMax: 7 } });
  for (const text of [
    await made('name: "reader", scope: READ_ONLY'),
    await made(`name: "caller", scope: ENDPOINTS, endpoints: ["${endpoints[0]?.id ?? ''}"]`),
  ])
    await t.throwsAsync(page('limit: 9', text), { message: /requires the scope ALL or OPERATOR/ });
});

test('an environment that no key reads is replaced by a deployment, whose entry lacks the former names', async (t) => {
  const { scheduler, query } = await open(t);
  const spec = { name: 'echo', env: { KEY: SECRET }, workersMax: 2 };
  await scheduler.deploy([spec]);
  await scheduler.restart(() => {
    const db = new Database(join(scheduler.dataDir, 'scheduler', 'capstan.db'));
    const rows = db.prepare("SELECT key, value FROM control WHERE kind = 'release'").all() as { key: string; value: string }[];
    for (const { key, value } of rows) {
      const damaged = JSON.stringify({ ...(JSON.parse(value) as object), envSealed: Buffer.alloc(64, 1).toString('base64') });
      db.prepare("UPDATE control SET value = ? WHERE kind = 'release' AND key = ?").run(damaged, key);
    }
    db.close();
    return Promise.resolve();
  });
  await scheduler.deploy([{ ...spec, env: { KEY: 'new', MORE: 'x' } }]);
  const { entries } = (await query<{ audit: { entries: Entry[] } }>(LOG)).audit;
  t.like(entries[0], {
    action: 'deploy',
    before: { endpoints: { echo: { env: [] } } },
    after: { endpoints: { echo: { env: ['KEY', 'MORE'] } } },
  });
});

test('entries are filtered by key, action, object and time, also over pages', async (t) => {
  const { scheduler, query } = await open(t);
  const { endpoints } = await scheduler.deploy([
    { name: 'chat', workersMax: 2 },
    { name: 'chat2', workersMax: 2 },
  ]);
  const ids = new Map(endpoints.map(({ id, spec }) => [spec?.name, id]));
  const update = async (name: string, workersMax: number, key?: string) =>
    query(`mutation { updateEndpoint(endpoint: "${ids.get(name) ?? ''}", settings: { workersMax: ${workersMax} }) { id } }`, key);
  const { createApiKey } = await query<{ createApiKey: { plaintext: string; key: { id: string } } }>(
    'mutation { createApiKey(name: "ci", scope: ALL) { plaintext key { id } } }',
  );
  await update('chat', 3);
  await update('chat2', 3);
  await update('chat', 4, createApiKey.plaintext);
  const found = async (filter: string, page = '') => {
    const { audit } = await query<{ audit: { entries: Entry[]; next: string | null } }>(
      `{ audit(filter: { ${filter} } ${page}) { entries { id at key keyName action object after } next } }`,
    );
    return audit;
  };
  const shown = async (filter: string) => (await found(filter)).entries.map(({ action, object }) => `${action} ${object}`);
  t.deepEqual(await shown('object: "default/chat"'), ['updateEndpoint default/chat', 'updateEndpoint default/chat', 'deploy default']);
  t.deepEqual(await shown('object: "chat2"'), ['updateEndpoint default/chat2', 'deploy default'], 'a deployment is of its endpoints');
  t.deepEqual(await shown('object: "cha"'), [], 'only whole parts');
  t.deepEqual(await shown('key: "ci"'), ['updateEndpoint default/chat']);
  t.deepEqual(await shown(`key: "${createApiKey.key.id}"`), ['updateEndpoint default/chat']);
  t.deepEqual(await shown('action: "createApiKey"'), ['createApiKey ci']);
  t.deepEqual(await shown('action: "createApiKey", key: "ci"'), []);
  const first = await found('object: "chat"', 'limit: 1');
  const second = await found('object: "chat"', `limit: 1, before: "${first.next ?? ''}"`);
  t.deepEqual([first.entries[0]?.after, second.entries[0]?.after], [{ workersMax: 4 }, { workersMax: 3 }]);
  const at = Date.parse(second.entries[0]?.at ?? '');
  t.true((await found(`sinceMs: ${at}`)).entries.every((entry) => Date.parse(entry.at) >= at));
  t.true((await found(`sinceMs: ${at}`)).entries.length > 0);
  t.true((await found(`untilMs: ${at}`)).entries.every((entry) => Date.parse(entry.at) < at));
  t.true((await found(`untilMs: ${at}`)).entries.length > 0);
  t.deepEqual(await shown(`sinceMs: ${Date.now() + 1e6}`), []);
  await t.throwsAsync(found('sinceMs: -1'), { message: /filter\.sinceMs: must be/ });
  await t.throwsAsync(found(`object: "${'x'.repeat(501)}"`), { message: /filter\.object: must be at most 500 characters/ });
});

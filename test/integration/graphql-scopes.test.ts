/** Who may use which root field of /graphql: every field of the schema with every kind of key, over real HTTP (docs/api-control-plane.md, Scopes). */
import test, { type ExecutionContext } from 'ava';
import { getNamedType, isNonNullType, isObjectType, type GraphQLArgument, type GraphQLField } from 'graphql';

import { readConfig } from '../../gateway/config.ts';
import { schema } from '../../gateway/graphql/schema.ts';
import { start } from '../../gateway/assembly/start.ts';
import { TestScheduler } from '../support/scheduler-client.ts';

/** Kinds of keys, from the least to the most powerful. `all key` is one of the account default, `team` one of another account. */
const callers = ['worker', 'endpoints key', 'environment key', 'read-only key', 'team reader', 'all key', 'team', 'operator'] as const;
type Caller = (typeof callers)[number];

const operators: readonly Caller[] = ['operator'];
const owners: readonly Caller[] = ['all key', 'team', 'operator'];
/** Whoever may read all of an account. */
const wholeReaders: readonly Caller[] = ['read-only key', 'team reader', ...owners];

/** Whom each field lets in; the others get PERMISSION_DENIED. */
const table: Readonly<Record<string, readonly Caller[]>> = {
  'query environments': callers,
  'query environment': callers,
  'query endpoints': callers,
  'query endpoint': callers,
  'query workers': callers,
  'query history': callers,
  'query routeFigures': callers,
  'query routeHistory': callers,
  'query countJobs': owners,
  'query bulkOperations': owners,
  'query jobs': callers,
  'query jobSummary': callers,
  'query job': callers,
  'query builds': wholeReaders,
  'query buildDifference': owners,
  'query deployments': wholeReaders,
  'query nodes': wholeReaders,
  'query node': wholeReaders,
  'query attention': wholeReaders,
  'query machineTypes': wholeReaders,
  'query apiKeys': wholeReaders,
  'query secrets': wholeReaders,
  'query alertChannels': wholeReaders,
  'query account': wholeReaders,
  'query logs': wholeReaders,
  'query searchLogs': wholeReaders,
  'query webhooks': owners,
  'query webhookSecret': owners,
  'query audit': owners,
  'query accounts': operators,
  'query joinTokens': operators,
  'query deviceHistory': operators,
  'query cluster': operators,
  'query cells': operators,
  'mutation createEnvironment': owners,
  'mutation deleteEnvironment': owners,
  'mutation deploy': owners,
  'mutation updateEndpoint': owners,
  'mutation startWorker': owners,
  'mutation deleteEndpoint': owners,
  'mutation deleteEndpoints': owners,
  'mutation rollback': owners,
  'mutation createApiKey': owners,
  'mutation revokeApiKey': owners,
  'mutation startBulkOperation': owners,
  'mutation stopBulkOperation': owners,
  'mutation redeliverWebhook': owners,
  'mutation rotateWebhookSecret': owners,
  'mutation setSecret': owners,
  'mutation deleteSecret': owners,
  'mutation addAlertChannel': owners,
  'mutation testAlertChannel': owners,
  'mutation removeAlertChannel': owners,
  'mutation createAccount': operators,
  'mutation createCell': operators,
  'mutation moveAccount': operators,
  'mutation assignNode': operators,
  'mutation updateAccount': operators,
  'mutation deleteAccount': operators,
  'mutation createJoinToken': operators,
  'mutation revokeJoinToken': operators,
  'mutation drainNode': operators,
  'mutation resumeNode': operators,
  'mutation removeNode': operators,
};

interface Problem {
  readonly message: string;
  readonly extensions: { readonly code: string; readonly field?: string };
}

interface Reply {
  readonly status: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly errors: readonly Problem[];
}

async function open(t: ExecutionContext) {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', graphqlPerSecond: 1_000 }, {}));
  t.teardown(() => gateway.close());
  const first = scheduler.secret('api-key');
  // 503 until the gateway has read the directory.
  while ((await fetch(`${gateway.url}/v2/none/health`, { headers: { authorization: first } })).status === 503);
  const ask = async (query: string, key = first): Promise<Reply> => {
    const response = await fetch(`${gateway.url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ query }),
    });
    const { data, errors } = (await response.json()) as { data?: Record<string, unknown> | null; errors?: Problem[] };
    return { status: response.status, data: data ?? {}, errors: errors ?? [] };
  };
  const create = async (mutation: string, key?: string): Promise<string> => {
    const { data, errors } = await ask(`mutation { made: ${mutation} }`, key);
    t.deepEqual(errors, []);
    const { text, keyText } = data['made'] as { text?: string; keyText?: string };
    return text ?? keyText ?? '';
  };
  return { scheduler, ask, create };
}

/** A literal that fits; ids and names of nothing that exists, so that a field that lets its caller in changes nothing of the others. */
function literal({ type }: GraphQLArgument, of: string): string {
  if (of === 'scope') return 'READ_ONLY';
  const text = String(type);
  if (text.startsWith('[')) return '[]';
  if (getNamedType(type).name === 'EndpointSettings') return '{ workersMax: 1 }';
  if (text.startsWith('Float')) return '1';
  if (getNamedType(type).name === 'BulkAction') return 'PURGE';
  if (getNamedType(type).name === 'AlertChannelKind') return 'EMAIL';
  return text.startsWith('Boolean') ? 'false' : '"none-such"';
}

function fieldQuery(kind: 'query' | 'mutation', field: GraphQLField<unknown, unknown>): string {
  const needed = field.args.filter((argument) => isNonNullType(argument.type));
  // The look-up of one endpoint needs one of its arguments.
  const given = field.name === 'endpoint' ? ['name: "none-such"'] : needed.map((each) => `${each.name}: ${literal(each, each.name)}`);
  const selection = isObjectType(getNamedType(field.type)) ? '{ __typename }' : '';
  return `${kind} { ${field.name}${given.length === 0 ? '' : `(${given.join(', ')})`} ${selection} }`;
}

test('every field lets in the keys that the table says, and refuses all others as themselves', async (t) => {
  const { scheduler, ask, create } = await open(t);
  await scheduler.deploy([{ name: 'echo', workersMin: 1 }]);
  const [worker] = await (async () => {
    const session = (await scheduler.join('host')).session();
    for (;;) {
      const { workers } = await session.take('desired');
      if (workers.length > 0) return workers;
    }
  })();
  const team = await create('createAccount(id: "team") { keyText }');
  const keys: Readonly<Record<Caller, string>> = {
    worker: worker?.token ?? '',
    'endpoints key': await create('createApiKey(name: "e", scope: ENDPOINTS, endpoints: ["echo"]) { text }'),
    'environment key': await create('createApiKey(name: "v", scope: ENVIRONMENT) { text }'),
    'read-only key': await create('createApiKey(name: "r", scope: READ_ONLY) { text }'),
    'team reader': await create('createApiKey(name: "r", scope: READ_ONLY) { text }', team),
    'all key': await create('createApiKey(name: "a", scope: ALL) { text }'),
    team,
    operator: scheduler.secret('api-key'),
  };
  const found: Record<string, readonly Caller[]> = {};
  for (const [kind, type] of [
    ['query', schema.getQueryType()],
    ['mutation', schema.getMutationType()],
  ] as const) {
    for (const field of Object.values(type?.getFields() ?? {})) {
      const query = fieldQuery(kind, field);
      const replies = await Promise.all(callers.map((caller) => ask(query, keys[caller])));
      for (const [index, { status, errors }] of replies.entries()) {
        t.is(status, 200, `${query} ${callers[index] ?? ''}: ${errors[0]?.message ?? ''}`);
        t.not(errors[0]?.extensions.code, 'INTERNAL', query);
      }
      found[`${kind} ${field.name}`] = callers.filter(
        (_caller, index) => replies[index]?.errors[0]?.extensions.code !== 'PERMISSION_DENIED',
      );
    }
  }
  const sorted = (rows: Readonly<Record<string, readonly Caller[]>>): string[] =>
    Object.entries(rows)
      .map(([name, whom]) => `${name}: ${callers.filter((caller) => whom.includes(caller)).join(', ')}`)
      .toSorted();
  t.deepEqual(sorted(found), sorted(table));
});

test('what a tenant asks of nodes and accounts is refused alike whether they exist or not', async (t) => {
  const { scheduler, ask, create } = await open(t);
  const node = await scheduler.join('host');
  const team = await create('createAccount(id: "team") { keyText }');
  await create('createAccount(id: "other") { keyText }');
  const all = await create('createApiKey(name: "a", scope: ALL) { text }');
  const refusals = async (query: string, key: string): Promise<string> => {
    const { data, errors } = await ask(query, key);
    t.deepEqual(
      Object.values(data).filter((value) => value !== null),
      [],
      query,
    );
    return JSON.stringify(errors.map(({ message, extensions }) => [message, extensions]));
  };
  const pairs = (id: string): string[] => [
    `mutation { drainNode(id: "${id}") { id } }`,
    `mutation { removeNode(id: "${id}", force: true) }`,
    `mutation { deleteAccount(id: "${id}", force: true) { id } }`,
    `mutation { updateAccount(id: "${id}", workerQuota: 1000) { id } }`,
    `mutation { createAccount(id: "${id}") { keyText } }`,
    `mutation { createApiKey(name: "x", scope: ALL, account: "${id}") { text } }`,
    `mutation { revokeApiKey(id: "first key", account: "${id}") { id } }`,
    `{ apiKeys(account: "${id}") { id } }`,
  ];
  for (const key of [team, all]) {
    t.like((await ask('mutation { createApiKey(name: "x", scope: OPERATOR) { text } }', key)).errors, [
      { extensions: { code: 'PERMISSION_DENIED', field: 'scope' } },
    ]);
    const unknown = await Promise.all(pairs('none-such').map((query) => refusals(query, key)));
    for (const id of [node.credentials.get('capstan-node')[0]?.toString() ?? '', 'other']) {
      t.deepEqual(await Promise.all(pairs(id).map((query) => refusals(query, key))), unknown, id);
      t.deepEqual((await ask(`{ node(id: "${id}") { name lastSeenAt } }`, key)).data, { node: null }, 'none of its workers runs there');
    }
    const known = node.credentials.get('capstan-node')[0]?.toString() ?? '';
    const found = await ask(`{ node(id: "${known}") { id } other: node(id: "none") { id } }`, scheduler.secret('api-key'));
    t.deepEqual(found.data, { node: { id: known }, other: null });
    t.true(unknown.every((text) => text.includes('PERMISSION_DENIED')));
    t.deepEqual((await ask('{ nodes { id } machineTypes { nodes } }', key)).data, { nodes: [], machineTypes: [] });
  }
});

test('a key that is revoked in the middle of a request does nothing in the rest of it', async (t) => {
  const { ask, create } = await open(t);
  const leaver = await create('createApiKey(name: "leaver", scope: OPERATOR) { text }');
  const { data, errors } = await ask(
    `mutation {
      revokeApiKey(id: "leaver") { scope }
      createApiKey(name: "back door", scope: OPERATOR) { text }
      createJoinToken { text }
    }`,
    leaver,
  );
  // Fields that must not be null take the whole answer with them.
  t.deepEqual(data, {});
  t.deepEqual(
    errors.map(({ extensions }) => extensions.code),
    ['UNAUTHENTICATED'],
  );
  const { apiKeys, joinTokens } = (await ask('{ apiKeys { name } joinTokens { name uses } }')).data;
  t.deepEqual(apiKeys, [{ name: 'first key' }]);
  t.is((joinTokens as unknown[]).length, 1);
});

test('join tokens are created, listed a page at a time, and revoked', async (t) => {
  const { scheduler, ask } = await open(t);
  const made: { text: string; token: { id: string } }[] = [];
  for (const name of ['a', 'b', 'c']) {
    const mutation = `createJoinToken(name: "${name}", expiresInS: 3600, maxUses: 2) { text token { id name createdAt expiresAt maxUses uses } }`;
    made.push((await ask(`mutation { ${mutation} }`)).data['createJoinToken'] as (typeof made)[number]);
  }
  t.like(made[0], { token: { name: 'a', maxUses: 2, uses: 0 } });
  t.regex(made[0]?.text ?? '', /^join_[0-9a-f]{64}$/);
  const ids = async (page: string): Promise<string[]> =>
    ((await ask(`{ joinTokens${page} { id } }`)).data['joinTokens'] as { id: string }[]).map(({ id }) => id);
  const all = await ids('');
  t.is(all.length, 4); // and that of the data folder
  t.deepEqual(all, all.toSorted());
  t.deepEqual([...(await ids('(limit: 3)')), ...(await ids(`(limit: 3, after: "${all[2] ?? ''}")`))], all);
  t.deepEqual(await ids(`(after: "${all[3] ?? ''}")`), []);
  t.false(JSON.stringify((await ask('{ joinTokens { id name } }')).data).includes(made[0]?.text ?? ''));
  const revoke = `mutation { revokeJoinToken(id: "${made[1]?.token.id ?? ''}") { name } }`;
  t.deepEqual((await ask(revoke)).data, { revokeJoinToken: { name: 'b' } });
  t.is((await ask(revoke)).errors[0]?.extensions.code, 'NOT_FOUND');
  t.false((await ids('')).includes(made[1]?.token.id ?? ''));
  const lifetime = async (args: string): Promise<number | null> => {
    const { token } = (await ask(`mutation { createJoinToken${args} { token { id createdAt expiresAt } } }`)).data['createJoinToken'] as {
      token: { id: string; createdAt: string; expiresAt: string | null };
    };
    await ask(`mutation { revokeJoinToken(id: "${token.id}") { id } }`);
    return token.expiresAt === null ? null : Date.parse(token.expiresAt) - Date.parse(token.createdAt);
  };
  t.is(await lifetime(''), 86_400_000, 'a token expires unless its creator wants otherwise');
  t.is(await lifetime('(expiresInS: 60)'), 60_000);
  t.is(await lifetime('(neverExpires: true)'), null);
  const both = await ask('mutation { createJoinToken(neverExpires: true, expiresInS: 60) { text } }');
  t.is(both.errors[0]?.extensions.field, 'expiresInS');
  t.is((await ask('mutation { createJoinToken(maxUses: -1) { text } }')).errors[0]?.extensions.field, 'maxUses');
  await scheduler.restart();
  t.is((await ids('')).length, 3);
});

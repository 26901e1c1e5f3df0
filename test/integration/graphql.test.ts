/** /graphql and /builds over real HTTP: a gateway before a real scheduler (docs/api-control-plane.md). */
import { request as httpRequest } from 'node:http';

import test from 'ava';
import { getIntrospectionQuery } from 'graphql';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { until } from '../support/until.ts';
import { type Problem, type Reply, digestOf, setup, code, DEPLOY_QUERY, specs, firstId, deeply, SKU } from './graphql-setup.ts';

test('a deployed endpoint is called by its name at once, until another environment has one of the same name', async (t) => {
  const { ask, put, url, key } = await setup(t);
  const bytes = Buffer.from('build');
  t.is((await put(bytes)).status, 201);
  const health = (name: string): Promise<Response> => fetch(`${url}/v2/${name}/health`, { headers: { authorization: key } });
  const first = firstId(await ask(DEPLOY_QUERY, { build: digestOf(bytes), endpoints: specs('echo') }));
  t.is((await health('echo')).status, 200);
  const second = firstId(await ask(DEPLOY_QUERY, { build: digestOf(bytes), endpoints: specs('echo'), environment: 'prod' }));
  let refused = await health('echo');
  // The directory arrives after the response to the deployment.
  while (refused.status === 200) refused = await health('echo');
  t.is(refused.status, 409);
  const { detail } = (await refused.json()) as { detail: string };
  for (const id of [first, second]) t.true(detail.includes(id), detail);
  t.deepEqual(await Promise.all([first, second].map(async (id) => (await health(id)).status)), [200, 200]);
});

test('from an upload to a deployed endpoint and back, over HTTP alone', async (t) => {
  const { ask, put, url } = await setup(t);
  const [a, b] = [Buffer.from('build a'), Buffer.from('build b')];
  for (const bytes of [a, b]) t.is((await put(bytes)).status, 201);
  const first = await ask(DEPLOY_QUERY, { build: digestOf(a), endpoints: specs('echo', 'other') });
  t.deepEqual(first.errors, []);
  const id = firstId(first);
  t.like(first.data, {
    deploy: { environment: 'default', endpoints: [{ name: 'echo', created: true, url: `${url}/v2/${id}` }, { name: 'other' }] },
  });
  await ask(DEPLOY_QUERY, { build: digestOf(b), endpoints: specs('echo') });
  const state = await ask(`{
    environments { name deployment endpoints { name } }
    endpoint(environment: "default", name: "echo") { id build { digest } settings { workersMax rateLimits } queue { inQueue reason } workers { total } functions routes { path } }
    builds { digest endpoints current functions }
    deployments { number cause endpoints { name build } }
    account { quota { workers used } }
  }`);
  t.like(state.data, {
    environments: [{ name: 'default', deployment: 2, endpoints: [{ name: 'echo' }, { name: 'other' }] }],
    endpoint: { id, build: { digest: digestOf(b) }, queue: { inQueue: 0, reason: null }, functions: ['echo'] },
    builds: [
      { digest: digestOf(b), current: ['echo'] },
      { digest: digestOf(a), current: ['other'], endpoints: ['echo', 'other'] },
    ],
    deployments: [{ number: 2, cause: 'DEPLOY' }, { number: 1 }],
    account: { quota: { workers: 30, used: 2 } },
  });
  const back = await ask('mutation { rollback(endpoint: "echo") { endpoints { build { digest } } } }');
  t.like(back.data, { rollback: { endpoints: [{ build: { digest: digestOf(a) } }] } });
  const changed = await ask(
    `mutation ($id: ID!) { updateEndpoint(endpoint: $id, settings: {
    workersMax: 4, idleTimeout: 9, env: { A: "1" }, rateLimits: [{ operation: "run", requests: 3, concurrent: 1 }]
  }) { settings { workersMax idleTimeout rateLimits } } }`,
    { id },
  );
  t.deepEqual(changed.data, {
    updateEndpoint: { settings: { workersMax: 4, idleTimeout: 9, rateLimits: { run: { requests: 3, concurrent: 1 } } } },
  });
  t.like(await ask('mutation { deleteEndpoint(endpoint: "echo") { name } }'), { data: { deleteEndpoint: { name: 'echo' } } });
  t.like(await ask('mutation { deleteEnvironment(name: "default") { name } }'), { errors: [{ extensions: { code: 'CONFLICT' } }] });
  t.like(await ask('mutation { deleteEnvironment(name: "default", force: true) { name } }'), {
    data: { deleteEnvironment: [{ name: 'other' }] },
  });
  t.like(await ask('{ environments { name } endpoint(name: "echo") { id } }'), { data: { environments: [], endpoint: null } });
});

test('the state manager’s query finds an endpoint by name, for a worker’s environment only', async (t) => {
  const { scheduler, ask, url } = await setup(t);
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1 }]);
  await scheduler.deploy([{ name: 'web', kind: EndpointKind.LOAD_BALANCED, routes: { 'GET /': 'web' } }], { environment: 'staging' });
  const session = (await scheduler.join('host')).session();
  let token = '';
  while (token === '') token = (await session.take('desired')).workers[0]?.token ?? '';
  const query = 'query($environment: String!, $name: String!) { endpoint(environment: $environment, name: $name) { id name kind url } }';
  const id = endpoints[0]?.id ?? '';
  const found = await ask(query, { environment: 'default', name: 'echo' }, token);
  t.deepEqual(found.data, { endpoint: { id, name: 'echo', kind: 'QUEUE', url: `${url}/v2/${id}` } });
  t.deepEqual((await ask(query, { environment: 'staging', name: 'web' }, token)).data, { endpoint: null });
  t.like(await ask(query, { environment: 'staging', name: 'web' }), { data: { endpoint: { kind: 'LOAD_BALANCED' } } });
  t.is(code(await ask('{ apiKeys { id } }', {}, token)), 'PERMISSION_DENIED');
  t.is(code(await ask('mutation { deleteEndpoint(endpoint: "echo") { id } }', {}, token)), 'PERMISSION_DENIED');
});

test('a load-balanced endpoint has its own host as its address where there is a domain; workers reach it by path', async (t) => {
  const { scheduler, ask } = await setup(t, {}, { lbDomain: 'apps.example.com', publicUrl: 'https://api.example.com' });
  const { endpoints } = await scheduler.deploy([
    { name: 'web', kind: EndpointKind.LOAD_BALANCED, routes: { 'GET /': 'web' }, workersMin: 1 },
    { name: 'echo' },
  ]);
  const [web = '', echo = ''] = endpoints.map(({ id }) => id);
  const query = 'query ($id: ID!) { endpoint(id: $id) { url hostUrl } }';
  t.deepEqual((await ask(query, { id: echo })).data, { endpoint: { url: `https://api.example.com/v2/${echo}`, hostUrl: null } });
  const host = `https://${web}.apps.example.com`;
  t.deepEqual((await ask(query, { id: web })).data, { endpoint: { url: host, hostUrl: host } });
  const session = (await scheduler.join('host')).session();
  let token = '';
  while (token === '') token = (await session.take('desired')).workers[0]?.token ?? '';
  const own = await ask('query ($id: ID!) { endpoint(id: $id) { url } }', { id: web }, token);
  t.deepEqual(own.data, { endpoint: { url: `https://api.example.com/lb/${web}` } });
});

test('what an operator sees and does: nodes, why workers are as they are, webhooks', async (t) => {
  const { scheduler, ask, url } = await setup(t);
  const { endpoints } = await scheduler.deploy([
    { name: 'echo', workersMin: 1 },
    { name: 'web', kind: EndpointKind.LOAD_BALANCED, routes: { 'GET /': 'web' } },
  ]);
  const session = (await scheduler.join('host')).session();
  await session.bringUp();
  const [id = '', web = ''] = endpoints.map((endpoint) => endpoint.id);
  const seen = await ask(
    'query ($id: ID!) { nodes { id name draining jobs allocated { cpus devices } packageVersions devices { xids { code } } } workers { release runtime failures start { loadedMs } } endpoint(id: $id) { hostUrl scaling { counts workers { state } rejections { reason } decisions { kind at } failedStarts lastStartError } } }',
    { id },
  );
  t.deepEqual(seen.errors, []);
  t.like(seen.data, {
    nodes: [{ name: 'host', draining: false, jobs: 0 }],
    workers: [{ failures: 0 }],
    endpoint: {
      hostUrl: null,
      scaling: { workers: [{ state: 'IDLE' }], rejections: [], failedStarts: 0, lastStartError: null },
    },
  });
  const { scaling } = seen.data['endpoint'] as { scaling: { decisions: { kind: string }[] } };
  t.true(scaling.decisions.some(({ kind }) => kind === 'REQUEST'));
  t.deepEqual((await ask('query ($id: ID!) { endpoint(id: $id) { hostUrl } }', { id: web })).data, {
    endpoint: { hostUrl: `http://${web}.lb.localhost:${new URL(url).port}` },
  });

  const node = (seen.data['nodes'] as { id: string }[])[0]?.id;
  const change = (name: string): Promise<Reply> => ask(`mutation ($id: ID!) { ${name}(id: $id) { draining } }`, { id: node });
  t.deepEqual((await change('drainNode')).data, { drainNode: { draining: true } });
  t.deepEqual((await change('resumeNode')).data, { resumeNode: { draining: false } });
  const remove = 'mutation ($id: ID!, $force: Boolean) { removeNode(id: $id, force: $force) }';
  t.is(code(await ask(remove, { id: node })), 'CONFLICT');
  t.deepEqual((await ask(remove, { id: node, force: true })).data, { removeNode: node });
  t.is(code(await ask(remove, { id: node })), 'NOT_FOUND');

  t.deepEqual((await ask('{ webhooks { webhooks { id state dueAt } next } }')).data, { webhooks: { webhooks: [], next: null } });
  t.is(code(await ask('mutation { redeliverWebhook(id: "none") }')), 'NOT_FOUND');
  t.is(code(await ask('{ webhooks(limit: -1) { next } }')), 'INVALID_ARGUMENT');
  const before = (await ask('{ webhookSecret }')).data['webhookSecret'];
  const rotated = (await ask('mutation { rotateWebhookSecret { secret previousUntil } }')).data['rotateWebhookSecret'];
  const { secret, previousUntil } = rotated as { secret: string; previousUntil: string };
  t.not(secret, before);
  t.true(Date.parse(previousUntil) > Date.now());
  t.is((await ask('{ webhookSecret }')).data['webhookSecret'], secret);

  const text = async (scope: string): Promise<string> => {
    const made = await ask(`mutation { createApiKey(name: "k", scope: ${scope}, endpoints: ["${id}"]) { text } }`);
    return (made.data['createApiKey'] as { text: string }).text;
  };
  const narrow = await text('ENDPOINTS');
  t.is(code(await ask('mutation { drainNode(id: "any") { id } }', {}, narrow)), 'PERMISSION_DENIED');
  t.is(code(await ask('mutation { rotateWebhookSecret { secret } }', {}, narrow)), 'PERMISSION_DENIED');
  t.is(code(await ask('{ webhookSecret }', {}, narrow)), 'PERMISSION_DENIED');
});

test('keys are made with a scope, shown once, and nobody takes them once they are revoked', async (t) => {
  const { ask, put, url } = await setup(t);
  const bytes = Buffer.from('build');
  await put(bytes);
  const id = firstId(await ask(DEPLOY_QUERY, { build: digestOf(bytes), endpoints: specs('echo', 'other') }));
  const make = async (scope: string, more = ''): Promise<{ text: string; key: { id: string } }> =>
    (await ask(`mutation { createApiKey(name: "made", scope: ${scope}${more}) { text key { id scope endpoints environment expiresAt } } }`))
      .data['createApiKey'] as never;
  const one = await make('ENDPOINTS', ', endpoints: ["echo"]');
  const reader = await make('READ_ONLY', ', expiresInS: 60');
  t.like(one.key, { scope: 'ENDPOINTS', endpoints: [id], expiresAt: null });
  t.regex(String((reader.key as { expiresAt?: string }).expiresAt), /^\d{4}-/);
  const health = async (key: string, endpoint = id): Promise<number> =>
    (await fetch(`${url}/v2/${endpoint}/health`, { headers: { authorization: `Bearer ${key}` } })).status;
  t.is(await health(one.text), 200);
  t.deepEqual((await ask('{ endpoints { name } }', {}, one.text)).data, { endpoints: [{ name: 'echo' }] });
  for (const { text } of [one, reader]) {
    t.is(code(await ask('mutation { createApiKey(name: "x", scope: ALL) { text } }', {}, text)), 'PERMISSION_DENIED');
    t.is((await put(bytes, { key: text })).status, 401);
  }
  const mixed = await ask('{ endpoints { name } account { id } }', {}, one.text);
  t.is(mixed.status, 200);
  t.deepEqual(
    mixed.errors.map(({ path, extensions }) => [path, extensions.code]),
    [[['account'], 'PERMISSION_DENIED']],
  );
  const listed = await ask('{ apiKeys { id name prefix scope lastUsedAt } }');
  t.false(JSON.stringify(listed.data).includes(one.text));
  t.is((listed.data['apiKeys'] as unknown[]).length, 3);
  await ask('mutation ($id: ID!) { revokeApiKey(id: $id) { id } }', { id: one.key.id });
  // The revocation travels on the stream: the first refusal is its arrival, and none comes through after it.
  while ((await health(one.text)) !== 401);
  t.is(await health(one.text), 401);
  t.is((await ask('{ endpoints { id } }', {}, one.text)).status, 401);
  t.is(code(await ask('mutation { revokeApiKey(id: "nothing") { id } }')), 'NOT_FOUND');
});

test('a missing or wrong key is 401 in GraphQL’s shape; faults of the query are 400', async (t) => {
  const { ask, url, key } = await setup(t);
  for (const wrong of [null, 'wrong', 'wkr_abc_' + 'A'.repeat(43)]) {
    const reply = await ask('{ endpoints { id } }', {}, wrong);
    t.is(reply.status, 401);
    t.is(reply.headers.get('www-authenticate'), 'Bearer');
    t.is(code(reply), 'UNAUTHENTICATED');
  }
  for (const query of [
    '{',
    '{ nothing }',
    '{ endpoints }',
    '{ endpoint(id: {}) { id } }',
    'query A { account { id } } query B { account { id } }',
  ]) {
    const reply = await ask(query);
    t.is(reply.status, 400, query);
    t.is(code(reply), 'INVALID_ARGUMENT', query);
  }
  for (const [query, variables] of [
    ['query ($id: ID!) { endpoint(id: $id) { id } }', {}],
    ['query ($limit: Int) { deployments(limit: $limit) { number } }', { limit: 'x' }],
    [DEPLOY_QUERY, { build: 'x', endpoints: ['no object'] }],
  ] as const)
    t.is((await ask(query, variables)).status, 400, query);
  t.is(code(await ask('mutation { updateEndpoint(endpoint: "x", settings: { workersMax: -1 }) { id } }')), 'INVALID_ARGUMENT');
  t.is(code(await ask(DEPLOY_QUERY, { build: 'x', endpoints: specs('echo') })), 'INVALID_ARGUMENT');
  t.is(code(await ask(DEPLOY_QUERY, { build: '0'.repeat(64), endpoints: specs('echo') })), 'NOT_FOUND');
  for (const body of ['', 'no json', '[]', '{"query":1}', '{"query":"{ account { id } }","variables":[]}']) {
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { authorization: key, 'content-type': 'application/json' },
      body,
    });
    t.is(response.status, 400, body);
    t.is(((await response.json()) as { errors: Problem[] }).errors[0]?.extensions.code, 'INVALID_ARGUMENT');
  }
});

test('introspection answers; depth and size are bounded', async (t) => {
  const { ask } = await setup(t);
  t.deepEqual((await ask(getIntrospectionQuery())).errors, []);
  const deep = `{ __schema { types { ${'ofType { '.repeat(30)} name ${'} '.repeat(30)} } } }`;
  t.regex((await ask(deep)).errors[0]?.message ?? '', /deeper than 20/);
  const wide = `{ ${Array.from({ length: 30 }, (_, i) => `a${i}: account { id }`).join(' ')} }`;
  t.regex((await ask(wide)).errors[0]?.message ?? '', /more than 20 root fields/);
  const fragments = Array.from({ length: 15 }, (_, i) => `fragment F${i} on Account { ...F${i + 1} ...F${i + 1} }`).join(' ');
  t.regex(
    (await ask(`{ account { ...F0 } } ${fragments} fragment F15 on Account { id }`)).errors[0]?.message ?? '',
    /more than 1000 fields/,
  );
  t.is((await ask(`{ account { ${'id '.repeat(6_000)} } }`)).status, 400);
  // Refused before the validation, which compares every field with every other.
  t.regex((await ask(`{ account { ${'id '.repeat(1_100)} } }`)).errors[0]?.message ?? '', /more than 1000 fields/);
  t.regex((await ask('{ ...F } fragment F on Query { ...F }')).errors[0]?.message ?? '', /Cannot spread fragment "F" within itself/);
  // No bracket may cost the parser its stack, nor a value whoever reads it.
  for (const [left, right] of [
    ['{', '}'],
    ['{ ...', '}'],
    ['{ endpoint(id: [', '])'],
    ['{ endpoint(id: {a:', '})'],
  ] as const) {
    const { status, errors } = await ask(left.repeat(1_500) + right.repeat(1_500));
    t.is(status, 400, left);
    t.regex(errors[0]?.message ?? '', /query: is nested deeper than 64 brackets/, left);
  }
  const { status, errors } = await ask('{ account { id } }', deeply(600));
  t.is(status, 400);
  t.regex(errors[0]?.message ?? '', /body: must not be nested deeper than 512 levels/);
  t.is((await ask(`{ account { id } } #${'x'.repeat(1_100_000)}`)).status, 413);
});

test('a number that no message can carry is refused by its name', async (t) => {
  const { ask } = await setup(t);
  const mutation = 'mutation ($endpoints: [EndpointSpec!]!) { deploy(build: "b", endpoints: $endpoints) { environment } }';
  for (const [value, rule] of [
    [1e20, /endpoints\.workersMax: must be an integer between 0 and 1000/],
    [1.5, /endpoints\.workersMax: must be an integer between 0 and 1000, not 1\.5/],
    ['many', /endpoints\.workersMax: must be an integer between 0 and 1000, not "many"/],
    [-1, /endpoints\.workersMax: must be an integer between 0 and 1000, not -1/],
  ] as const) {
    const { status, errors } = await ask(mutation, { endpoints: [{ name: 'e', workersMax: value }] });
    t.is(status, 400, String(value));
    t.regex(errors[0]?.message ?? '', rule);
  }
});

test('an endpoint’s form is read as it is written, and what is no such form is refused by its name', async (t) => {
  const { scheduler, ask } = await setup(t);
  const build = await scheduler.putBuild(Buffer.from('a build'));
  const mutation =
    'mutation ($build: String!, $endpoints: [EndpointSpec!]!) { deploy(build: $build, endpoints: $endpoints) { endpoints { settings { idleTimeout workersMax } } } }';
  const functions = [{ name: 'f', module: 'f.ts' }];
  const web = { name: 'e', kind: 'ENDPOINT_KIND_LOAD_BALANCED', functions, routes: { 'GET /': 'f' } };
  const refusals: readonly (readonly [object, RegExp])[] = [
    // Taken for true, it would open the endpoint to everybody.
    [{ ...web, isPublic: 'false' }, /endpoints\.isPublic: must be true or false/],
    [{ ...web, env: { A: { b: 1 } } }, /endpoints\.env\["A"\]: must be a string/],
    [{ ...web, env: ['A=b'] }, /endpoints\.env: must be an object/],
    [{ ...web, name: {} }, /endpoints\.name: must be a string/],
    [{ ...web, command: 'run me' }, /endpoints\.command: must be an array/],
    [{ ...web, functions: [{ name: 'f', module: 1 }] }, /endpoints\.functions\[0\]\.module: must be a string/],
    [{ ...web, rateLimits: { run: { requests: '5' } } }, /endpoints\.rateLimits\["run"\]\.requests: must be an integer/],
    [{ ...web, kind: 'QUEUE' }, /endpoints\.kind: must be one of ENDPOINT_KIND_UNSPECIFIED, ENDPOINT_KIND_QUEUE/],
    [{ ...web, workersMaximum: 3 }, /endpoints: has no field "workersMaximum"; the fields are name, kind,/],
    [[web], /endpoints: must contain objects/],
  ];
  for (const [endpoint, rule] of refusals) {
    const { status, errors } = await ask(mutation, { build, endpoints: [endpoint] });
    t.is(status, 400, String(rule));
    t.regex(errors[0]?.message ?? '', rule);
  }
  const named = await ask(mutation, { build, endpoints: [{ ...web, env: { 'A=B': 'c' } }] });
  t.regex(named.errors[0]?.message ?? '', /^e\.env\["A=B"\]: must be a name of letters, digits and underscores$/);
  // What is left out is the service's default, as in a manifest.
  for (const [more, idleTimeout, workersMax] of [
    [{}, 5, 3],
    [{ idleTimeout: 7, image_name: null, public: true, workersMax: null }, 7, 3],
    [{ idleTimeoutS: 8, workers_max: 0 }, 8, 0],
  ] as const) {
    const { data, errors } = await ask(mutation, { build, endpoints: [{ ...web, ...more }] });
    t.deepEqual(errors, []);
    t.deepEqual(data['deploy'], { endpoints: [{ settings: { idleTimeout, workersMax } }] });
  }
  const shop = {
    name: 'shop',
    functions: [{ name: 'Shop', module: 'shop.ts', classSpec: { methods: [{ name: 'find', parameters: [SKU] }] } }],
  };
  const shown = await ask(
    mutation.replace('settings { idleTimeout workersMax }', 'signatures { name methods { name parameters { name type schema } } }'),
    { build, endpoints: [shop] },
  );
  t.deepEqual(shown.data['deploy'], {
    endpoints: [
      { signatures: [{ name: 'Shop', methods: [{ name: 'find', parameters: [{ name: 'sku', type: 'string', schema: SKU.schema }] }] }] },
    ],
  });
  const update = 'mutation ($env: JSON!) { updateEndpoint(endpoint: "e", settings: { env: $env }) { id } }';
  for (const [env, rule] of [
    [{ '': 'x' }, /^e\.env\[""\]: must be a name of letters, digits and underscores$/],
    [{ A: '\0' }, /^e\.env\.A: must not contain the character NUL$/],
  ] as const)
    t.regex((await ask(update, { env })).errors[0]?.message ?? '', rule);
});

test('a key that asks too often is told when to ask again', async (t) => {
  const { ask } = await setup(t, {}, { graphqlPerSecond: 1 });
  const replies = await Promise.all(Array.from({ length: 20 }, () => ask('{ account { id } }')));
  const refused = replies.find(({ status }) => status === 429);
  t.is(refused?.headers.get('retry-after'), '1');
  t.is(refused?.errors[0]?.extensions.code, 'RATE_LIMITED');
  t.true(replies.some(({ status }) => status === 200));
});

test('requests for logs count towards the rate of a key', async (t) => {
  const { key, url } = await setup(t, {}, { graphqlPerSecond: 1 });
  const replies = await Promise.all(Array.from({ length: 20 }, () => fetch(`${url}/v2/e/logs`, { headers: { authorization: key } })));
  const refused = replies.find(({ status }) => status === 429);
  t.is(refused?.headers.get('retry-after'), '1');
  t.true(replies.some(({ status }) => status !== 429));
});

test('an upload is checked: its digest, its size, its key; a cut-off one leaves nothing', async (t) => {
  const { put, url, key, ask } = await setup(t);
  const bytes = Buffer.alloc(700_000, 7);
  const digest = digestOf(bytes);
  const head = async (): Promise<number> =>
    (await fetch(`${url}/builds/${digest}`, { method: 'HEAD', headers: { authorization: key } })).status;
  t.is((await put(bytes, { digest: 'ab'.repeat(32) })).status, 400);
  t.is((await put(bytes, { digest: 'nonsense' })).status, 400);
  t.is((await put(bytes, { key: 'wrong' })).status, 401);
  t.is((await put(Buffer.alloc(0))).status, 400);
  t.is(await head(), 404);
  const cut = httpRequest(`${url}/builds/${digest}`, { method: 'PUT', headers: { authorization: key, 'content-length': bytes.length } });
  cut.on('error', () => undefined);
  await new Promise<void>((resolve) => cut.write(bytes.subarray(0, 300_000), () => resolve()));
  cut.destroy();
  t.is(code(await ask(DEPLOY_QUERY, { build: digest, endpoints: specs('echo') })), 'NOT_FOUND');
  t.is(await head(), 404);
  t.is((await put(bytes)).status, 201);
  t.is(await head(), 200);
  t.deepEqual(await (await put(bytes)).json(), { digest, size: bytes.length, existed: true });
  const large = httpRequest(`${url}/builds/${digest}`, {
    method: 'PUT',
    headers: { authorization: key, 'content-length': 500_000_001, expect: '100-continue' },
  });
  const answer = await new Promise<{ status: number | undefined; text: string }>((resolve) => {
    large.on('response', (response) => {
      response.setEncoding('utf8');
      response.on('data', (text: string) => resolve({ status: response.statusCode, text }));
    });
    large.on('error', () => undefined);
    large.flushHeaders();
  });
  large.destroy();
  t.is(answer.status, 413);
  t.regex(answer.text, /at most 500000000 bytes/);
});

test('an upload in parts goes on where a broken line left it; what does not fit is refused by name', async (t) => {
  const { url, key, ask } = await setup(t);
  const bytes = Buffer.from(Array.from({ length: 700_000 }, (_, i) => (i * i) % 251));
  const digest = digestOf(bytes);
  const headers = { authorization: key, 'upload-length': String(bytes.length) };
  const patch = async (offset: number | string, body: Buffer, more: Readonly<Record<string, string>> = {}) => {
    const sent = { method: 'PATCH', headers: { ...headers, 'upload-offset': String(offset), ...more }, body: new Uint8Array(body) };
    const response = await fetch(`${url}/builds/${digest}`, sent);
    return { status: response.status, body: (await response.json()) as { detail?: string; received?: number; existed?: boolean } };
  };
  const arrived = async (): Promise<number | null> => {
    const response = await fetch(`${url}/builds/${digest}`, { method: 'HEAD', headers });
    return response.status === 200 ? null : Number(response.headers.get('upload-offset'));
  };
  t.is(await arrived(), 0);
  const cut = httpRequest(`${url}/builds/${digest}`, { method: 'PATCH', headers: { ...headers, 'upload-offset': '0' } });
  cut.on('error', () => undefined);
  await new Promise<void>((resolve) => cut.write(bytes.subarray(0, 300_001), () => resolve()));
  await until('what was sent has arrived', async () => ((await arrived()) === 300_001 ? true : null));
  cut.destroy();

  for (const [offset, body, more, status, detail] of [
    [0, bytes, {}, 409, /offset: the next part must start at byte 300001, not 0/],
    ['x', bytes, {}, 400, /Upload-Offset: must be a whole number/],
    [300_001, bytes, {}, 400, /Upload-Offset: offset and body exceed Upload-Length \(700000\)/],
    [0, bytes, { 'upload-length': '500000001' }, 413, /Upload-Length: a build may have at most 500000000 bytes/],
    [0, bytes, { 'upload-length': '0' }, 400, /Upload-Length: must be above 0/],
    [0, bytes, { authorization: 'wrong' }, 401, /key/],
  ] as const) {
    const refused = await patch(offset, bytes.subarray(0, body.length), more);
    t.is(refused.status, status);
    t.regex(refused.body.detail ?? '', detail);
  }
  const middle = await patch(300_001, bytes.subarray(300_001, 400_000));
  t.deepEqual([middle.status, middle.body.received, middle.body.existed], [200, 400_000, undefined]);
  t.is(code(await ask(DEPLOY_QUERY, { build: digest, endpoints: specs('echo') })), 'NOT_FOUND');
  const last = await patch(400_000, bytes.subarray(400_000));
  t.deepEqual([last.status, last.body.received, last.body.existed], [201, bytes.length, false]);
  t.is(await arrived(), null);
  t.deepEqual((await patch(0, bytes)).body.existed, true);
});

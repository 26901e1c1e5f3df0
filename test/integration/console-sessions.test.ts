/** Sessions of the console over real HTTP: what the cookie opens, what it does not, and when it ends (docs/console.md). */
import test, { type ExecutionContext } from 'ava';
import { request } from 'undici';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

interface Call {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** The cookie of a session over TLS. */
const OF_HOST = /^__Host-capstan_session=ses_[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict$/;

async function open(t: ExecutionContext, settings: Record<string, unknown> = {}) {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', ...settings }, {}));
  t.teardown(() => gateway.close());
  const key = scheduler.secret('api-key');
  const call = async (path: string, { method = 'GET', headers = {}, body }: Call = {}): Promise<Answer> => {
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const reply = await request(`${gateway.url}${path}`, {
      method: method as 'GET',
      headers: { ...type, ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    return { status: reply.statusCode, headers: reply.headers, text: await reply.body.text() };
  };
  while ((await call('/v2/none/health', { headers: { authorization: `Bearer ${key}` } })).status === 503);
  const signIn = (apiKey = key, headers: Record<string, string> = {}): Promise<Answer> =>
    call('/console/api/session', { method: 'POST', headers: { 'capstan-console': '1', ...headers }, body: { apiKey } });
  /** Signs in and returns the headers of a page's requests. */
  const pageOf = async (apiKey = key): Promise<Readonly<Record<string, string>>> => {
    const { status, headers, text } = await signIn(apiKey);
    t.is(status, 200, text);
    return { cookie: String(headers['set-cookie']).split(';', 1)[0] ?? '', 'capstan-console': '1' };
  };
  const graphql = (query: string, headers: Readonly<Record<string, string>>, path = '/console/api/graphql'): Promise<Answer> =>
    call(path, { method: 'POST', headers, body: { query } });
  return { scheduler, gateway, key, call, signIn, pageOf, graphql };
}

test('a key opens a session, whose cookie stands for the key below /console/api and nowhere else', async (t) => {
  const { call, signIn, pageOf, graphql, key } = await open(t);
  const { headers, text } = await signIn();
  const cookie = String(headers['set-cookie']);
  t.regex(cookie, /^capstan_session=ses_[\w-]{43}; Path=\/console; HttpOnly; SameSite=Strict$/);
  t.is(headers['cache-control'], 'no-store');
  t.false(text.includes('ses_') || text.includes(key), 'the page learns neither the token nor the key');
  const session = JSON.parse(text) as Record<string, unknown>;
  t.like(session, { account: { id: 'default' }, scope: 'OPERATOR', isOperator: true });

  const page = await pageOf();
  t.deepEqual(JSON.parse((await call('/console/api/session', { headers: page })).text), session);
  t.like(JSON.parse((await graphql('{ account { id } }', page)).text), { data: { account: { id: 'default' } } });
  t.is((await call('/console/api/v2/none/health', { headers: page })).status, 404);

  // The cookie, or its token as a key, on the public routes.
  const token = page['cookie']?.replace('capstan_session=', '') ?? '';
  for (const stolen of [page, { authorization: `Bearer ${token}` }, { ...page, authorization: token }]) {
    t.is((await graphql('{ account { id } }', stolen, '/graphql')).status, 401);
    t.is((await call('/v2/none/health', { headers: stolen })).status, 401);
    t.is((await call(`/builds/sha256:${'0'.repeat(64)}`, { method: 'HEAD', headers: stolen })).status, 401);
    t.is((await call('/lb/none/x', { headers: stolen })).status, 401);
  }
});

test('a job that a page submits names the key that signed in, not the session', async (t) => {
  const { scheduler, call, pageOf, graphql } = await open(t);
  const [endpoint] = (await scheduler.deploy([{ name: 'echo' }])).endpoints;
  const page = await pageOf();
  const path = `/console/api/v2/${endpoint?.id ?? ''}/run`;
  const { id } = JSON.parse((await call(path, { method: 'POST', headers: page, body: { input: {} } })).text) as { id: string };
  const { text } = await graphql(`{ job(endpoint: "${endpoint?.id ?? ''}", id: "${id}") { submittedBy } apiKeys { id } }`, page);
  const { data } = JSON.parse(text) as { data: { job: { submittedBy: string }; apiKeys: { id: string }[] } };
  t.deepEqual(
    [data.job.submittedBy],
    data.apiKeys.map((key) => key.id),
  );
});

test('requests that the console did not make are refused, whatever cookie they bring', async (t) => {
  const { gateway, call, pageOf, graphql, signIn, key } = await open(t);
  const page = await pageOf();
  const { host, port } = new URL(gateway.url);
  const query = '{ account { id } }';
  const cookie = page['cookie'] ?? '';
  const refused: readonly Readonly<Record<string, string>>[] = [
    { cookie },
    { ...page, origin: 'https://evil.example' },
    { ...page, origin: 'null' },
    // Pages of endpoints: on hosts of the same site, and other ports of this host.
    { ...page, origin: `http://web.lb.localhost:${port}` },
    { ...page, origin: `http://127.0.0.1:${Number(port) + 1}` },
    { ...page, 'sec-fetch-site': 'same-site' },
    { ...page, 'sec-fetch-site': 'cross-site' },
    { ...page, authorization: `Bearer ${key}` },
  ];
  for (const headers of refused) {
    const { status, text } = await graphql(query, headers);
    t.is(status, 401, `${JSON.stringify(headers)} ${text}`);
    t.regex(text, /Capstan-Console|Origin|Sec-Fetch-Site|Authorization: must be absent/);
    if ('capstan-console' in headers) t.is((await signIn(key, headers)).status, 401);
  }
  const { 'capstan-console': _, ...bare } = page;
  t.is((await call('/console/api/session', { method: 'DELETE', headers: bare })).status, 401);
  t.is((await graphql(query, { ...page, origin: `http://${host}`, 'sec-fetch-site': 'same-origin' })).status, 200);
  t.is((await graphql(query, { 'capstan-console': '1' })).status, 401);
  t.is((await graphql(query, { 'capstan-console': '1', cookie: 'capstan_session=' })).status, 401);
  t.is((await graphql(query, { 'capstan-console': '1', cookie: `capstan_session=${'x'.repeat(8000)}` })).status, 401);
  t.is((await graphql(query, { 'capstan-console': '1', cookie: `capstan_session=${key}` })).status, 401);
  // Another host of the site planted a second one.
  t.is((await graphql(query, { ...page, cookie: `${cookie}; capstan_session=ses_${'a'.repeat(43)}` })).status, 400);
});

test('signing in refuses what is no key, and names the rule', async (t) => {
  const { call, signIn, pageOf } = await open(t);
  const page = await pageOf();
  t.is((await signIn('cap_unknown')).status, 401);
  t.is((await signIn(page['cookie']?.replace('capstan_session=', ''))).status, 401, 'a session opens no other');
  for (const [body, rule] of [
    ['', 'body: must be JSON'],
    ['[]', 'must be a JSON object'],
    ['{"apiKey":7}', 'apiKey: must be an API key'],
    [JSON.stringify({ apiKey: 'x'.repeat(2000) }), 'apiKey: must be an API key'],
  ] as const) {
    const { status, text } = await call('/console/api/session', { method: 'POST', headers: { 'capstan-console': '1' }, body });
    t.is(status, 400, text);
    t.true(text.includes(rule), text);
  }
  const large = { method: 'POST', headers: { 'capstan-console': '1' }, body: JSON.stringify({ apiKey: 'x'.repeat(5000) }) };
  t.is((await call('/console/api/session', large)).status, 413);
  for (const path of ['/console; Domain=evil.example', '/evil', 'console', `/${'x'.repeat(600)}/console`])
    t.is((await signIn(undefined, { 'capstan-console': path })).status, 400, path);
  t.regex(String((await signIn(undefined, { 'capstan-console': '/a.b/c/console' })).headers['set-cookie']), /; Path=\/a\.b\/c\/console;/);
});

test('the cookie is marked Secure unless the page is an unencrypted one of this host', async (t) => {
  const { signIn } = await open(t, { publicUrl: 'https://capstan.example/prefix' });
  t.regex(String((await signIn()).headers['set-cookie']), OF_HOST);
  t.is((await signIn(undefined, { origin: 'https://capstan.example' })).status, 200);
  const lan = await open(t);
  t.regex(String((await lan.signIn(undefined, { host: '10.1.2.3:8080' })).headers['set-cookie']), OF_HOST);
});

test('a page of a sibling host signs nobody in as itself: over TLS only the cookie of this very host counts', async (t) => {
  const { call, signIn, graphql, key } = await open(t, { publicUrl: 'https://capstan.example', trustedProxies: '127.0.0.1' });
  const at = { host: 'capstan.example', 'x-forwarded-proto': 'https', origin: 'https://capstan.example', 'sec-fetch-site': 'same-origin' };
  const { headers } = await signIn(key, at);
  const [cookie = ''] = String(headers['set-cookie']).split(';', 1);
  const token = cookie.replace('__Host-capstan_session=', '');
  const page = { ...at, 'capstan-console': '1' };
  const query = '{ account { id } }';
  t.is((await graphql(query, { ...page, cookie })).status, 200);
  // What a sibling may plant: names without the prefix, for its parent domain.
  for (const name of ['capstan_session', '__Secure-capstan_session', '__host-capstan_session', 'Capstan_Session']) {
    t.is((await graphql(query, { ...page, cookie: `${name}=${token}` })).status, 401, name);
    t.is((await call('/console/api/session', { headers: { ...page, cookie: `${name}=${token}` } })).status, 401, name);
    // It does not sign out who is signed in, either.
    t.is((await graphql(query, { ...page, cookie: `${name}=ses_${'a'.repeat(43)}; ${cookie}` })).status, 200, name);
  }
  for (const origin of [
    'http://capstan.example',
    'https://web.capstan.example',
    'https://web.lb.capstan.example',
    'https://capstan.example:8443',
    'https://capstan.example.evil.example',
    'https://evil.example/?https://capstan.example',
    'https://capstan.example.',
    'null',
  ]) {
    const { status, text } = await signIn(key, { ...at, origin });
    t.is(status, 401, `${origin} ${text}`);
  }
  const out = await call('/console/api/session', { method: 'DELETE', headers: { ...page, cookie } });
  t.regex(String(out.headers['set-cookie']), /^__Host-capstan_session=; Path=\/; Secure; HttpOnly; SameSite=Strict; Max-Age=0$/);
  t.is((await graphql(query, { ...page, cookie })).status, 401);
});

test('a session ends with its key, when its holder signs out, and with the account', async (t) => {
  const { call, pageOf, graphql } = await open(t);
  const operator = await pageOf();
  const made = async (mutation: string, field: string): Promise<string> => {
    const { text } = await graphql(`mutation { made: ${mutation} { ${field} } }`, operator);
    return (JSON.parse(text) as { data: { made: Record<string, string> } }).data.made[field] ?? '';
  };
  const reader = await made('createApiKey(name: "reader", scope: READ_ONLY)', 'text');
  const [first, second] = [await pageOf(reader), await pageOf(reader)];
  const query = '{ account { id } }';

  const out = await call('/console/api/session', { method: 'DELETE', headers: first });
  t.is(out.status, 204);
  t.regex(String(out.headers['set-cookie']), /^capstan_session=; Path=\/console; .*Max-Age=0$/);
  t.is((await graphql(query, first)).status, 401);
  t.is((await graphql(query, second)).status, 200);
  // It may do what its key may, is no key of its own, and is not listed as one.
  t.regex((await graphql('mutation { createApiKey(name: "x", scope: ALL) { text } }', second)).text, /PERMISSION_DENIED/);
  const listed = JSON.parse((await graphql('{ apiKeys { name } }', operator)).text) as { data: { apiKeys: { name: string }[] } };
  t.deepEqual(listed.data.apiKeys.map(({ name }) => name).toSorted(), ['first key', 'reader']);

  await graphql('mutation { revokeApiKey(id: "reader") { id } }', operator);
  await until('the session of the revoked key ends', async () => (await graphql(query, second)).status === 401);

  const team = await pageOf(await made('createAccount(id: "team")', 'keyText'));
  t.like(JSON.parse((await call('/console/api/session', { headers: team })).text), {
    account: { id: 'team' },
    scope: 'ALL',
    isOperator: false,
  });
  await graphql('mutation { deleteAccount(id: "team") { id } }', operator);
  await until('the session of the deleted account ends', async () => (await graphql(query, team)).status === 401);
});

test('a session follows what changes at its endpoints, within limits, and to its end', async (t) => {
  const { scheduler, gateway, pageOf, call, key } = await open(t);
  const page = await pageOf();
  t.is((await call('/console/api/events', { headers: { cookie: page['cookie'] ?? '' } })).status, 401);
  const follow = async (): Promise<{ read: () => Promise<string>; response: Response }> => {
    const abort = new AbortController();
    t.teardown(() => abort.abort());
    const response = await fetch(`${gateway.url}/console/api/events`, { headers: page, signal: abort.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    return { response, read: async () => (await reader?.read())?.value ?? '' };
  };
  const { read, response } = await follow();
  t.is(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  const seen = async (wanted: RegExp): Promise<string> => {
    for (let text = ''; ;) {
      text += await read();
      if (wanted.test(text)) return text;
    }
  };
  await seen(/event: all\ndata: \{"endpoints":\[\],"removed":\[\]\}\n\n/);
  const [id = ''] = (await scheduler.deploy([{ name: 'echo' }])).endpoints.map((each) => each.id);
  await seen(new RegExp(`event: change\\ndata: .*"id":"${id}".*"inQueue":0`));
  await call(`/v2/${id}/run`, { method: 'POST', headers: { authorization: `Bearer ${key}` }, body: { input: {} } });
  await seen(/"inQueue":1/);
  const more = await Promise.all(Array.from({ length: 10 }, follow));
  t.deepEqual(
    more.map((each) => each.response.status).toSorted((a, b) => a - b),
    [...Array.from({ length: 9 }, () => 200), 429],
  );
});

/** Keys beside Authorization: the header X-Capstan-Key and the sign-in of browsers; the application keeps its own headers and cookies. */
import test, { type ExecutionContext } from 'ava';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { isOwnRequest } from '../../gateway/lb/sign-in/own-requests.ts';
import { returnPath } from '../../gateway/lb/sign-in/page.ts';
import { SignInTokens } from '../../gateway/lb/sign-in/token.ts';
import { FakeAgent } from './fake-agent.ts';
import { KEY, type CallOptions } from './harness.ts';
import { HOST, setupLb } from './lb-harness.ts';

const JWT = 'Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln';
const PAGE = { accept: 'text/html' };
const OWN = { 'sec-fetch-site': 'same-origin' };

/** An endpoint with a server of its own, which returns the headers that it receives. */
async function world(t: ExecutionContext, overrides: Record<string, unknown> = {}) {
  const made = await setupLb(t, overrides);
  made.scheduler.addEndpoint('app', 'acc', EndpointKind.LOAD_BALANCED, { routes: [] });
  for (const endpoint of ['app', 'web']) {
    const agent = new FakeAgent(t, made.invokeAddress, `node-of-${endpoint}`).serve(endpoint, { [`worker-of-${endpoint}`]: 8 });
    agent.onRequest = ({ begin, answer }) =>
      answer(200, JSON.stringify(Object.fromEntries(begin.headers.map(({ name, value }) => [name, value]))), {
        'access-control-allow-origin': 'https://app.example',
      });
  }
  const at =
    (host: string) =>
    (method: string, path: string, headers: Record<string, string> = {}, options: CallOptions = {}) =>
      made.call(method, path, { key: null, ...options, headers: { host, ...headers } });
  const app = at('app.lb.localhost');
  while ((await app('GET', '/', { 'x-capstan-key': KEY })).status !== 200);
  return { ...made, app, at };
}

async function signIn({ app }: Awaited<ReturnType<typeof world>>, key: string, headers: Record<string, string> = OWN, to = '/rooms?id=1') {
  const body = new URLSearchParams({ key, to }).toString();
  return app('POST', '/.capstan/sign-in', { 'content-type': 'application/x-www-form-urlencoded', ...headers }, { body });
}

function cookieOf(answer: Awaited<ReturnType<typeof signIn>>): string {
  return String(answer.headers['set-cookie']).split(';')[0] ?? '';
}

test('with the key in X-Capstan-Key, Authorization and cookies are the application’s, and the key is not passed on', async (t) => {
  const { app, at } = await world(t);
  const seen = await app('GET', '/', { 'x-capstan-key': KEY, authorization: JWT, cookie: 'session=1' });
  t.like(seen.json, { authorization: JWT, cookie: 'session=1' });
  t.false(seen.text.includes(KEY));
  t.like((await app('GET', '/', { 'x-capstan-key': `Bearer ${KEY}`, authorization: 'Basic b3du' })).json, {
    authorization: 'Basic b3du',
  });
  // A key of this service in both is passed on from neither.
  const both = await app('GET', '/', { 'x-capstan-key': KEY, authorization: `Bearer ${KEY}` });
  t.deepEqual([both.status, both.text.includes(KEY)], [200, false]);
  // The header decides alone: Authorization does not help where it is wrong.
  t.is((await app('GET', '/', { 'x-capstan-key': 'wrong', authorization: `Bearer ${KEY}` })).status, 401);
  t.is((await app('GET', '/', { authorization: JWT })).status, 401);
  t.is((await at('gateway')('GET', '/lb/app/', { 'x-capstan-key': KEY, authorization: JWT })).status, 200);
  t.is((await at(HOST)('GET', '/fn', { 'x-capstan-key': KEY, authorization: JWT })).status, 200);
});

test('a public endpoint gets Authorization untouched, and X-Capstan-Key never', async (t) => {
  const { scheduler, app } = await world(t);
  scheduler.addEndpoint('app', 'acc', EndpointKind.LOAD_BALANCED, { routes: [], isPublic: true });
  while ((await app('GET', '/')).status !== 200);
  const seen = await app('GET', '/', { 'x-capstan-key': 'whatever', authorization: JWT, cookie: 'a=b' });
  t.like(seen.json, { authorization: JWT, cookie: 'a=b' });
  t.false(Object.hasOwn(seen.json, 'x-capstan-key'));
});

test('a browser signs in once; the cookie is for this endpoint and its own pages, and is not passed on', async (t) => {
  const made = await world(t);
  const { app, at } = made;
  const page = await app('GET', '/rooms?id=%22%3E%3Cscript%3E', PAGE);
  t.is(page.status, 401);
  t.regex(page.text, /<form method="post" action="\/\.capstan\/sign-in">/);
  t.false(page.text.includes('"><script>'));
  t.regex(String(page.headers['content-security-policy']), /frame-ancestors 'none'/);
  // Programs get JSON.
  t.deepEqual(Object.keys((await app('GET', '/')).json), ['error', 'detail']);

  t.is((await signIn(made, 'wrong')).status, 401);
  const done = await signIn(made, KEY);
  t.deepEqual([done.status, done.headers['location']], [303, '/rooms?id=1']);
  t.regex(String(done.headers['set-cookie']), /^capstan_endpoint=[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/);
  t.false(String(done.headers['set-cookie']).includes(KEY));
  const cookie = cookieOf(done);
  const seen = await app('POST', '/', { cookie: `own=1; ${cookie}`, authorization: JWT, ...OWN });
  t.like(seen.json, { cookie: 'own=1', authorization: JWT });
  t.false(seen.text.includes('capstan_endpoint'));
  t.is((await app('GET', '/', { cookie, 'sec-fetch-site': 'none' })).status, 200);

  for (const [name, headers] of Object.entries({
    'a page of another site': { 'sec-fetch-site': 'cross-site' },
    'a page of another endpoint': { 'sec-fetch-site': 'same-site' },
    'an origin of another endpoint': { origin: 'http://web.lb.localhost' },
    'a page in a sandbox': { origin: 'null' },
    'a request without a word of its page': {},
  }))
    t.is((await app('POST', '/', { cookie, ...headers })).status, 401, name);
  t.is((await at(HOST)('GET', '/fn', { cookie, ...OWN })).status, 401, 'another endpoint');
  t.is((await at('gateway')('GET', '/lb/app/', { cookie, ...OWN })).status, 401, 'the path form');
  t.is((await app('GET', '/', { cookie: `${cookie}x`, ...OWN })).status, 401, 'a changed cookie');
  t.is((await app('GET', '/', { cookie: `${cookie}; ${cookie}`, ...OWN })).status, 401, 'two of them');
  t.is((await made.call('GET', '/v2/ep/health', { key: null, headers: { cookie, ...OWN } })).status, 401, 'the API');

  const out = await app('POST', '/.capstan/sign-out', OWN);
  t.regex(String(out.headers['set-cookie']), /^capstan_endpoint=; .*Max-Age=0/);
  made.scheduler.revokeKey(KEY);
  const isRevoked = async (): Promise<boolean> => (await app('GET', '/', { cookie, ...OWN })).status === 401;
  while (!(await isRevoked()));
  t.true(await isRevoked());
});

test('the sign-in takes forms of its own page, and keys that may call the endpoint', async (t) => {
  const made = await world(t);
  made.scheduler.addKey('key-of-another-account', { account: 'other' });
  t.is((await signIn(made, KEY, { 'sec-fetch-site': 'same-site' })).status, 401);
  t.is((await signIn(made, KEY, { origin: 'http://evil.example' })).status, 401);
  t.is((await signIn(made, KEY, { ...OWN, 'content-type': 'text/plain' })).status, 400);
  t.is((await signIn(made, 'x'.repeat(10_000))).status, 413);
  const other = await signIn(made, 'key-of-another-account');
  t.deepEqual([other.status, other.headers['set-cookie']], [404, undefined]);
});

test('in the path form a browser is led to the endpoint’s own host', async (t) => {
  const { scheduler, at } = await world(t);
  scheduler.addEndpoint('ggggggggggggg2', 'acc', EndpointKind.LOAD_BALANCED, { routes: [] });
  const page = await at('gateway.test:8080')('GET', '/lb/ggggggggggggg2/rooms?id=1', PAGE);
  t.is(page.status, 401);
  t.regex(page.text, /href="http:\/\/ggggggggggggg2\.lb\.localhost:8080\/rooms\?id=1"/);
  t.is(page.headers['set-cookie'], undefined);
});

test('a preflight reaches an application that requires a key, without cookies; functions are not called by one', async (t) => {
  const { app, at } = await world(t);
  const preflight = { origin: 'https://app.example', 'access-control-request-method': 'POST' };
  const seen = await app('OPTIONS', '/login', { ...preflight, cookie: 'session=1' });
  t.deepEqual([seen.status, seen.headers['access-control-allow-origin']], [200, 'https://app.example']);
  t.false(Object.hasOwn(seen.json, 'cookie'));
  t.is((await app('OPTIONS', '/login', { origin: 'https://app.example' })).status, 401, 'no preflight');
  t.is((await app('OPTIONS', '/login', preflight, { body: 'x' })).status, 401, 'a body');
  t.is((await at(HOST)('OPTIONS', '/fn', preflight)).status, 401, 'a function without such a route');
});

test('what a cookie holds is for one endpoint, until its end, and made by the gateways alone', (t) => {
  const tokens = new SignInTokens('secret');
  const hash = 'a'.repeat(64);
  const token = tokens.issue({ hash, endpointId: 'one', until: 100 });
  t.deepEqual(tokens.read(token, 'one', 99), { hash, endpointId: 'one', until: 100 });
  t.is(tokens.read(token, 'one', 100), null);
  t.is(tokens.read(token, 'two', 99), null);
  t.is(new SignInTokens('other').read(token, 'one', 99), null);
  for (const text of ['', 'x', token.slice(1), `${token.slice(0, -2)}AA`, '.', 'A'.repeat(2_000)])
    t.is(tokens.read(text, 'one', 99), null, text);
});

test('a path to return to that no header can have ends no gateway', async (t) => {
  const made = await world(t);
  for (const to of ['/\u0100', '/\u0000', '/a\r\nset-cookie: b=c', '//evil.example'])
    t.like(await signIn(made, KEY, OWN, to), { status: 303, headers: { location: '/' } }, JSON.stringify(to));
  t.is((await made.app('GET', '/', { 'x-capstan-key': KEY })).status, 200);
});

test('requests of an endpoint’s own pages, and paths that lead to no other host', (t) => {
  const own = { scheme: 'https', authority: 'a.lb.example' } as const;
  t.true(isOwnRequest('GET', { origin: 'https://a.lb.example', upgrade: 'websocket' }, own));
  t.false(isOwnRequest('GET', { origin: 'https://b.lb.example', upgrade: 'websocket' }, own));
  t.false(isOwnRequest('GET', { upgrade: 'websocket' }, own));
  t.false(isOwnRequest('GET', { origin: 'http://a.lb.example' }, own));
  t.true(isOwnRequest('POST', { origin: 'https://a.lb.example:443' }, own));
  t.false(isOwnRequest('POST', { 'sec-fetch-site': 'none' }, own));
  t.true(isOwnRequest('GET', {}, own));
  for (const path of [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    '',
    '/a\nb',
    '/a b',
    '/\u0100',
    '/\u00e9',
    '/\u0000',
    '/\u007f',
    '/.capstan/sign-out',
  ])
    t.is(returnPath(path), '/', path);
  t.is(returnPath('/a?b=c#d'), '/a?b=c#d');
});

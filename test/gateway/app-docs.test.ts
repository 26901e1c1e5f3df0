/** A server of the user's own has every path, also those of this service's documentation, which appears only where it has none. */
import { createHash } from 'node:crypto';
import { Script } from 'node:vm';

import test, { type ExecutionContext } from 'ava';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { until } from '../support/until.ts';
import { FakeAgent } from './fake-agent.ts';
import { KEY, type Setup } from './harness.ts';
import { setupLb } from './lb-harness.ts';

const HTML = { accept: 'text/html,application/xhtml+xml' };

interface App {
  /** Paths that the application serves; everything else is its own 404. */
  readonly paths: Set<string>;
  readonly asked: string[];
  readonly call: Setup['call'];
  /** In the path form. */
  readonly callByPath: Setup['call'];
}

async function app(t: ExecutionContext, isPublic = false): Promise<App> {
  const { call, scheduler, invokeAddress } = await setupLb(t);
  scheduler.addEndpoint('own', 'acc', EndpointKind.LOAD_BALANCED, { isPublic });
  const paths = new Set<string>();
  const asked: string[] = [];
  const agent = new FakeAgent(t, invokeAddress).serve('own', { s1: 64 });
  agent.onRequest = (taken) => {
    const [path = ''] = taken.begin.target.split('?');
    asked.push(`${taken.begin.method} ${taken.begin.target}`);
    taken.answer(paths.has(path) ? 200 : 404, paths.has(path) ? `the app's ${path}` : 'the app has none', { 'x-app': '1' });
  };
  const onHost: Setup['call'] = (method, path, options = {}) =>
    call(method, path, { ...options, headers: { host: 'own.lb.localhost', ...options.headers } });
  const callByPath: Setup['call'] = (method, path, options = {}) =>
    call(method, `/lb/own${path}`, { ...options, headers: { host: 'gateway.test', ...options.headers } });
  const isKnown = async (): Promise<boolean> => (await onHost('DELETE', '/none')).headers['x-app'] === '1';
  await until('the endpoint is known', isKnown);
  asked.length = 0;
  return { paths, asked, call: onHost, callByPath };
}

test('every path is the application’s, after the key check', async (t) => {
  const { paths, asked, call, callByPath } = await app(t);
  const all = [
    '/',
    '/docs',
    '/docs/',
    '/docs/js/scalar.js',
    '/openapi.json',
    '/ping',
    '/healthz',
    '/metrics',
    '/graphql',
    '/v2/own/run',
    '/lb/own/x',
  ];
  for (const path of all) {
    paths.add(path);
    for (const send of [call, callByPath]) {
      t.like(await send('GET', `${path}?q=1`), { status: 200, text: `the app's ${path}` }, path);
      t.is((await send('GET', path, { key: null })).status, path === '/docs/js/scalar.js' && send === call ? 200 : 401, path);
      t.is((await send('POST', path, { key: 'wrong', body: '{}' })).status, 401, path);
    }
  }
  t.deepEqual(
    asked,
    all.flatMap((path) => [`GET ${path}?q=1`, `GET ${path}?q=1`]),
  );
});

test('without a page of the application there is one of ours; its other 404s stay', async (t) => {
  const { paths, asked, call, callByPath } = await app(t);
  for (const send of [call, callByPath]) {
    for (const path of ['/docs', '/docs/', '/docs?x=1']) {
      const page = await send('GET', path);
      t.is(page.status, 200);
      t.is(page.headers['x-app'], undefined);
      t.regex(page.text, /fetch\(base \+ '\/openapi\.json'/);
      t.like(await send('HEAD', path), { status: 200, text: '' });
    }
    for (const path of ['/openapi.json', '/docs/other', '/doc']) t.like(await send('GET', path), { status: 404, text: 'the app has none' });
    t.like(await send('POST', '/docs'), { status: 404, text: 'the app has none' });
  }
  t.is(asked.filter((each) => /^(GET|HEAD) \/docs\/?(\?x=1)?$/.test(each)).length, 12);
  // The application's document is what the page shows, behind the key.
  paths.add('/openapi.json');
  t.like(await call('GET', '/openapi.json', { headers: HTML }), { status: 200, text: "the app's /openapi.json" });
  t.is((await call('GET', '/openapi.json', { key: null, headers: HTML })).status, 401);
});

test('a browser that opens the page has no key yet: it gets the page with the 401, and the application nothing', async (t) => {
  const { paths, asked, call, callByPath } = await app(t);
  for (const has of [false, true]) {
    if (has) paths.add('/docs');
    for (const send of [call, callByPath]) {
      const page = await send('GET', '/docs', { key: null, headers: HTML });
      t.like(page.headers, { 'www-authenticate': 'Bearer', 'cache-control': 'no-store', 'content-type': 'text/html; charset=utf-8' });
      t.is(page.status, 401);
      t.regex(page.text, /type="password"/);
      // Whoever sends something that is no key, or is no browser, or asks for something else.
      t.regex((await send('GET', '/docs', { key: 'wrong', headers: HTML })).text, /"Unauthorized"/);
      t.regex((await send('GET', '/docs', { key: null })).text, /"Unauthorized"/);
      t.regex((await send('GET', '/other', { key: 'wrong', headers: HTML })).text, /"Unauthorized"/);
      t.regex((await send('GET', '/other', { key: null })).text, /"Unauthorized"/);
      // Another page of an endpoint is behind the sign-in; by path there is none for what is no host.
      const other = await send('GET', '/other', { key: null, headers: HTML });
      t.regex(other.text, send === call ? /action="\/\.capstan\/sign-in"/ : /"Unauthorized"/);
      t.is(other.status, 401);
    }
    // No more than that is said of endpoints that do not exist.
    const none = await call('GET', '/docs', { key: null, headers: { ...HTML, host: 'none.lb.localhost' } });
    t.is(none.status, 401);
  }
  t.regex(String((await call('GET', '/docs/js/scalar.js', { key: null })).headers['content-type']), /javascript/);
  t.deepEqual(asked, []);
});

test('a public application is asked first for everything', async (t) => {
  const { paths, asked, call } = await app(t, true);
  t.is((await call('GET', '/docs', { key: null, headers: HTML })).status, 200);
  t.regex(String((await call('GET', '/docs/js/scalar.js', { key: null })).headers['content-type']), /javascript/);
  paths.add('/docs').add('/docs/js/scalar.js');
  t.is((await call('GET', '/docs', { key: null, headers: HTML })).text, "the app's /docs");
  t.is((await call('GET', '/docs/js/scalar.js', { key: null })).text, "the app's /docs/js/scalar.js");
  t.deepEqual(asked, ['GET /docs', 'GET /docs/js/scalar.js', 'GET /docs', 'GET /docs/js/scalar.js']);
});

test('the page runs its own two scripts only, and by path calls nothing but its endpoint', async (t) => {
  const { call, callByPath } = await app(t);
  for (const [send, host, connections] of [
    [call, 'own.lb.localhost', "'self'"],
    [callByPath, 'gateway.test:8080', 'gateway.test:8080/lb/own/'],
    // What is no host of a policy cannot add to it.
    [callByPath, 'x;script-src *', "'self'"],
  ] as const) {
    const page = await send('GET', '/docs', { headers: { host } });
    const policy = new Map(
      String(page.headers['content-security-policy'])
        .split(';')
        .map((each) => each.trim().split(' '))
        .map(([name = '', ...sources]) => [name, sources.join(' ')]),
    );
    const [, inline = ''] = /<script>([^]*?)<\/script>/.exec(page.text) ?? [];
    const hash = `'sha256-${createHash('sha256').update(inline).digest('base64')}'`;
    t.is(policy.get('script-src'), `${host.includes(';') ? "'self'" : `${host}/docs/js/scalar.js`} ${hash}`);
    t.is(policy.get('connect-src'), connections);
    t.is(policy.get('default-src'), "'none'");
    // The script is one that a browser can read.
    t.notThrows(() => new Script(inline));
  }
  t.is((await callByPath('GET', '/docs', { key: KEY })).status, 200);
});

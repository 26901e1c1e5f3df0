/** Answers in the path form share the API's origin: they must not act on it, and requests carry nothing of it to an endpoint. */
import test from 'ava';
import { request } from 'undici';

import { pageOnOwnHost } from '../../gateway/lb/own-host.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { Signals } from '../agent/signals.ts';
import { FakeAgent, type Taken } from './fake-agent.ts';
import { KEY, RawConnection } from './harness.ts';
import { HOST, setupLb } from './lb-harness.ts';

const CREATED = /^(cap|wkr|ses)_/;

const HOSTILE: Readonly<Record<string, string>> = {
  'Set-Cookie': 'session=tenant; Path=/; Domain=lb.localhost; HttpOnly',
  'Service-Worker-Allowed': '/',
  'Clear-Site-Data': '"*"',
  'Strict-Transport-Security': 'max-age=31536000',
  'Alt-Svc': 'h3="evil.example:443"',
  NEL: '{"report_to":"x","max_age":1}',
  'Report-To': '{"group":"x"}',
  'Content-Security-Policy': 'sandbox allow-same-origin allow-scripts',
  'X-Own': 'kept',
};

test('an answer in the path form is in a sandbox, and has no header with an effect on the whole origin', async (t) => {
  const { gateway, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  agent.onRequest = (taken) => taken.answer(200, '<script>/* */</script>', { ...HOSTILE, 'content-type': 'text/html' });
  for (const method of ['GET', 'POST'] as const) {
    const { headers } = await request(`${gateway.url}/lb/web/fn`, { method, headers: { authorization: `Bearer ${KEY}` } });
    const policies = [headers['content-security-policy']].flat();
    // Both are enforced: what either forbids is forbidden.
    t.is(policies.at(-1), 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads');
    t.is(policies.length, 2);
    t.is(headers['x-own'], 'kept');
    for (const name of [
      'set-cookie',
      'service-worker-allowed',
      'clear-site-data',
      'strict-transport-security',
      'alt-svc',
      'nel',
      'report-to',
    ])
      t.is(headers[name], undefined, name);
  }
});

test('a browser that opens a page of a public application in the path form is led to its own host; all other requests stay', async (t) => {
  const { gateway, scheduler, invokeAddress, call } = await setupLb(t);
  const app = { isPublic: true, routes: [] };
  scheduler.addEndpoint('open', 'acc', EndpointKind.LOAD_BALANCED, app);
  scheduler.addEndpoint('closed', 'acc', EndpointKind.LOAD_BALANCED, { routes: [] });
  new FakeAgent(t, invokeAddress).serve('open', { w1: 8 }).onRequest = (taken) => taken.answer(200, 'page');
  const { port, host } = new URL(gateway.url);
  const navigation = { host, 'sec-fetch-dest': 'document', 'sec-fetch-mode': 'navigate', 'user-agent': 'Mozilla/5.0 HeadlessChrome/150.0' };
  while ((await call('GET', '/lb/open/', { headers: { host } })).status !== 200);
  const led = await call('GET', '/lb/open/a/b?c=%2F&d', { key: null, headers: navigation });
  t.deepEqual([led.status, led.headers['location']], [307, `http://open.lb.localhost:${port}/a/b?c=%2F&d`]);
  t.is((await call('GET', '/lb/open', { key: null, headers: navigation })).headers['location'], `http://open.lb.localhost:${port}/`);
  for (const [what, headers] of Object.entries({
    'its fetch': { ...navigation, 'sec-fetch-dest': 'empty', 'sec-fetch-mode': 'cors' },
    'a frame': { ...navigation, 'sec-fetch-dest': 'iframe' },
    'a browser that asks the system for names below localhost': { ...navigation, 'user-agent': 'Mozilla/5.0 Version/26.0 Safari/605.1.15' },
    'a host that is not this one': { ...navigation, host: 'gateway.example:8080' },
  }))
    t.is((await call('GET', '/lb/open/', { key: null, headers })).status, 200, what);
  t.is((await call('POST', '/lb/open/', { key: null, headers: navigation })).status, 200);
  // Whether an endpoint that requires a key exists is not said.
  for (const id of ['closed', 'absent']) t.is((await call('GET', `/lb/${id}/`, { key: null, headers: navigation })).status, 401, id);
});

test('where the operator named a domain, every browser is led to it', (t) => {
  const headers = { 'sec-fetch-dest': 'document', 'sec-fetch-mode': 'navigate', 'user-agent': 'Safari' };
  const address = { endpointId: 'open', target: '/x', pathForm: true };
  const at = (authority: string): string | undefined =>
    pageOnOwnHost(
      { method: 'GET', headers, address, origin: { scheme: 'https', authority }, domain: 'apps.example' },
      { id: 'open', routes: [], isPublic: true },
    );
  t.is(at('gateway.example'), 'https://open.apps.example/x');
  t.is(at('[2001:db8::1]:8443'), 'https://open.apps.example:8443/x');
});

test('a key of this service reaches no endpoint, in whatever header, cookie, subprotocol or parameter it is', async (t) => {
  const { gateway, scheduler, invokeAddress } = await setupLb(t);
  const created = `cap_${'k'.repeat(32)}`;
  const worker = `wkr_w1_${'A'.repeat(43)}`;
  const session = `ses_${'s'.repeat(43)}`;
  scheduler.addKey('a key that an operator chose');
  scheduler.addEndpoint('open', 'acc', EndpointKind.LOAD_BALANCED, { isPublic: true, routes: [] });
  const taken = new Signals<Taken>();
  for (const endpoint of ['web', 'open']) {
    const agent = new FakeAgent(t, invokeAddress, `node-of-${endpoint}`).serve(endpoint, { [`worker-of-${endpoint}`]: 8 });
    agent.onRequest = (each) => {
      taken.push(each);
      each.answer(200, 'x');
    };
  }
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;
  const keys = [KEY, created, worker, session, 'a key that an operator chose'];
  for (const [n, [host, key]] of [HOST, 'open.lb.localhost'].flatMap((each) => keys.map((key) => [each, key] as const)).entries()) {
    const query = `a=1&api_key=${encodeURIComponent(key)}&b=${encodeURIComponent(`"${key}"`)}&c=2&token`;
    const lines = [
      `GET /fn?${query} HTTP/1.1`,
      `Host: ${host}`,
      ...(host === HOST ? [`Authorization: Bearer ${KEY}`] : [`Authorization: ${basic(`user:${key}`)}`]),
      `X-Api-Key: ${key}`,
      `X-Auth: Bearer ${key}`,
      `X-Basic: ${basic(`${key}:`)}`,
      `X-Kept: cap_size and wkr_one`,
      `User-Agent: browser${CREATED.test(key) ? ` (${key})` : ''}`,
      ...(CREATED.test(key) ? [`Referer: http://page.example/?key=${key}`, `X-Json: {"key":"${key}"}`] : []),
      `Cookie: mine=1; key=${key}; capstan_session=x; other="${key}"`,
      ...(host === HOST ? [] : ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==']),
      `Sec-WebSocket-Protocol: chat, ${key.replaceAll(' ', '')}${host === HOST ? '' : `, capstan-key.${KEY}`}`,
    ];
    new RawConnection(t, gateway.url).write(`${lines.join('\r\n')}\r\n\r\n`);
    const { begin } = await taken.next(() => true, n);
    t.is(begin.target, '/fn?a=1&c=2&token', key);
    const passed = begin.headers.map(({ name, value }) => `${name}: ${value}`).join('\n');
    for (const hidden of [key, basic(`user:${key}`), basic(`${key}:`)]) t.false(passed.includes(hidden), `${key} at ${host}:\n${passed}`);
    t.regex(passed, /^x-kept: cap_size and wkr_one$/m);
    t.regex(passed, /^cookie: mine=1$/m);
    t.regex(passed, /^sec-websocket-protocol: chat(, akeythatanoperatorchose)?$/m);
  }
});

test('on its own host an endpoint has its headers, and its cookies stay on that host', async (t) => {
  const { gateway, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  agent.onRequest = (taken) => taken.answer(200, 'x', HOSTILE);
  const { headers } = await request(`${gateway.url}/fn`, { headers: { host: HOST, authorization: `Bearer ${KEY}` } });
  t.is(headers['set-cookie'], 'session=tenant; Path=/; HttpOnly');
  t.is(headers['content-security-policy'], HOSTILE['Content-Security-Policy']);
  t.is(headers['service-worker-allowed'], '/');
});

test('no cookie, key or header of ours reaches an endpoint, by path, by host or with an upgrade', async (t) => {
  const { gateway, scheduler, invokeAddress } = await setupLb(t);
  scheduler.addEndpoint('open', 'acc', EndpointKind.LOAD_BALANCED, { isPublic: true, routes: [] });
  const taken = new Signals<Taken>();
  for (const endpoint of ['web', 'open']) {
    const agent = new FakeAgent(t, invokeAddress, `node-of-${endpoint}`).serve(endpoint, { [`worker-of-${endpoint}`]: 8 });
    agent.onRequest = (each) => {
      taken.push(each);
      each.answer(200, 'x');
    };
  }
  const cookie = 'capstan_session=1; own=2; __Host-capstan-key=3; other=4';
  const send = (line: string, host: string, authorization: string, ...more: string[]): void => {
    const head = [line, `Host: ${host}`, `Authorization: ${authorization}`, `Cookie: ${cookie}`, 'Capstan-Node: n1', ...more];
    new RawConnection(t, gateway.url).write(`${head.join('\r\n')}\r\n\r\n`);
  };
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='];
  const seen = async (n: number): Promise<Record<string, string>> => {
    const { begin } = await taken.next(() => true, n);
    return Object.fromEntries(begin.headers.map(({ name, value }) => [name, value]));
  };
  const cases = [
    ['GET /lb/web/fn HTTP/1.1', 'gateway', `Bearer ${KEY}`, undefined, undefined],
    ['GET /fn HTTP/1.1', HOST, `Bearer ${KEY}`, 'own=2; other=4', undefined],
    // A public endpoint gets the application's own header, and never a key of this service.
    ['GET /lb/open/x HTTP/1.1', 'gateway', 'Basic b3du', undefined, 'Basic b3du'],
    ['GET /lb/open/x HTTP/1.1', 'gateway', `Bearer ${KEY}`, undefined, undefined],
    ['GET /lb/open/x HTTP/1.1', 'gateway', KEY, undefined, undefined],
    ['GET /x HTTP/1.1', 'open.lb.localhost', 'Bearer wkr_of-some-worker', 'own=2; other=4', undefined],
    ['GET /x HTTP/1.1', 'open.lb.localhost', 'Bearer own', 'own=2; other=4', 'Bearer own', ...upgrade],
    ['GET /lb/open/x HTTP/1.1', 'gateway', `Bearer ${KEY}`, undefined, undefined, ...upgrade],
  ] as const;
  for (const [n, [line, host, authorization, cookies, passed, ...more]] of cases.entries()) {
    send(line, host, authorization, ...more);
    const headers = await seen(n);
    t.is(headers['cookie'], cookies, `${line} ${host}`);
    t.is(headers['authorization'], passed, `${line} ${host} ${authorization}`);
    t.is(headers['capstan-node'], undefined);
  }
});

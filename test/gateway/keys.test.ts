/** Who may do what (SPEC.md, Authentication; DESIGN.md section 6), and how fast the gateway learns of changes. */
import test from 'ava';

import { nodeOf } from '../../gateway/invoke/token.ts';
import { EndpointKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import { INVOKE_TOKEN_MS, invokeToken } from '../../scheduler/secrets/invoke-token.ts';
import { FakeScheduler, job } from './fake-scheduler.ts';
import { caller, connected, KEY, setup, startGateway } from './harness.ts';

test('a missing, empty or wrong key is 401 and is not shown', async (t) => {
  const { scheduler, call } = await setup(t);
  for (const [headers, detail] of [
    [{}, /the header Authorization is missing/],
    [{ authorization: '' }, /the header Authorization is missing/],
    [{ authorization: 'Bearer ' }, /holds no key after Bearer/],
    [{ authorization: 'Bearer no-such-key' }, /the API key is unknown or was revoked/],
    [{ authorization: 'no-such-key' }, /the API key is unknown or was revoked/],
    [{ authorization: `Basic ${KEY}` }, /must be Bearer/],
    [{ authorization: `Bearer ${'x'.repeat(5000)}` }, /unknown or was revoked/],
  ] as const) {
    const reply = await call('POST', '/v2/ep/run', { key: null, body: '{"input":{}}', headers });
    t.is(reply.status, 401);
    t.is(reply.json['title'], 'Unauthorized');
    t.regex(String(reply.json['detail']), detail);
    t.is(reply.headers['www-authenticate'], 'Bearer');
    t.false(reply.text.includes('no-such-key'));
  }
  t.is(scheduler.submits.length, 0);
});

test('the key is taken with Bearer in any case, and raw', async (t) => {
  const { call } = await setup(t);
  for (const authorization of [`Bearer ${KEY}`, `bearer ${KEY}`, `BEARER   ${KEY}`, KEY]) {
    t.is((await call('GET', '/v2/ep/health', { key: null, headers: { authorization } })).status, 200);
  }
});

test('scopes: all of the account, some endpoints, reading only', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.addEndpoint('ep2');
  scheduler.addEndpoint('foreign', 'other');
  scheduler.addEndpoint('lb', 'acc', EndpointKind.LOAD_BALANCED);
  scheduler.addKey('some', { scope: KeyScope.ENDPOINTS, endpoints: ['ep2', 'foreign'] });
  scheduler.addKey('reader', { scope: KeyScope.READ_ONLY });
  scheduler.addKey('nothing', { scope: KeyScope.UNSPECIFIED });
  scheduler.jobs.set('j', job('j', JobState.FAILED));
  const body = '{"input":{}}';
  const expected: [string, string, string, number][] = [
    [KEY, 'POST', '/v2/ep/run', 200],
    [KEY, 'POST', '/v2/foreign/run', 404],
    [KEY, 'POST', '/v2/lb/run', 404],
    ['some', 'POST', '/v2/ep2/run', 200],
    ['some', 'POST', '/v2/ep/run', 401],
    ['some', 'GET', '/v2/ep/health', 401],
    ['some', 'POST', '/v2/foreign/run', 404],
    ['reader', 'GET', '/v2/ep/health', 200],
    ['reader', 'GET', '/v2/ep/status/j', 200],
    ['reader', 'POST', '/v2/ep/status/j', 200],
    ['reader', 'GET', '/v2/ep/status-sync/j', 200],
    ['reader', 'GET', '/v2/ep/stream/j', 401],
    ['reader', 'POST', '/v2/ep/stream/j', 401],
    ['reader', 'GET', '/v2/ep/stream?id=j', 401],
    ['reader', 'POST', '/v2/ep/stream', 401],
    ['reader', 'GET', '/v2/ep/requests', 200],
    ['reader', 'POST', '/v2/ep/run', 401],
    ['reader', 'POST', '/v2/ep/runsync', 401],
    ['reader', 'POST', '/v2/ep/cancel/j', 401],
    ['reader', 'POST', '/v2/ep/retry/j', 401],
    ['reader', 'POST', '/v2/ep/purge-queue', 401],
    ['nothing', 'GET', '/v2/ep/health', 401],
  ];
  for (const [key, method, path, status] of expected) {
    const reply = await call(method, path, { key, ...(method === 'POST' ? { body } : {}) });
    t.is(reply.status, status, `${key} ${method} ${path}: ${reply.text}`);
  }
});

test('a revoked key is refused at once, cached or not', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.addKey('short-lived');
  t.is((await call('GET', '/v2/ep/health', { key: 'short-lived' })).status, 200);
  t.is((await call('GET', '/v2/ep/health', { key: 'short-lived' })).status, 200);
  scheduler.revokeKey('short-lived');
  // The revocation travels on the stream: the first refusal is its arrival, and none comes through after it.
  while ((await call('GET', '/v2/ep/health', { key: 'short-lived' })).status !== 401);
  for (let index = 0; index < 5; index += 1) t.is((await call('GET', '/v2/ep/health', { key: 'short-lived' })).status, 401);
  t.is((await call('GET', '/v2/ep/health')).status, 200);
});

test('a removed endpoint is gone', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.addEndpoint('short');
  t.is((await call('GET', '/v2/short/health')).status, 200);
  scheduler.removeEndpoint('short');
  while ((await call('GET', '/v2/short/health')).status !== 404);
  t.pass();
});

test('keys and endpoints made a moment ago are looked up, once', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.announce = false;
  scheduler.addKey('new-key');
  scheduler.addEndpoint('new-endpoint');
  for (let index = 0; index < 3; index += 1) t.is((await call('GET', '/v2/new-endpoint/health', { key: 'new-key' })).status, 200);
  t.is(scheduler.lookups.length, 2);
});

test('unknown keys and endpoints are not asked for again and again', async (t) => {
  const { scheduler, call } = await setup(t, { lookupsPerSecond: 5 });
  for (let index = 0; index < 20; index += 1) t.is((await call('GET', '/v2/ep/health', { key: 'wrong' })).status, 401);
  for (let index = 0; index < 20; index += 1) t.is((await call('GET', '/v2/none/health')).status, 404);
  t.true(scheduler.lookups.length <= 4, `${scheduler.lookups.length} look-ups`);
  for (let index = 0; index < 50; index += 1) t.is((await call('GET', '/v2/ep/health', { key: `wrong-${index}` })).status, 401);
  t.true(scheduler.lookups.length < 40, `${scheduler.lookups.length} look-ups`);
});

test('while the scheduler was never reached: 503 with Retry-After, then all works', async (t) => {
  const scheduler = await new FakeScheduler().start();
  t.teardown(() => {
    scheduler.stop();
  });
  scheduler.addKey(KEY);
  scheduler.addEndpoint('ep');
  scheduler.stop();
  const gateway = await startGateway(t, scheduler);
  const call = caller(t, gateway.url);
  const reply = await call('POST', '/v2/ep/run', { body: '{"input":{}}' });
  t.is(reply.status, 503);
  t.is(reply.headers['retry-after'], '1');
  t.is(reply.json['detail'], 'service unavailable: the scheduler cannot be reached');
  t.is((await call('POST', '/v2/ep/run', { key: null, body: '{"input":{}}' })).status, 401);
  t.is((await call('GET', '/healthz', { key: null })).status, 503);
  await scheduler.start();
  await connected(call);
  t.is((await call('POST', '/v2/ep/run', { body: '{"input":{}}' })).status, 200);
  t.is((await call('GET', '/healthz', { key: null })).status, 200);
});

test('a node’s token is that of the node it names, of this gateway’s scheduler, and ends', (t) => {
  const token = invokeToken('gateway token', 'node-1', 1_000);
  t.is(nodeOf(token, 'gateway token', 1_000), 'node-1');
  const until = 1_000 + INVOKE_TOKEN_MS;
  const signature = token.split('.').at(-1) ?? '';
  const others = [
    '',
    'gateway token',
    `node-2.${until}.${signature}`,
    `node-1.${until + 1}.${signature}`,
    `node-1.${until}.`,
    `${token}.x`,
  ];
  for (const other of others)
    t.throws(() => nodeOf(other, 'gateway token', 1_000), { code: 'UNAUTHENTICATED', message: /not valid/ }, other);
  t.throws(() => nodeOf(token, 'another token', 1_000), { code: 'UNAUTHENTICATED' });
  t.throws(() => nodeOf(token, 'gateway token', until), { code: 'UNAUTHENTICATED', message: /has ended/ });
});

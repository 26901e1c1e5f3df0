/** Who may do what, and how fast the gateway learns of changes. */
import test from 'ava';

import { nodeOf } from '../../gateway/invoke/token.ts';
import { EndpointKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import { INVOKE_TOKEN_MS, invokeToken } from '../../scheduler/secrets/invoke-token.ts';
import { until } from '../support/until.ts';
import { FakeScheduler, job } from './fake-scheduler.ts';
import { caller, connected, KEY, setup, startGateway } from './harness.ts';

test('a missing, empty or wrong key is 401 and is not shown', async (t) => {
  const { scheduler, call } = await setup(t);
  for (const [headers, detail] of [
    [{}, /the header Authorization is required/],
    [{ authorization: '' }, /the header Authorization is required/],
    [{ authorization: 'Bearer ' }, /has no key after Bearer/],
    [{ authorization: 'Bearer no-such-key' }, /the API key is unknown or revoked/],
    [{ authorization: 'no-such-key' }, /the API key is unknown or revoked/],
    [{ authorization: `Basic ${KEY}` }, /must be Bearer/],
    [{ authorization: `Bearer ${'x'.repeat(5000)}` }, /unknown or revoked/],
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
  // Beyond the rate nobody knows whether the key is right, and the answer does not say that it is wrong.
  let unanswered = 0;
  for (let index = 0; index < 50; index += 1) {
    const { status, headers } = await call('GET', '/v2/ep/health', { key: `wrong-${index}` });
    t.true(status === 401 || status === 503, String(status));
    if (status !== 503) continue;
    unanswered += 1;
    t.is(headers['retry-after'], '1');
  }
  t.true(unanswered > 0);
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
  const gateway = await startGateway(t, scheduler, { readTimeoutMs: 300 });
  const call = caller(t, gateway.url);
  const reply = await call('POST', '/v2/ep/run', { body: '{"input":{}}' });
  t.is(reply.status, 503);
  t.is(reply.headers['retry-after'], '1');
  t.is(reply.json['detail'], 'service unavailable: the scheduler is unreachable');
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
  t.throws(() => nodeOf(token, 'gateway token', until), { code: 'UNAUTHENTICATED', message: /has expired/ });
});

/** Tokens of the form that the scheduler makes. */
const workerToken = (id: string): string => `wkr_${id}_${'A'.repeat(43)}`;

for (const [what, junkOf] of [
  ['keys', (n: number) => `junk-${n}`],
  ['worker tokens', (n: number) => workerToken(`junk${n}`)],
] as const) {
  test(`junk ${what} take no look-up from keys, workers' tokens and endpoints that are right, and are never called wrong unseen`, async (t) => {
    const { scheduler, call } = await setup(t, { lookupsPerSecond: 4, trustedProxies: '127.0.0.1' });
    scheduler.addEndpoint('web', 'acc', EndpointKind.LOAD_BALANCED);
    const good = workerToken('good');
    const entry = {
      hash: Buffer.alloc(0),
      accountId: 'acc',
      scope: KeyScope.ENVIRONMENT,
      endpointIds: [],
      environment: 'default',
      isOperator: false,
      isSession: false,
      keyId: '',
    };
    scheduler.workerTokens.set(good, entry);
    const health = (key: string, peer: string) => call('GET', '/v2/ep/health', { key, headers: { 'x-forwarded-for': peer } });
    t.is((await health(good, '10.0.0.1')).status, 200);
    const junkCalls = [
      ['GET', '/v2/ep/health'],
      ['GET', '/lb/web/x'],
      ['GET', '/metrics'],
      ['POST', '/graphql'],
    ] as const;
    for (let n = 0; n < 400; n += 1) {
      const [method, path] = junkCalls[n % junkCalls.length] ?? junkCalls[0];
      const body = method === 'POST' ? { body: '{"query":"{__typename}"}' } : {};
      const { status, headers, text } = await call(method, path, { key: junkOf(n), ...body });
      t.true(status === 401 || status === 503, `${path}: ${status} ${text}`);
      if (status === 503) t.is(headers['retry-after'], '1');
    }
    t.true(scheduler.lookups.length < 40, `${scheduler.lookups.length} look-ups`);
    // Every change of the keys drops what was remembered of tokens: they are looked up again.
    scheduler.addKey('another');
    for (let each = 0; each < 20; each += 1) {
      t.is((await health(good, '10.0.0.1')).status, 200);
      scheduler.addKey(`another-${each}`);
    }
    // Somebody else with a key, or a worker, that this gateway has not seen.
    scheduler.announce = false;
    scheduler.addKey('unseen');
    scheduler.workerTokens.set(workerToken('unseen'), entry);
    for (const key of ['unseen', workerToken('unseen')]) {
      await until(`${key} is looked up`, async () => {
        const { status } = await health(key, '10.0.0.2');
        t.true(status === 200 || status === 503, `${key}: ${status}`);
        return status === 200;
      });
    }
  });
}

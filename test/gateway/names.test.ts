/** Endpoints by their names: ids come first, then the names in the account of the calling key, and nobody else's. */
import test from 'ava';

import { EndpointKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import { FakeAgent } from './fake-agent.ts';
import { job } from './fake-scheduler.ts';
import { setup, type Setup } from './harness.ts';
import { setupLb } from './lb-harness.ts';

const BODY = '{"input":{"n":1}}';

test('a name reaches the endpoint on every route of its queue, as its id does', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.addEndpoint('aaaaaaaaaaaaa1', 'acc', EndpointKind.QUEUE, { name: 'hello' });
  scheduler.jobs.set('j', job('j', JobState.FAILED));
  const submitted = await call('POST', '/v2/hello/runsync', { body: BODY });
  t.is(submitted.status, 200, submitted.text);
  t.deepEqual(submitted.json['output'], { n: 1 });
  for (const [method, path] of [
    ['POST', 'run'],
    ['GET', 'status/j'],
    ['GET', 'status-sync/j'],
    ['POST', 'retry/j'],
    ['POST', 'cancel/j'],
    ['GET', 'stream/j'],
    ['GET', 'requests'],
    ['GET', 'health'],
    ['POST', 'purge-queue'],
  ] as const) {
    const [byName, byId] = [
      await call(method, `/v2/hello/${path}`, method === 'POST' ? { body: BODY } : {}),
      await call(method, `/v2/aaaaaaaaaaaaa1/${path}`, method === 'POST' ? { body: BODY } : {}),
    ];
    t.is(byName.status, byId.status, `${path}: ${byName.text} ${byId.text}`);
    t.not(byName.status, 404, path);
  }
  // The scheduler knows the endpoint by its id only.
  t.true(scheduler.calls.length > 0);
  t.false(JSON.stringify(scheduler.calls).includes('hello'));
  t.is((await call('POST', '/v2/hello/openai/v1/models', { body: '{}' })).status, 200);
});

test('an id comes before a name, and a name of another account is as unknown as none', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.addKey('theirs', { account: 'other' });
  scheduler.addEndpoint('bbbbbbbbbbbbb1', 'acc', EndpointKind.LOAD_BALANCED, { name: 'ep' });
  t.is((await call('GET', '/v2/ep/health')).status, 200, 'the id, not the load-balanced endpoint of that name');
  scheduler.addEndpoint('ccccccccccccc1', 'other', EndpointKind.QUEUE, { name: 'secret' });
  t.is((await call('GET', '/v2/secret/health', { key: 'theirs' })).status, 200);
  const replies = [await call('GET', '/v2/secret/health'), await call('GET', '/v2/nobody/health')];
  t.deepEqual(
    replies.map(({ status, text }) => [status, text.replace('secret', 'nobody')]),
    [0, 1].map(() => [404, '{"status":404,"title":"Not Found","detail":"not found: endpoint \\"nobody\\" does not exist"}']),
  );
  // A foreign id does not hide an own name: the response would tell that the id exists.
  scheduler.addEndpoint('taken', 'other');
  scheduler.addEndpoint('ddddddddddddd1', 'acc', EndpointKind.QUEUE, { name: 'taken' });
  t.is((await call('GET', '/v2/taken/health')).status, 200);
});

test('an ambiguous name is 409 with the ids, among the endpoints that the key covers only', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.addKey('prod', { scope: KeyScope.ENVIRONMENT, environment: 'prod' });
  scheduler.addKey('one', { scope: KeyScope.ENDPOINTS, endpoints: ['eeeeeeeeeeeee1'] });
  scheduler.addKey('none', { scope: KeyScope.ENDPOINTS, endpoints: ['ep'] });
  for (const [id, environment] of [
    ['eeeeeeeeeeeee1', 'default'],
    ['eeeeeeeeeeeee2', 'prod'],
  ] as const)
    scheduler.addEndpoint(id, 'acc', EndpointKind.QUEUE, { name: 'twice', environment });
  const refused = await call('POST', '/v2/twice/run', { body: BODY });
  t.is(refused.status, 409);
  t.is(refused.json['detail'], 'conflict: endpoint "twice" is ambiguous; use an id: eeeeeeeeeeeee1 in default, eeeeeeeeeeeee2 in prod');
  t.is(scheduler.submits.length, 0);
  t.is((await call('POST', '/v2/eeeeeeeeeeeee2/run', { body: BODY })).status, 200);
  for (const key of ['prod', 'one']) t.is((await call('POST', '/v2/twice/run', { key, body: BODY })).status, 200, key);
  const hidden = await call('POST', '/v2/twice/run', { key: 'none', body: BODY });
  t.is(hidden.status, 401);
  t.false(hidden.text.includes('eeeeeeeeeeeee'));
  scheduler.removeEndpoint('eeeeeeeeeeeee1');
  while ((await call('GET', '/v2/twice/health')).status === 409);
  t.is((await call('GET', '/v2/twice/health')).status, 200, 'unambiguous again');
});

test('a name deployed a moment ago is looked up once, and unknown ones are not asked for again and again', async (t) => {
  const { scheduler, call } = await setup(t, { lookupsPerSecond: 20 });
  scheduler.announce = false;
  scheduler.addEndpoint('fffffffffffff1', 'acc', EndpointKind.QUEUE, { name: 'fresh' });
  for (let index = 0; index < 3; index += 1) t.is((await call('GET', '/v2/fresh/health')).status, 200);
  t.deepEqual(scheduler.lookups, ['endpoint/fresh', 'name/acc/fresh']);
  for (let index = 0; index < 20; index += 1) t.is((await call('GET', '/v2/none/health')).status, 404);
  t.true(scheduler.lookups.length <= 8, scheduler.lookups.join());
  // What has the form of an id is no name, and what has the form of neither is not asked for.
  scheduler.lookups.length = 0;
  for (const path of ['abcdefghijkl12', 'b%C3%A4h', '-dash']) t.is((await call('GET', `/v2/${path}/health`)).status, 404);
  t.deepEqual(
    scheduler.lookups.filter((each) => each.startsWith('name/')),
    [],
  );
  // Somebody who guesses names uses up the look-ups of their own account only.
  let refused = 0;
  for (let index = 0; index < 50; index += 1) {
    const { status } = await call('GET', `/v2/guess-${index}/health`);
    t.true(status === 404 || status === 503, String(status));
    if (status === 503) refused += 1;
  }
  t.true(refused > 0);
  t.true(scheduler.lookups.length < 40, `${scheduler.lookups.length} look-ups`);
  t.is((await call('GET', '/v2/fresh/health')).status, 200, 'a known name needs none');
});

test('a scheduler of an earlier version knows no names: unknown endpoints stay 404', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.knowsNames = false;
  t.is((await call('GET', '/v2/nothing/health')).status, 404);
});

test('the path form takes names with a key; hosts and callers without a key take ids', async (t) => {
  const { scheduler, call: byHost, invokeAddress } = await setupLb(t);
  const call: Setup['call'] = (method, path, options = {}) =>
    byHost(method, path, { ...options, headers: { host: 'gateway', ...options.headers } });
  const { routes } = scheduler.endpoints.get('web') ?? { routes: [] };
  scheduler.addEndpoint('ggggggggggggg1', 'acc', EndpointKind.LOAD_BALANCED, { name: 'shop', routes });
  scheduler.addEndpoint('ggggggggggggg2', 'acc', EndpointKind.LOAD_BALANCED, { name: 'open', routes, isPublic: true });
  const agent = new FakeAgent(t, invokeAddress).serve('ggggggggggggg1', { w1: 8 }).serve('ggggggggggggg2', { w2: 8 });
  agent.onRequest = (taken) => taken.answer(200, JSON.stringify(taken.begin.target));
  const served = await call('GET', '/lb/shop/fn?x=1');
  t.is(served.status, 200, served.text);
  t.is(served.text, '"/fn?x=1"');
  t.is((await call('GET', '/lb/shop/fn', { key: null })).status, 401);
  t.is((await call('GET', '/lb/ggggggggggggg2/fn', { key: null })).status, 200);
  t.is((await call('GET', '/lb/open/fn', { key: null })).status, 401, 'nobody is asked whether a public endpoint has this name');
  t.is((await call('GET', '/lb/open/fn')).status, 200);
  t.is((await call('GET', '/fn', { headers: { host: 'shop.lb.localhost' } })).status, 404, 'a host is an id');
  scheduler.addEndpoint('ggggggggggggg3', 'acc', EndpointKind.LOAD_BALANCED, { name: 'shop', routes, environment: 'prod' });
  while ((await call('GET', '/lb/shop/fn')).status === 200);
  const refused = await call('GET', '/lb/shop/fn');
  t.is(refused.status, 409);
  t.deepEqual(refused.json, {
    error: 'Conflict',
    detail: 'endpoint "shop" is ambiguous; use an id: ggggggggggggg1 in default, ggggggggggggg3 in prod',
  });
});

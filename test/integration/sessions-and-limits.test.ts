/** Sessions of nodes, join tokens, credentials, rate limits and quotas, through a scheduler that serves. */
import test from 'ava';
import { CallStyle, type FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { readConfig } from '../../scheduler/config.ts';
import { unary, type TestScheduler } from '../support/scheduler-client.ts';
import type { GatewayNotice } from '../../proto/gen/capstan/v1/invoke.ts';
import { open, submit, jobOf, ready } from './job-world.ts';

test('two live agents with one identity: the second is refused', async (t) => {
  const { node, session } = await ready(t);
  const second = node.session({ incarnation: 'another' });
  t.is(((await second.ended) as CapstanError).code, 'ALREADY_EXISTS');
  session.send({ $case: 'heartbeat', value: {} });
  t.pass();
});

test('a heartbeat is answered, so that an idle session is heard on both sides', async (t) => {
  const { session } = await ready(t);
  session.send({ $case: 'heartbeat', value: {} });
  await session.take('heartbeat');
  t.pass();
});

/** A gateway's session: what it is told of removed nodes, one notice after another. */
function removedNodes(scheduler: TestScheduler): () => Promise<string[]> {
  const call = scheduler.gateways.session(scheduler.bearer(scheduler.secret('gateway-token')));
  call.on('error', () => undefined);
  const notices = (call as AsyncIterable<GatewayNotice>)[Symbol.asyncIterator]();
  call.write({ invokeAddress: '', httpUrl: '', levels: [], routes: [] });
  return async () => ((await notices.next()) as IteratorYieldResult<GatewayNotice>).value.removedNodes;
}

test('a removed node is told so by its own error, gateways by its id; another agent with its identity is refused while the first lives', async (t) => {
  const { scheduler, node, session } = await ready(t);
  const twin = node.session({ incarnation: 'another' });
  t.is(fromServiceError(await twin.ended).code, 'ALREADY_EXISTS');
  const key = scheduler.bearer(scheduler.secret('api-key'));
  const told = removedNodes(scheduler);
  t.deepEqual(await told(), []);
  const refused = await t.throwsAsync<CapstanError>(
    unary((done) => scheduler.control.removeNode({ nodeId: node.id, force: false }, key, done)),
  );
  t.is(refused.code, 'CONFLICT');
  await unary((done) => scheduler.control.removeNode({ nodeId: node.id, force: true }, key, done));
  await session.ended;
  t.deepEqual(await told(), [node.id]);
  const back = fromServiceError(await node.session().ended);
  t.deepEqual([back.code, back.message], ['NODE_REMOVED', 'the node host was removed']);
  await scheduler.restart();
  t.is(fromServiceError(await node.session().ended).code, 'NODE_REMOVED');
  // Also one that comes later: a token of the node may still be good.
  t.deepEqual(await removedNodes(scheduler)(), [node.id]);
});

test('join tokens are listed by id, never by their text, and can be used up and revoked', async (t) => {
  const scheduler = await open(t);
  const key = scheduler.bearer(scheduler.secret('api-key'));
  const { joinToken, id } = await unary<{ joinToken: string; id: string }>((done) =>
    scheduler.control.createJoinToken({ name: 'rack', expiresInS: 60, maxUses: 1, neverExpires: false }, key, done),
  );
  await unary((done) => scheduler.nodes.join({ joinToken, name: 'x' }, done));
  const again = await t.throwsAsync<CapstanError>(unary((done) => scheduler.nodes.join({ joinToken, name: 'y' }, done)));
  t.is(again.code, 'UNAUTHENTICATED');
  const { tokens } = await unary<{ tokens: { id: string; uses: number }[] }>((done) =>
    scheduler.control.listJoinTokens({ afterId: '', limit: 0 }, key, done),
  );
  t.is(tokens.find((token) => token.id === id)?.uses, 1);
  t.false(JSON.stringify(tokens, (_key, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)).includes(joinToken));
  await unary((done) => scheduler.control.revokeJoinToken({ id }, key, done));
  const after = await unary<{ tokens: { id: string }[] }>((done) => scheduler.control.listJoinTokens({ afterId: '', limit: 0 }, key, done));
  t.false(after.tokens.some((token) => token.id === id));
});

test('nothing is served without the right credential', async (t) => {
  const scheduler = await open(t);
  const calls = [
    () => unary((done) => scheduler.control.listEndpoints({ environment: '' }, scheduler.bearer('wrong'), done)),
    () => unary((done) => scheduler.jobs.getHealth({ endpointId: 'x' }, scheduler.bearer(scheduler.secret('api-key')), done)),
    () => unary((done) => scheduler.nodes.join({ joinToken: 'wrong', name: 'x' }, done)),
  ];
  const codes: string[] = [];
  for (const call of calls) codes.push((await t.throwsAsync<CapstanError>(call())).code);
  t.deepEqual(codes, ['UNAUTHENTICATED', 'PERMISSION_DENIED', 'UNAUTHENTICATED']);
});

test('rate limits are settings of the account and of an endpoint, and a refusal says when to come back', async (t) => {
  const { scheduler, endpoint } = await ready(t, { rateLimits: 'run=2/0', requestsPerWorker: 0 });
  const { endpoints } = await scheduler.deploy([{ name: 'open', rateLimits: { run: { requests: 0, concurrent: 0 } } }]);
  const channel = scheduler.channel();
  for (const id of ['a', 'b']) t.is(jobOf(t, await channel.ask(endpoint, submit(id))).id, id);
  const refused = await channel.ask(endpoint, submit('c'));
  if (refused.result?.$case !== 'failure') return t.fail('the third was let in');
  t.is(refused.result.value.code, 'RATE_LIMITED');
  t.true(refused.result.value.retryAfterMs > 0 && refused.result.value.retryAfterMs <= 10_000);
  for (const id of ['d', 'e', 'f']) t.is(jobOf(t, await channel.ask(endpoints[0]?.id ?? '', submit(id))).id, id);
});

test('a wrong rate limit is refused by name', (t) => {
  for (const value of ['run', 'run=1', 'walk=1/1', 'run=-1/2']) {
    const error = t.throws(() => readConfig({ dataDir: '.' }, { CAPSTAN_RATE_LIMITS: value }));
    t.regex(error.message, /^CAPSTAN_RATE_LIMITS: .* must be <operation>=<requests>\/<concurrent>/);
  }
});

test('a deployment past the quota changes nothing and says by how much', async (t) => {
  const scheduler = await open(t, { workerQuota: 5 });
  await scheduler.deploy([{ name: 'one', workersMax: 3 }]);
  const error = await t.throwsAsync<CapstanError>(
    scheduler.deploy([
      { name: 'two', workersMax: 2 },
      { name: 'three', workersMax: 1 },
    ]),
  );
  t.is(error.code, 'QUOTA_EXCEEDED');
  t.regex(error.message, /would be 6, the account's quota is 5/);
  const { endpoints } = await unary<{ endpoints: unknown[] }>((done) =>
    scheduler.control.listEndpoints({ environment: '' }, scheduler.bearer(scheduler.secret('api-key')), done),
  );
  t.is(endpoints.length, 1);
});

test('a deployment that breaks a rule is refused by field and rule', async (t) => {
  const scheduler = await open(t);
  const fn: FunctionSpec = { name: 'f', module: 'm', parameters: [], callStyle: CallStyle.WHOLE };
  const tooLarge = { name: 'p', required: true, type: 'object', schema: 'x'.repeat(65_537) };
  const cases: [Parameters<TestScheduler['deploy']>[0], RegExp][] = [
    [[], /endpoints: must contain at least one/],
    [[{ name: 'bad name' }], /"bad name" must be 1 to 64/],
    [[{ name: 'a' }, { name: 'a' }], /a: is listed twice/],
    [[{ name: 'a', functions: [fn, { ...fn, name: 'g' }] }], /exactly one function, not 2/],
    [
      [
        { name: 'a', functions: [fn] },
        { name: 'b', functions: [fn] },
      ],
      /function f is also defined by a/,
    ],
    [
      [{ name: 'a', functions: [{ ...fn, classSpec: { methods: [{ name: 'm', callStyle: CallStyle.WHOLE, parameters: [tooLarge] }] } }] }],
      /^a.functions: must have schemas of at most 65536 characters for each parameter/,
    ],
    [[{ name: 'a', workersMin: 3, workersMax: 2 }], /a.workersMin: must be at most workersMax/],
    [[{ name: 'a', gpuIds: 'ANY', cpu: 'cpu3c-4-8' }], /^a.cpu: gpuIds and cpu are mutually exclusive/],
    [[{ name: 'a', env: { 'A=B': 'x' } }], /^a.env\["A=B"\]: must be a name of letters, digits and underscores$/],
    [[{ name: 'a', env: { '': 'x' } }], /^a.env\[""\]: must be a name of letters, digits and underscores$/],
    [[{ name: 'a', env: { A: 's3cret\0' } }], /^a.env.A: must not contain the character NUL$/],
    [[{ name: 'a', env: { A: 's'.repeat(131_070) } }], /^a.env.A: must have at most 131070 bytes, including its name$/],
    [
      [{ name: 'a', env: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`A${i}`, 's'.repeat(100_000)])) }],
      /^a.env: must have at most 1048576 bytes in total$/,
    ],
    [[{ name: 'a', idleTimeoutS: 0 }], /^a.idleTimeout: must be an integer between 1 and 3600 s, not 0$/],
    [
      [{ name: 'a', executionTimeoutMs: 4_999 }],
      /^a.executionTimeoutMs: must be 0 \(the service's default\) or between 5000 and 604800000 ms, not 4999$/,
    ],
    [[{ name: 'a', scalerValue: 10_001 }], /^a.scalerValue: must be an integer between 1 and 10000, not 10001$/],
    [[{ name: 'a', requestsPerWorker: 1_000_001 }], /^a.requestsPerWorker: must be an integer between 0 and 1000000, not 1000001$/],
    [
      [{ name: 'a', rateLimits: { run: { requests: 1, concurrent: 1_000_001 } } }],
      /^a.rateLimits.run.concurrent: must be an integer between 0 and 1000000, not 1000001$/,
    ],
  ];
  for (const [endpoints, message] of cases) {
    const error = await t.throwsAsync<CapstanError>(scheduler.deploy(endpoints));
    t.is(error.code, 'INVALID_ARGUMENT');
    t.regex(error.message, message);
  }
});

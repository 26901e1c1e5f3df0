/** The public npm client `runpod-sdk`, unmodified, against a whole stack. */
import test from 'ava';
import runpodSdk, { type EndpointOutput } from 'runpod-sdk';

import { stackUnderTest } from './stack-under-test.ts';

const under = stackUnderTest(test);
const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

type Endpoint = NonNullable<ReturnType<ReturnType<typeof runpodSdk>['endpoint']>>;
type Named = Parameters<typeof under.endpoint>[0];

function client(name: Named): Endpoint {
  const endpoint = runpodSdk(under.stack.apiKey, { baseUrl: `${under.stack.url}/v2` }).endpoint(under.endpoint(name));
  if (endpoint === null) throw new Error('the client made no endpoint');
  return endpoint;
}

/** Waits as the client's users do. */
async function ended(endpoint: Endpoint, id: string): Promise<EndpointOutput & { error?: string; output?: unknown }> {
  for (;;) {
    const status = await endpoint.statusSync(id, 5000);
    if (ENDED.has(status.status)) return status;
  }
}

/** The job has reached its handler. */
async function running(endpoint: Endpoint, id: string): Promise<void> {
  while ((await endpoint.status(id)).status !== 'IN_PROGRESS');
}

test('run answers at once, status shows the result', async (t) => {
  const endpoint = client('echo');
  const submitted = await endpoint.run({ input: { prompt: 'hello' }, policy: { executionTimeout: 60_000, ttl: 600_000 } });
  t.is(submitted.status, 'IN_QUEUE');
  t.like(await ended(endpoint, submitted.id), { status: 'COMPLETED', output: { prompt: 'hello' }, completed: true, succeeded: true });
  t.like(await endpoint.status(submitted.id), { status: 'COMPLETED', output: { prompt: 'hello' }, started: true });
});

test('runSync gives the result', async (t) => {
  const result = await client('echo').runSync({ input: { n: 1, nested: { list: [1, 2.5, null] } } });
  t.like(result, { status: 'COMPLETED', output: { n: 1, nested: { list: [1, 2.5, null] } }, completed: true, succeeded: true });
  t.true(result.id.startsWith('sync-'));
  t.is(typeof result.executionTime, 'number');
  t.is(typeof result.delayTime, 'number');
});

test('runSync of a failing handler has its message', async (t) => {
  const result = await client('failing').runSync({ input: { n: 1 } });
  t.like(result, { status: 'FAILED', error: 'no luck with {"n":1}', completed: true, succeeded: false });
});

test('stream yields every chunk once and ends', async (t) => {
  const endpoint = client('words');
  const { id } = await endpoint.run({ input: { text: 'the quick brown fox' } });
  const chunks: unknown[] = [];
  for await (const chunk of endpoint.stream(id)) chunks.push(chunk);
  t.deepEqual(
    chunks,
    ['the', 'quick', 'brown', 'fox'].map((output) => ({ output })),
  );
  t.like(await endpoint.status(id), { status: 'COMPLETED', output: ['the', 'quick', 'brown', 'fox'] });
});

test.serial('cancel stops a running and a queued job', async (t) => {
  const endpoint = client('slow');
  const [first, second] = [await endpoint.run({ input: {} }), await endpoint.run({ input: {} })];
  await running(endpoint, first.id);
  t.like(await endpoint.cancel(second.id), { id: second.id, status: 'CANCELLED' });
  const cancelled = await endpoint.cancel(first.id);
  t.like(cancelled, { id: first.id, status: 'CANCELLED' });
  t.is(typeof cancelled.executionTime, 'number');
  t.is((await endpoint.status(first.id)).status, 'CANCELLED');
});

test('health has every count', async (t) => {
  const { jobs, workers } = await client('words').health();
  t.deepEqual(Object.keys(jobs).sort(), ['completed', 'failed', 'inProgress', 'inQueue', 'retried']);
  t.deepEqual(Object.keys(workers).sort(), ['idle', 'initializing', 'ready', 'running', 'throttled', 'unhealthy']);
});

test('purgeQueue ends what waits', async (t) => {
  const endpoint = client('parked');
  const submitted = await Promise.all([1, 2, 3].map((n) => endpoint.run({ input: { n } })));
  t.is((await endpoint.health()).jobs.inQueue, 3);
  t.deepEqual(await endpoint.purgeQueue(), { removed: 3, status: 'completed' });
  for (const { id } of submitted) t.is((await endpoint.status(id)).status, 'CANCELLED');
});

test('retry, for which the client has no call of its own, is seen by its status', async (t) => {
  const endpoint = client('failing');
  const { id } = await endpoint.run({ input: { again: true } });
  t.is((await ended(endpoint, id)).status, 'FAILED');
  const answer = await under.stack.call(`/v2/${under.endpoint('failing')}/retry/${id}`, { method: 'POST' });
  t.deepEqual(await answer.json(), { id, status: 'IN_QUEUE' });
  t.like(await ended(endpoint, id), { id, status: 'FAILED', error: 'no luck with {"again":true}' });
});

test('what the service refuses is an error of the client', async (t) => {
  const wrong = runpodSdk('wrong-key', { baseUrl: `${under.stack.url}/v2` }).endpoint(under.endpoint('echo'));
  await t.throwsAsync(wrong?.run({ input: {} }) ?? Promise.resolve(), { message: /401/ });
  await t.throwsAsync(client('echo').status('no-such-job'), { message: /404/ });
  await t.throwsAsync(client('echo').run({ input: 'text' }), { message: /400/ });
});

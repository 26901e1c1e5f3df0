/** The SDK against a small HTTP server that answers as it is told. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

import { fc, testProp } from '@fast-check/ava';
import test, { type ExecutionContext } from 'ava';

import {
  AuthenticationError,
  CapstanApiError,
  CapstanError,
  ConflictError,
  ConnectionError,
  defaultRetryPolicy,
  Endpoint,
  JobCancelledError,
  JobError,
  JobFailedError,
  JobTimedOutError,
  NotFoundError,
  RateLimitedError,
  TimeoutError,
} from '../../sdk/typescript/sdk.ts';
import { isRetryable, pauseBefore } from '../../sdk/typescript/retry.ts';

interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text as it is, anything else as JSON; null breaks the connection. */
  readonly body: unknown;
}

interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}

/** Answers the n-th request with the n-th answer, and remembers the requests. */
async function server(t: ExecutionContext, answers: readonly Answer[]): Promise<{ baseUrl: string; requests: Request[] }> {
  const requests: Request[] = [];
  const answerTo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const answer = answers[requests.length] ?? { status: 500, body: 'one request too many' };
    requests.push({
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      body: text === '' ? undefined : JSON.parse(text),
    });
    if (answer.body === null) {
      request.socket.destroy();
      return;
    }
    response.writeHead(answer.status ?? 200, answer.headers);
    response.end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body));
  };
  const http = createServer((request, response) => void answerTo(request, response));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.teardown(() => {
    http.closeAllConnections();
    http.close();
  });
  return { baseUrl: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, requests };
}

/** Tries again at once. */
const quick = { firstPauseMs: 0, longestPauseMs: 0 };
const endpoint = (baseUrl: string) =>
  new Endpoint<{ n: number }, number>('ep1', { apiKey: 'the-key', baseUrl: `${baseUrl}/`, retry: quick });

test('run gives a handle at once; status, wait and output follow the job', async (t) => {
  const { baseUrl, requests } = await server(t, [
    { body: { id: 'j1', status: 'IN_QUEUE' } },
    { body: { id: 'j1', status: 'IN_PROGRESS' } },
    { body: { id: 'j1', status: 'IN_PROGRESS' } },
    { body: { id: 'j1', status: 'COMPLETED', output: 42, executionTime: 5 } },
  ]);
  const job = await endpoint(baseUrl).run({ n: 1 }, { policy: { ttl: 10_000 }, webhook: 'https://example.org/hook' });
  t.is(job.id, 'j1');
  t.false(job.done);
  t.is(await job.status(), 'IN_PROGRESS');
  t.is(await job.output(), 42);
  t.true(job.done);
  t.is((await job.wait()).executionTime, 5);
  t.deepEqual(
    requests.map(({ method, url }) => `${method} ${url}`),
    ['POST /v2/ep1/run', 'GET /v2/ep1/status/j1', 'GET /v2/ep1/status-sync/j1?wait=60000', 'GET /v2/ep1/status-sync/j1?wait=60000'],
  );
  t.deepEqual(requests[0]?.body, { input: { n: 1 }, policy: { ttl: 10_000 }, webhook: 'https://example.org/hook' });
  t.true(requests.every(({ headers }) => headers.authorization === 'Bearer the-key'));
});

test('runSync gives the result, also when the first answer comes before the end', async (t) => {
  const { baseUrl, requests } = await server(t, [
    { body: { id: 'sync-1', status: 'IN_PROGRESS' } },
    { body: { id: 'sync-1', status: 'COMPLETED', output: 7 } },
  ]);
  t.is(await endpoint(baseUrl).runSync({ n: 1 }), 7);
  t.deepEqual(
    requests.map(({ url }) => url),
    ['/v2/ep1/runsync?wait=60000', '/v2/ep1/status-sync/sync-1?wait=60000'],
  );
});

test('a result of null is a result', async (t) => {
  const { baseUrl } = await server(t, [{ body: { id: 'j', status: 'COMPLETED', output: null } }]);
  t.is(await endpoint(baseUrl).runSync({ n: 1 }), null as unknown as number);
});

for (const status of ['FAILED', 'TIMED_OUT', 'CANCELLED']) {
  test(`a job that ends ${status} has no output, and says why`, async (t) => {
    const { baseUrl } = await server(t, [{ body: { id: 'j1', status, error: 'the reason' } }]);
    const error = await t.throwsAsync(endpoint(baseUrl).runSync({ n: 1 }), { instanceOf: JobError });
    t.is(error.message, `job j1 ${status}: the reason`);
    t.is(error.status, status);
  });
}

test('cancel tells the service, and the handle knows', async (t) => {
  const { baseUrl, requests } = await server(t, [{ body: { id: 'j1', status: 'CANCELLED' } }]);
  const job = endpoint(baseUrl).job('j1');
  await job.cancel();
  t.true(job.done);
  t.like(requests[0], { method: 'POST', url: '/v2/ep1/cancel/j1' });
});

test('health', async (t) => {
  const body = {
    jobs: { completed: 1, failed: 0, inProgress: 0, inQueue: 0, retried: 0 },
    workers: { idle: 1, initializing: 0, ready: 1, running: 0, throttled: 0, unhealthy: 0 },
  };
  const { baseUrl } = await server(t, [{ body }]);
  t.deepEqual(await endpoint(baseUrl).health(), body);
});

test('429, 5xx and broken connections are tried again, under one idempotency key', async (t) => {
  const { baseUrl, requests } = await server(t, [
    { status: 429, headers: { 'retry-after': '0' }, body: {} },
    { status: 503, body: 'busy' },
    { body: null },
    { body: { id: 'j1', status: 'IN_QUEUE' } },
  ]);
  t.is((await endpoint(baseUrl).run({ n: 1 })).id, 'j1');
  t.is(requests.length, 4);
  t.is(new Set(requests.map(({ headers }) => headers['idempotency-key'])).size, 1);
});

test('two calls have two keys; a key of the caller’s own is used', async (t) => {
  const answer = { body: { id: 'j', status: 'IN_QUEUE' } };
  const { baseUrl, requests } = await server(t, [answer, answer, answer]);
  await endpoint(baseUrl).run({ n: 1 });
  await endpoint(baseUrl).run({ n: 1 });
  await endpoint(baseUrl).run({ n: 1 }, { idempotencyKey: 'mine' });
  const keys = requests.map(({ headers }) => headers['idempotency-key']);
  t.is(new Set(keys).size, 3);
  t.is(keys[2], 'mine');
});

test('a refusal is thrown at once, with the service’s words', async (t) => {
  const problem = { status: 400, title: 'Bad Request', detail: 'bad request: input: must be an object' };
  const { baseUrl, requests } = await server(t, [{ status: 400, body: problem }]);
  const error = await t.throwsAsync(endpoint(baseUrl).run({ n: 1 }), { instanceOf: CapstanApiError });
  t.is(error.message, 'POST /v2/ep1/run: 400 Bad Request: input: must be an object');
  t.is(error.status, 400);
  t.is(requests.length, 1);
});

test('a proxy’s page instead of a problem document is still told by its status', async (t) => {
  const { baseUrl } = await server(t, [{ status: 401, body: '<html>' }]);
  const error = await t.throwsAsync(endpoint(baseUrl).run({ n: 1 }), { instanceOf: CapstanApiError });
  t.is(error.message, 'POST /v2/ep1/run: 401');
});

test('an answer that is no JSON', async (t) => {
  const { baseUrl } = await server(t, [{ body: 'hello' }]);
  const error = await t.throwsAsync(endpoint(baseUrl).run({ n: 1 }), { instanceOf: ConnectionError });
  t.regex(error.message, /^POST \/v2\/ep1\/run: the response is not JSON: /);
});

test('when tries run out, the last reason is thrown', async (t) => {
  const { baseUrl, requests } = await server(
    t,
    Array.from({ length: 9 }, () => ({ status: 500, body: { status: 500, title: 'Internal Server Error' } })),
  );
  const error = await t.throwsAsync(endpoint(baseUrl).run({ n: 1 }), { instanceOf: CapstanApiError });
  t.is(error.status, 500);
  t.is(requests.length, 1 + defaultRetryPolicy.retries);
});

test('nobody there: the error names the call, the address without its password, the cause and what to check', async (t) => {
  const server = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  const lonely = new Endpoint('ep1', { apiKey: 'k', baseUrl: `http://127.0.0.1:${port}`, retry: { retries: 0 } });
  const error = await t.throwsAsync(lonely.run({}), { instanceOf: ConnectionError });
  t.is(
    error.message,
    `POST /v2/ep1/run: cannot connect to http://127.0.0.1:${port}: connect ECONNREFUSED 127.0.0.1:${port}. Check CAPSTAN_URL (or baseUrl), or start the service there: capstan up`,
  );
  t.is((error.cause as { cause?: { code?: string } }).cause?.code, 'ECONNREFUSED');
  const { unreachable } = await import('../../sdk/typescript/unreachable.ts');
  t.false(unreachable('GET /', 'http://me:secret@example.test/base', new Error('x')).message.includes('secret'));
});

test.serial('retries are told on stderr, once for an address and not for each call', async (t) => {
  const told: string[] = [];
  const { warn } = console;
  console.warn = (text: string) => void told.push(text);
  t.teardown(() => void (console.warn = warn));
  const busy = { status: 503, body: { title: 'Service Unavailable', detail: 'service unavailable: \u001Btry again' } };
  const { baseUrl } = await server(t, [busy, busy, { body: {} }, busy, { body: {} }]);
  await endpoint(baseUrl).health();
  await endpoint(baseUrl).health();
  t.deepEqual(
    told.filter((text) => text.includes('/v2/ep1/health: 503')),
    ['capstan: GET /v2/ep1/health: 503 Service Unavailable:  try again; retrying up to 5 times'],
  );
});

test('a raised signal ends a call, a pause and a wait', async (t) => {
  const reason = new Error('enough');
  const { baseUrl, requests } = await server(t, [{ status: 503, body: '' }]);
  await t.throwsAsync(endpoint(baseUrl).run({ n: 1 }, { signal: AbortSignal.abort(reason) }), { is: reason });
  t.is(requests.length, 0);

  const patient = new Endpoint('ep1', { apiKey: 'k', baseUrl, retry: { firstPauseMs: 3_600_000, longestPauseMs: 3_600_000 } });
  const controller = new AbortController();
  const call = patient.run({}, { signal: controller.signal });
  while (requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
  controller.abort(reason);
  await t.throwsAsync(call, { is: reason });
});

test('no key is told before any call', (t) => {
  t.throws(() => new Endpoint('ep1', { apiKey: '' }), { instanceOf: TypeError, message: /SERVICE_API_KEY/ });
});

test('an address without a scheme and a broken key are refused, and the key is not shown', (t) => {
  t.throws(() => new Endpoint('ep1', { apiKey: 'k', baseUrl: 'localhost:8080' }), {
    instanceOf: TypeError,
    message: 'baseUrl must start with http:// or https://, not "localhost:8080"',
  });
  const error = t.throws(() => new Endpoint('ep1', { apiKey: 'hid\nden' }), { instanceOf: TypeError });
  t.notRegex(error.message, /den/);
});

test('which statuses are worth another try', (t) => {
  t.deepEqual([400, 401, 404, 409, 413, 429, 500, 501, 502, 503, 504].filter(isRetryable), [429, 500, 502, 503, 504]);
});

testProp(
  'pauses grow to their bound, keep to Retry-After, and end',
  [fc.nat(20), fc.nat(20), fc.option(fc.nat(100)), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })],
  (t, retries, attempt, retryAfter, random) => {
    const policy = { ...defaultRetryPolicy, retries };
    const pause = pauseBefore(policy, attempt, retryAfter === null ? null : String(retryAfter), random);
    if (attempt >= retries) t.is(pause, null);
    else {
      const full = Math.min(policy.longestPauseMs, policy.firstPauseMs * 2 ** attempt);
      t.true(pause !== null && pause >= full / 2 && pause >= (retryAfter ?? 0) * 1000);
      t.true(pause !== null && pause <= Math.max(full, (retryAfter ?? 0) * 1000));
    }
  },
);

test('a Retry-After that is no number of seconds is passed over', (t) => {
  t.is(pauseBefore(defaultRetryPolicy, 0, 'Wed, 21 Oct 2026 07:28:00 GMT', 0), 100);
  t.is(pauseBefore(defaultRetryPolicy, 0, '', 0), 100);
});

test('every end and every refusal is an error of its own kind', async (t) => {
  for (const [status, kind] of [
    ['FAILED', JobFailedError],
    ['CANCELLED', JobCancelledError],
    ['TIMED_OUT', JobTimedOutError],
  ] as const) {
    const { baseUrl } = await server(t, [{ body: { id: 'j1', status, error: 'why' } }]);
    const error = await t.throwsAsync<JobError>(endpoint(baseUrl).runSync({ n: 1 }), { instanceOf: kind });
    t.true(error instanceof JobError && error instanceof CapstanError);
    t.is(error.error, 'why');
  }
  for (const [status, kind] of [
    [401, AuthenticationError],
    [404, NotFoundError],
    [409, ConflictError],
    [429, RateLimitedError],
  ] as const) {
    const { baseUrl } = await server(
      t,
      Array.from({ length: 6 }, () => ({ status, body: {} })),
    );
    await t.throwsAsync(endpoint(baseUrl).run({ n: 1 }), { instanceOf: kind });
  }
});

const page = (status: string, ...chunks: readonly unknown[]) => ({ status, stream: chunks.map((output) => ({ output })) });
const all = async (stream: AsyncIterable<unknown>): Promise<unknown[]> => {
  const found: unknown[] = [];
  for await (const chunk of stream) found.push(chunk);
  return found;
};

test('a stream follows the job from place to place, and misses nothing', async (t) => {
  const at = (cursor: string) => ({ 'capstan-stream-cursor': cursor });
  const { baseUrl, requests } = await server(t, [
    { body: page('IN_PROGRESS', 'a', 'b'), headers: at('1.2') },
    { body: null },
    { body: page('IN_PROGRESS'), headers: at('1.2') },
    { body: page('COMPLETED', 'c'), headers: at('1.3') },
  ]);
  t.deepEqual(await all(endpoint(baseUrl).job('j1').stream()), ['a', 'b', 'c']);
  const read = '/v2/ep1/stream/j1?wait=8000&after=';
  t.deepEqual(
    requests.map(({ url }) => url),
    [`${read}0.0`, `${read}1.2`, `${read}1.2`, `${read}1.2`],
  );
});

test('of a service that keeps no place, lost chunks come from the output', async (t) => {
  const { baseUrl } = await server(t, [
    { body: page('IN_PROGRESS', 1) },
    { body: null },
    { body: { id: 'j1', status: 'COMPLETED', output: [1, 2, 3] } },
  ]);
  t.deepEqual(await all(endpoint(baseUrl).job('j1').stream()), [1, 2, 3]);
});

test('a stream of a job that fails throws after its chunks', async (t) => {
  const { baseUrl } = await server(t, [{ body: { ...page('FAILED', 1), error: 'midway' } }]);
  const found: unknown[] = [];
  const read = async (): Promise<void> => {
    for await (const chunk of endpoint(baseUrl).job('j1').stream()) found.push(chunk);
  };
  t.like(await t.throwsAsync(read(), { instanceOf: JobFailedError }), { error: 'midway' });
  t.deepEqual(found, [1]);
});

test('retry and purge', async (t) => {
  const { baseUrl, requests } = await server(t, [
    { body: { id: 'j1', status: 'IN_QUEUE' } },
    { body: { removed: 2, status: 'completed' } },
  ]);
  await endpoint(baseUrl).job('j1').retry();
  t.is(await endpoint(baseUrl).purgeQueue(), 2);
  t.deepEqual(
    requests.map(({ method, url }) => `${method} ${url}`),
    ['POST /v2/ep1/retry/j1', 'POST /v2/ep1/purge-queue'],
  );
});

test('a cancel whose first answer was lost has happened', async (t) => {
  const { baseUrl } = await server(t, [{ body: null }, { status: 409, body: {} }, { body: { id: 'j1', status: 'CANCELLED' } }]);
  const job = endpoint(baseUrl).job('j1');
  await job.cancel();
  t.true(job.done);
  const refused = await server(t, [{ status: 409, body: {} }]);
  await t.throwsAsync(endpoint(refused.baseUrl).job('j1').cancel(), { instanceOf: ConflictError });
});

test('a wait that is over names the job, which runs on', async (t) => {
  const running = { body: { id: 'j1', status: 'IN_PROGRESS' } };
  const { baseUrl, requests } = await server(t, [running, running]);
  const error = await t.throwsAsync(endpoint(baseUrl).runSync({ n: 1 }, { timeoutMs: 20 }), { instanceOf: TimeoutError });
  t.is(error.jobId, 'j1');
  t.is(requests[0]?.url, '/v2/ep1/runsync?wait=1000');
});

test('a service that does not answer ends the try', async (t) => {
  const silent = createServer(() => undefined);
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => {
    silent.closeAllConnections();
    silent.close();
  });
  const baseUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const patient = new Endpoint('ep1', { apiKey: 'k', baseUrl, retry: { retries: 0 }, timeoutMs: 20 });
  await t.throwsAsync(patient.health(), {
    instanceOf: ConnectionError,
    message: `GET /v2/ep1/health: no response within 20 ms (from ${baseUrl})`,
  });
});

test('a redirection is not followed: the key would go along', async (t) => {
  const { baseUrl, requests } = await server(t, [{ status: 307, headers: { location: '/elsewhere' }, body: {} }]);
  await t.throwsAsync(endpoint(baseUrl).health(), {
    instanceOf: CapstanApiError,
    message: /^GET \/v2\/ep1\/health: 307: the response is a redirect to \/elsewhere; redirects are not followed/,
  });
  t.is(requests.length, 1);
});

test('an answer that is no job is told as such, and not tried again', async (t) => {
  const { baseUrl, requests } = await server(t, [{ body: [1] }, { body: 'null' }, { body: '<html>' }]);
  const refused = async (work: Promise<unknown>, message: RegExp): Promise<void> => {
    await t.throwsAsync(work, { instanceOf: ConnectionError, message });
  };
  await refused(endpoint(baseUrl).run({ n: 1 }), /POST \/v2\/ep1\/run: the response is not a job/);
  await refused(endpoint(baseUrl).run({ n: 1 }), /the response is not a job/);
  await refused(endpoint(baseUrl).run({ n: 1 }), /the response is not JSON/);
  t.is(requests.length, 3);
});

/** Every operation, its shapes and its status codes. */
import test from 'ava';

import { contract, isProblem, TERMINAL, type Answer } from './contract.ts';

const api = contract(test);

// ---------------------------------------------------------------- the status object, state by state

test('statuses: IN_QUEUE has neither times nor worker, but says why it waits', async (t) => {
  const job = await api.run('parked');
  const answer = await api.call('GET', `/v2/:parked/status/${job}`);
  t.deepEqual(answer.json, { id: job, status: 'IN_QUEUE', queueReason: 'PAUSED' });
});

test('queueReason: a lowPriority job starts no worker', async (t) => {
  const job = await api.run('cold', {}, { policy: { lowPriority: true } });
  t.like((await api.call('GET', `/v2/:cold/status/${job}`)).json, { status: 'IN_QUEUE', queueReason: 'LOW_PRIORITY' });
  // A normal one does, and comes first.
  t.is((await api.call('POST', '/v2/:cold/runsync', { body: { input: {} } })).json['status'], 'COMPLETED');
  t.is((await api.ended('cold', job)).json['status'], 'COMPLETED');
});

test('statuses: IN_PROGRESS has delayTime, workerId and the last progress', async (t) => {
  const job = await api.run('endless');
  const { json } = await api.running('endless', job);
  t.deepEqual(Object.keys(json).sort(), ['delayTime', 'id', 'output', 'status', 'workerId']);
  t.deepEqual(json['output'], { halfway: true });
  t.true(Number.isInteger(json['delayTime']));
});

test('statuses: COMPLETED has output, delayTime, executionTime, workerId', async (t) => {
  const { json } = await api.call('POST', '/v2/:echo/runsync', { body: { input: { a: [1] } } });
  t.deepEqual(Object.keys(json).sort(), ['delayTime', 'executionTime', 'id', 'output', 'status', 'workerId']);
  t.deepEqual(json['output'], { a: [1] });
  t.true(Number.isInteger(json['delayTime']) && Number.isInteger(json['executionTime']));
  t.deepEqual((await api.call('GET', `/v2/:echo/status/${String(json['id'])}`)).json, json);
});

test('Job: FAILED has the function’s message as error, a string, and no output', async (t) => {
  const { json } = await api.call('POST', '/v2/:failing/runsync', { body: { input: { n: 1 } } });
  t.deepEqual(Object.keys(json).sort(), ['delayTime', 'error', 'executionTime', 'id', 'status', 'workerId']);
  t.is(json['error'], 'cannot do {"n":1}');
  t.is(json['status'], 'FAILED');
});

test('cancel: a queued job has neither delayTime nor executionTime, a running one both; the handler is stopped', async (t) => {
  const queued = await api.run('parked');
  t.deepEqual((await api.call('POST', `/v2/:parked/cancel/${queued}`)).json, { id: queued, status: 'CANCELLED' });
  t.deepEqual((await api.call('GET', `/v2/:parked/status/${queued}`)).json, { id: queued, status: 'CANCELLED' });
  const running = await api.run('single');
  const next = await api.run('single');
  await api.running('single', running);
  const { json } = await api.call('POST', `/v2/:single/cancel/${running}`);
  t.deepEqual(Object.keys(json).sort(), ['delayTime', 'executionTime', 'id', 'status']);
  t.like((await api.call('GET', `/v2/:single/status/${running}`)).json, json);
  // Its slot is free only once its handler has really ended.
  await api.running('single', next);
  t.is((await api.call('POST', `/v2/:single/cancel/${next}`)).status, 200);
});

// ---------------------------------------------------------------- reading

for (const method of ['GET', 'POST']) {
  test(`/status: ${method} is accepted`, async (t) => {
    const job = await api.run('echo', { a: 1 });
    t.like((await api.ended('echo', job)).json, { status: 'COMPLETED', output: { a: 1 } });
    t.like((await api.call(method, `/v2/:echo/status/${job}`)).json, { id: job, status: 'COMPLETED', output: { a: 1 } });
    t.like((await api.call(method, `/v2/:echo/status-sync/${job}`)).json, { id: job, status: 'COMPLETED' });
    t.deepEqual((await api.call(method, `/v2/:echo/stream/${job}`)).json, { status: 'COMPLETED', stream: [] });
  });
}

test('/status-sync: answers when the job ends, or with its state when the wait is over', async (t) => {
  const waiting = await api.run('parked');
  t.like((await api.call('GET', `/v2/:parked/status-sync/${waiting}?wait=1000`)).json, { id: waiting, status: 'IN_QUEUE' });
  const asked = api.call('GET', `/v2/:parked/status-sync/${waiting}`);
  await api.call('POST', `/v2/:parked/cancel/${waiting}`);
  t.like((await asked).json, { id: waiting, status: 'CANCELLED' });
});

test('/stream: drains on read; the terminal answer carries the rest, the next one nothing', async (t) => {
  const job = await api.run('counting', { count: 5 });
  const chunks: unknown[] = [];
  let last: Answer;
  do {
    last = await api.call('GET', `/v2/:counting/stream/${job}`);
    t.deepEqual(Object.keys(last.json), ['status', 'stream']);
    for (const chunk of last.json['stream'] as object[]) chunks.push(chunk);
  } while (!TERMINAL.has(last.json['status']));
  t.deepEqual(
    chunks,
    [1, 2, 3, 4, 5].map((output) => ({ output })),
  );
  t.deepEqual((await api.call('GET', `/v2/:counting/stream/${job}`)).json, { status: 'COMPLETED', stream: [] });
  t.deepEqual((await api.call('GET', `/v2/:counting/status/${job}`)).json['output'], [1, 2, 3, 4, 5]);
});

test('docs/api-jobs.md, /stream: a reader that tells its place gets again what an answer held that it lost', async (t) => {
  const job = await api.run('counting', { count: 3 });
  await api.ended('counting', job);
  const whole = { status: 'COMPLETED', stream: [{ output: 1 }, { output: 2 }, { output: 3 }] };
  const path = `/v2/:counting/stream/${job}`;
  const first = await api.call('GET', `${path}?after=0.0`);
  t.deepEqual(first.json, whole);
  t.deepEqual((await api.call('GET', `${path}?after=0.0`)).json, whole, 'the first answer was lost');
  t.is(first.headers.get('capstan-stream-cursor'), '1.3');
  t.deepEqual((await api.call('GET', `${path}?after=1.1`)).json, { status: 'COMPLETED', stream: [{ output: 2 }, { output: 3 }] });
  t.deepEqual((await api.call('GET', `${path}?after=1.3`)).json, { status: 'COMPLETED', stream: [] });
  const refused = await api.call('GET', `${path}?after=three`);
  t.is(refused.status, 400);
  t.regex(String(refused.json['detail']), /after/);
});

test('/stream: read only after the end, it is all there at once', async (t) => {
  const job = await api.run('counting', { count: 3 });
  await api.ended('counting', job);
  t.deepEqual((await api.call('POST', `/v2/:counting/stream?id=${job}`)).json, {
    status: 'COMPLETED',
    stream: [{ output: 1 }, { output: 2 }, { output: 3 }],
  });
});

test('an error of a generator is not swallowed', async (t) => {
  const job = await api.run('counting', { count: 2, fails: true });
  t.like((await api.ended('counting', job)).json, { status: 'FAILED', error: 'lost count' });
  const { json } = await api.call('GET', `/v2/:counting/stream/${job}`);
  t.like(json, { status: 'FAILED', error: 'lost count', stream: [{ output: 1 }, { output: 2 }] });
});

test('/stream: of a job that waits it is an empty array', async (t) => {
  const job = await api.run('parked');
  t.deepEqual((await api.call('GET', `/v2/:parked/stream/${job}?wait=0`)).json, { status: 'IN_QUEUE', stream: [] });
});

test('/health: all five job counts and all six worker counts, always', async (t) => {
  const { json } = await api.call('GET', '/v2/:echo/health');
  t.deepEqual(Object.keys(json), ['jobs', 'workers']);
  const { jobs, workers } = json as Record<'jobs' | 'workers', Record<string, number>>;
  t.deepEqual(Object.keys(jobs), ['completed', 'failed', 'inProgress', 'inQueue', 'retried']);
  t.deepEqual(Object.keys(workers), ['idle', 'initializing', 'ready', 'running', 'throttled', 'unhealthy']);
  for (const count of [...Object.values(jobs), ...Object.values(workers)]) t.true(Number.isInteger(count) && count >= 0);
});

test.serial('/requests: a page of the endpoint’s jobs, newest first, filtered by status', async (t) => {
  await api.call('POST', '/v2/:parked/purge-queue');
  const before = Number((await api.call('GET', '/v2/:parked/requests')).json['total']);
  const jobs = [await api.run('parked'), await api.run('parked'), await api.run('parked')];
  const page = await api.call('GET', '/v2/:parked/requests?status=IN_QUEUE&limit=2');
  t.deepEqual(Object.keys(page.json), ['requests', 'total', 'offset', 'limit', 'hasMore']);
  const { requests, ...rest } = page.json as { requests: { id: string; status: string }[] };
  t.deepEqual(rest, { total: 3, offset: 0, limit: 2, hasMore: true } as object as typeof rest);
  t.deepEqual(
    requests.map((each) => each.id),
    [jobs[2], jobs[1]],
  );
  const next = (await api.call('GET', '/v2/:parked/requests?status=IN_QUEUE&limit=2&offset=2')).json;
  t.like(next, { total: 3, offset: 2, hasMore: false });
  t.is((next['requests'] as object[]).length, 1);
  t.is((await api.call('GET', '/v2/:parked/requests')).json['total'], before + 3);
});

for (const [query, detail] of [
  ['status=DONE', /status: must be one of IN_QUEUE/],
  ['limit=0', /limit: must be an integer between 1 and 100/],
  ['limit=101', /limit: must be an integer between 1 and 100/],
  ['offset=-1', /offset: must be an integer/],
] as const) {
  test(`/requests refuses ${query}`, async (t) => {
    isProblem(t, await api.call('GET', `/v2/:echo/requests?${query}`), 400, detail);
  });
}

// ---------------------------------------------------------------- changing

test('/cancel, /retry, /stream: the id as a path segment, as ?id= or in the body', async (t) => {
  for (const [path, body] of [
    ['/v2/:parked/cancel/ID', undefined],
    ['/v2/:parked/cancel?id=ID', undefined],
    ['/v2/:parked/cancel', { id: 'ID' }],
  ] as const) {
    const job = await api.run('parked');
    const answer = await api.call('POST', path.replace('ID', job), body === undefined ? {} : { body: { id: job } });
    t.deepEqual(answer.json, { id: job, status: 'CANCELLED' });
  }
  isProblem(t, await api.call('POST', '/v2/:parked/cancel', { body: {} }), 400, /id: is required/);
  isProblem(t, await api.call('GET', '/v2/:parked/stream'), 400, /id: is required/);
});

// Alone: a purge takes the jobs of the tests beside it.
test.serial('POSTs with an empty body and a JSON content type are accepted', async (t) => {
  const headers = { 'content-type': 'application/json' };
  const job = await api.run('parked');
  t.is((await api.call('POST', `/v2/:parked/cancel/${job}`, { headers })).status, 200);
  t.is((await api.call('POST', '/v2/:echo/purge-queue', { headers })).status, 200);
});

test('/retry: from FAILED, same id and input, old output dropped', async (t) => {
  const job = await api.run('failing', { n: 7 });
  t.is((await api.ended('failing', job)).json['status'], 'FAILED');
  const retried = async (): Promise<number> => ((await api.call('GET', '/v2/:failing/health')).json['jobs'] as { retried: number }).retried;
  const before = await retried();
  t.deepEqual((await api.call('POST', `/v2/:failing/retry/${job}`)).json, { id: job, status: 'IN_QUEUE' });
  t.true((await retried()) > before);
  const { json } = await api.ended('failing', job);
  t.like(json, { id: job, status: 'FAILED', error: 'cannot do {"n":7}' });
  t.false('retries' in json, 'the attempts count anew');
});

test('/retry: 409 in a state that forbids it; /cancel of an ended job changes nothing', async (t) => {
  const done = String((await api.call('POST', '/v2/:echo/runsync', { body: { input: {} } })).json['id']);
  isProblem(t, await api.call('POST', `/v2/:echo/retry/${done}`), 409, /only a FAILED or TIMED_OUT job can be retried/);
  const ended = await api.call('POST', `/v2/:echo/cancel/${done}`);
  t.is(ended.status, 200);
  t.like(ended.json, { id: done, status: 'COMPLETED' });
  t.like((await api.call('GET', `/v2/:echo/status/${done}`)).json, { status: 'COMPLETED' });
  const waiting = await api.run('parked');
  isProblem(t, await api.call('POST', `/v2/:parked/retry/${waiting}`), 409, /has not ended/);
  await api.call('POST', `/v2/:parked/cancel/${waiting}`);
  t.deepEqual((await api.call('POST', `/v2/:parked/cancel/${waiting}`)).json, { id: waiting, status: 'CANCELLED' });
  isProblem(t, await api.call('POST', `/v2/:parked/retry/${waiting}`), 409, /CANCELLED/);
});

test.serial('/purge-queue: only jobs in the queue; they end CANCELLED with that reason', async (t) => {
  await api.call('POST', '/v2/:parked/purge-queue');
  const jobs = [await api.run('parked'), await api.run('parked', {}, { policy: { lowPriority: true } })];
  t.deepEqual((await api.call('POST', '/v2/:parked/purge-queue')).json, { removed: 2, status: 'completed' });
  for (const job of jobs)
    t.deepEqual((await api.call('GET', `/v2/:parked/status/${job}`)).json, {
      id: job,
      status: 'CANCELLED',
      error: 'purged from the queue',
    });
  t.deepEqual((await api.call('POST', '/v2/:parked/purge-queue')).json, { removed: 0, status: 'completed' });
  const running = await api.run('endless');
  await api.running('endless', running);
  t.deepEqual((await api.call('POST', '/v2/:endless/purge-queue')).json, { removed: 0, status: 'completed' });
  t.is((await api.call('GET', `/v2/:endless/status/${running}`)).json['status'], 'IN_PROGRESS');
});

test('FIFO: one worker takes the jobs of a priority in the order they came', async (t) => {
  const jobs: string[] = [];
  for (let n = 0; n < 8; n += 1) jobs.push(await api.run('ordered'));
  const calls: unknown[] = [];
  for (const job of jobs) calls.push((await api.ended('ordered', job)).json['output']);
  t.deepEqual(calls, [1, 2, 3, 4, 5, 6, 7, 8]);
});

// ---------------------------------------------------------------- who may, and what is not there

const operations: readonly (readonly [method: string, path: string, body?: object])[] = [
  ['POST', '/v2/ENDPOINT/run', { input: {} }],
  ['POST', '/v2/ENDPOINT/runsync', { input: {} }],
  ['GET', '/v2/ENDPOINT/status/JOB'],
  ['POST', '/v2/ENDPOINT/status/JOB'],
  ['GET', '/v2/ENDPOINT/status-sync/JOB'],
  ['GET', '/v2/ENDPOINT/stream/JOB'],
  ['POST', '/v2/ENDPOINT/cancel/JOB'],
  ['POST', '/v2/ENDPOINT/retry/JOB'],
  ['POST', '/v2/ENDPOINT/purge-queue'],
  ['GET', '/v2/ENDPOINT/health'],
  ['GET', '/v2/ENDPOINT/requests'],
];

for (const [method, path, body] of operations) {
  const at = (endpoint: string): string => path.replace('ENDPOINT', endpoint).replace('JOB', 'no-such-job');
  const options = body === undefined ? {} : { body };
  test(`Authentication: ${method} ${path} without a key, or with a wrong one, is 401`, async (t) => {
    for (const authorization of [null, 'Bearer wrong', 'wrong', 'Bearer ', 'Basic dXNlcjpwYXNz']) {
      const answer = await api.call(method, at(':echo'), { ...options, authorization });
      isProblem(t, answer, 401, /key|Authorization/);
      t.is(answer.headers.get('www-authenticate'), 'Bearer');
    }
  });
  test(`Errors: ${method} ${path} of an unknown endpoint is 404`, async (t) => {
    isProblem(t, await api.call(method, at('nosuchendpoint'), options), 404, /endpoint "nosuchendpoint" does not exist/);
  });
  if (path.endsWith('JOB')) {
    test(`Errors: ${method} ${path} of an unknown job is 404`, async (t) => {
      isProblem(t, await api.call(method, at(':echo'), options), 404, /no-such-job/);
    });
  }
  test(`Errors: another method on ${method} ${path} is 405 and names those that are allowed`, async (t) => {
    const answer = await api.call('PUT', at(':echo'));
    isProblem(t, answer, 405, /PUT is not allowed here/);
    t.true(answer.headers.get('allow')?.split(', ').includes(method));
  });
}

test('Auth: the raw key without Bearer is accepted', async (t) => {
  t.is((await api.call('GET', '/v2/:echo/health', { authorization: api.stack.apiKey })).status, 200);
  t.is((await api.call('GET', '/v2/:echo/health', { authorization: `bearer ${api.stack.apiKey}` })).status, 200);
});

test('Authentication: header names in any letter case', async (t) => {
  const headers = { AUTHORIZATION: `Bearer ${api.stack.apiKey}`, 'CONTENT-TYPE': 'application/json' };
  const url = `${api.stack.url}/v2/${api.id('echo')}/runsync`;
  t.is((await fetch(url, { method: 'POST', headers, body: '{"input":{}}' })).status, 200);
});

test('a job belongs to its endpoint: asked of another one it is not there', async (t) => {
  const job = await api.run('parked');
  isProblem(t, await api.call('GET', `/v2/:echo/status/${job}`), 404, /not found/);
  isProblem(t, await api.call('POST', `/v2/:echo/cancel/${job}`), 404, /not found/);
});

test('Errors: a body that is no JSON by its type is 415; a path that is none is 404', async (t) => {
  const answer = await api.call('POST', '/v2/:echo/run', { body: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } });
  isProblem(t, answer, 415, /Content-Type/);
  isProblem(t, await api.call('GET', '/v2/:echo/nonsense'), 404, /no such route/);
});

/** The operations and the shapes of their answers. */
import test from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { EndpointHealth } from '../../proto/gen/capstan/v1/jobs.ts';
import { inline, job } from './fake-scheduler.ts';
import { setup } from './harness.ts';

test('the status object has the fields its state gives it, outputs untouched', async (t) => {
  const { scheduler, call } = await setup(t);
  const shapes: [ReturnType<typeof job>, string][] = [
    [job('a', JobState.IN_QUEUE), '{"id":"a","status":"IN_QUEUE"}'],
    [job('b', JobState.IN_QUEUE, { queueReason: 'NO_CAPACITY' }), '{"id":"b","status":"IN_QUEUE","queueReason":"NO_CAPACITY"}'],
    [
      job('c', JobState.IN_PROGRESS, { delayMs: 12, workerId: 'w', output: inline('{ "done" : 0.10 }') }),
      '{"id":"c","status":"IN_PROGRESS","output":{ "done" : 0.10 },"delayTime":12,"workerId":"w"}',
    ],
    [
      job('d', JobState.COMPLETED, { delayMs: 0, executionMs: 3391, workerId: 'w', output: inline('null') }),
      '{"id":"d","status":"COMPLETED","output":null,"delayTime":0,"executionTime":3391,"workerId":"w"}',
    ],
    [
      job('e', JobState.FAILED, {
        delayMs: 1,
        executionMs: 2,
        retries: 1,
        workerId: 'w',
        error: 'a "quoted"\nline',
        webhook: 'https://x.example',
      }),
      '{"id":"e","status":"FAILED","error":"a \\"quoted\\"\\nline","delayTime":1,"executionTime":2,"retries":1,"workerId":"w"}',
    ],
    [
      job('f', JobState.FAILED, { error: 'custom', output: inline('{"detail":1}'), queueReason: 'PAUSED' }),
      '{"id":"f","status":"FAILED","output":{"detail":1},"error":"custom"}',
    ],
    [job('g', JobState.CANCELLED), '{"id":"g","status":"CANCELLED"}'],
    [
      job('h', JobState.TIMED_OUT, { error: 'executionTimeout exceeded', delayMs: 5, executionMs: 5000 }),
      '{"id":"h","status":"TIMED_OUT","error":"executionTimeout exceeded","delayTime":5,"executionTime":5000}',
    ],
  ];
  for (const [value, text] of shapes) {
    scheduler.jobs.set(value.id, value);
    for (const method of ['GET', 'POST']) {
      const reply = await call(method, `/v2/ep/status/${value.id}`);
      t.is(reply.status, 200);
      t.is(reply.text, text);
      t.is(reply.headers['content-type'], 'application/json; charset=utf-8');
    }
    t.is((await call('GET', `/v2/ep/status-sync/${value.id}`)).text, text);
  }
});

test('a status request with an empty or a JSON body is a status request', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.jobs.set('a', job('a', JobState.IN_QUEUE));
  for (const body of ['', '{}', '{"x":1}']) t.is((await call('POST', '/v2/ep/status/a', { body })).status, 200);
  t.is((await call('POST', '/v2/ep/status/a', { body: '', headers: { 'content-type': 'application/x-www-form-urlencoded' } })).status, 200);
  t.is((await call('GET', '/v2/ep/status/a/')).status, 200);
});

test('waits: default, clamped at both ends, fractions rounded', async (t) => {
  const { scheduler, call } = await setup(t);
  const waits: number[] = [];
  scheduler.onGet = (asked) => {
    waits.push(asked.waitMs);
    asked.reply(job(asked.jobId, JobState.IN_PROGRESS));
  };
  for (const query of ['', '?wait=1', '?wait=-5', '?wait=2000.4', '?wait=300001', '?wait=999999999999999999999']) {
    t.is((await call('GET', `/v2/ep/status-sync/a${query}`)).status, 200);
  }
  t.deepEqual(waits, [90_000, 1000, 1000, 2000, 300_000, 300_000]);
  const streams: number[] = [];
  scheduler.onStream = (asked) => {
    streams.push(asked.waitMs);
    asked.stream_({ state: JobState.IN_QUEUE, chunks: [] });
  };
  for (const query of ['', '?wait=0', '?wait=60000']) await call('GET', `/v2/ep/stream/a${query}`);
  t.deepEqual(streams, [8_000, 0, 10_000]);
});

test('runsync whose wait ends first answers 200 with the state', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.onSubmit = (asked) => asked.reply(job(asked.submit.jobId, JobState.IN_PROGRESS, { delayMs: 3, workerId: 'w' }));
  const reply = await call('POST', '/v2/ep/runsync?wait=1000', { body: '{"input":{}}' });
  t.is(reply.status, 200);
  t.like(reply.json, { status: 'IN_PROGRESS', delayTime: 3, workerId: 'w' });
  t.is(scheduler.submits[0]?.waitMs, 1000);
});

test('run answers IN_QUEUE even when a worker was faster; a repeated Idempotency-Key answers the first job', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.onSubmit = (asked) => asked.reply(job(asked.submit.jobId, JobState.IN_PROGRESS));
  t.is((await call('POST', '/v2/ep/run', { body: '{"input":{}}' })).json['status'], 'IN_QUEUE');
  scheduler.onSubmit = (asked) => asked.reply(job('first-u1', JobState.COMPLETED));
  const again = await call('POST', '/v2/ep/run', { body: '{"input":{}}', headers: { 'idempotency-key': 'order-7' } });
  t.is(again.text, '{"id":"first-u1","status":"COMPLETED"}');
  const [first, second] = scheduler.submits;
  t.is(first?.idempotencyKey, '');
  t.is(first?.bodyHash.length, 0);
  t.is(second?.idempotencyKey, 'order-7');
  t.is(second?.bodyHash.length, 32);
  scheduler.onSubmit = (asked) =>
    asked.fail(new CapstanError('IDEMPOTENCY_MISMATCH', 'Idempotency-Key: was used with another body', { field: 'Idempotency-Key' }));
  const other = await call('POST', '/v2/ep/run', { body: '{"input":{"x":1}}', headers: { 'idempotency-key': 'order-7' } });
  t.is(other.status, 409);
  t.is(other.json['detail'], 'conflict: Idempotency-Key: was used with another body');
  t.notDeepEqual(scheduler.submits[2]?.bodyHash, second?.bodyHash);
});

test('what the scheduler refuses has its status, message and Retry-After', async (t) => {
  const { scheduler, call } = await setup(t);
  for (const [error, status, retryAfter] of [
    [new CapstanError('RATE_LIMITED', 'run: 1000 requests per 10 s are allowed', { retryAfterMs: 1500 }), 429, '2'],
    [new CapstanError('UNAVAILABLE', 'no', { retryAfterMs: 100 }), 503, '1'],
    [new CapstanError('NOT_FOUND', 'gone'), 404, undefined],
    [new CapstanError('INVALID_ARGUMENT', 'webhook: must not be a private address', { field: 'webhook' }), 400, undefined],
    [new CapstanError('INTERNAL', 'internal error'), 500, undefined],
  ] as const) {
    scheduler.onSubmit = (asked) => asked.fail(error);
    const reply = await call('POST', '/v2/ep/run', { body: '{"input":{}}' });
    t.is(reply.status, status);
    t.is(reply.headers['retry-after'], retryAfter);
    t.true(String(reply.json['detail']).endsWith(`: ${error.message}`));
  }
});

test('cancel and retry take the id from the path, the query or the body', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.jobs.set('q-u1', job('q-u1', JobState.IN_QUEUE));
  scheduler.jobs.set('r-u1', job('r-u1', JobState.IN_PROGRESS, { delayMs: 4, executionMs: 9 }));
  for (const [path, body] of [
    ['/v2/ep/cancel/q-u1', undefined],
    ['/v2/ep/cancel/q-u1', ''],
    ['/v2/ep/cancel?id=q-u1', ''],
    ['/v2/ep/cancel?id=q-u1', undefined],
    ['/v2/ep/cancel', '{"id":"q-u1"}'],
  ] as const) {
    const reply = await call('POST', path, body === undefined ? {} : { body });
    t.is(reply.text, '{"id":"q-u1","status":"CANCELLED"}', path);
  }
  t.is((await call('POST', '/v2/ep/cancel/r-u1')).text, '{"id":"r-u1","status":"CANCELLED","delayTime":4,"executionTime":9}');
  t.is((await call('POST', '/v2/ep/retry', { body: '{"id":"q-u1"}' })).text, '{"id":"q-u1","status":"IN_QUEUE"}');
  t.is((await call('POST', '/v2/ep/retry/q-u1')).text, '{"id":"q-u1","status":"IN_QUEUE"}');
  scheduler.onCancel = () => {
    throw new CapstanError('CONFLICT', 'the job has ended: COMPLETED');
  };
  const reply = await call('POST', '/v2/ep/cancel/q-u1');
  t.is(reply.status, 409);
  t.is(reply.json['detail'], 'conflict: the job has ended: COMPLETED');
});

test('purge-queue says how many', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.onPurge = () => 2;
  for (const options of [{}, { body: '' }, { body: '{}' }])
    t.is((await call('POST', '/v2/ep/purge-queue', options)).text, '{"removed":2,"status":"completed"}');
});

test('health always has all eleven counts', async (t) => {
  const { scheduler, call } = await setup(t);
  t.is(
    (await call('GET', '/v2/ep/health')).text,
    '{"jobs":{"completed":0,"failed":0,"inProgress":0,"inQueue":0,"retried":0},"workers":{"idle":0,"initializing":0,"ready":0,"running":0,"throttled":0,"unhealthy":0}}',
  );
  scheduler.onHealth = () => EndpointHealth.create({ jobsCompleted: 27, workersThrottled: 1, workersReady: 3, jobsRetried: 4 });
  t.like((await call('GET', '/v2/ep/health')).json, {
    jobs: { completed: 27, failed: 0, inProgress: 0, inQueue: 0, retried: 4 },
    workers: { idle: 0, initializing: 0, ready: 3, running: 0, throttled: 1, unhealthy: 0 },
  });
});

test('requests is a page, filtered by status', async (t) => {
  const { scheduler, call } = await setup(t);
  const seen: unknown[] = [];
  scheduler.onList = (request) => {
    seen.push(request);
    return {
      jobs: [
        job('a', JobState.COMPLETED, { output: inline('[1.0]') }),
        job('b', JobState.COMPLETED, { output: scheduler.putBlob('"big"') }),
      ],
      total: 7,
    };
  };
  const reply = await call('GET', '/v2/ep/requests?status=COMPLETED&limit=2&offset=4');
  t.is(
    reply.text,
    '{"requests":[{"id":"a","status":"COMPLETED","output":[1.0]},{"id":"b","status":"COMPLETED"}],"total":7,"offset":4,"limit":2,"hasMore":true}',
  );
  await call('GET', '/v2/ep/requests');
  t.deepEqual(seen, [
    { endpointId: 'ep', state: JobState.COMPLETED, limit: 2, offset: 4 },
    { endpointId: 'ep', state: JobState.UNSPECIFIED, limit: 20, offset: 0 },
  ]);
  scheduler.onList = () => ({ jobs: [], total: 0 });
  t.is((await call('GET', '/v2/ep/requests')).text, '{"requests":[],"total":0,"offset":0,"limit":20,"hasMore":false}');
});

test('stream answers chunks raw, and an empty array when there are none', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.onStream = (asked) =>
    asked.stream_({ state: JobState.IN_PROGRESS, chunks: [inline('{"n":1.0}'), inline('"two"'), scheduler.putBlob('[3]')] });
  for (const path of ['/v2/ep/stream/s', '/v2/ep/stream?id=s']) {
    t.is((await call('GET', path)).text, '{"status":"IN_PROGRESS","stream":[{"output":{"n":1.0}},{"output":"two"},{"output":[3]}]}');
  }
  t.is((await call('POST', '/v2/ep/stream', { body: '{"id":"s"}' })).json['status'], 'IN_PROGRESS');
  t.regex(String((await call('POST', '/v2/ep/stream', { body: '{"id":' })).json['detail']), /body: must be JSON/);
  scheduler.onStream = (asked) => asked.stream_({ state: JobState.COMPLETED, chunks: [] });
  t.is((await call('POST', '/v2/ep/stream/s')).text, '{"status":"COMPLETED","stream":[]}');
  scheduler.onStream = (asked) => asked.stream_({ state: JobState.FAILED, chunks: [inline('1')], error: 'broke' });
  t.is((await call('GET', '/v2/ep/stream/s')).text, '{"status":"FAILED","stream":[{"output":1}],"error":"broke"}');
});

/** Workers that speak the worker protocol themselves, as processes, with a worker of the standard library alone. */
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';

import { WorkerApi } from '../../agent/worker-api/server.ts';
import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { isRunning } from '../conformance/runtime/running.ts';
import { until } from '../support/until.ts';
import type { FakeScheduler } from './fake-scheduler.ts';
import { addBuild, startAgent, startScheduler, startWorker } from './fixtures.ts';

// One after another: each starts an agent.
const program = await readFile(join(import.meta.dirname, 'foreign_worker.py'), 'utf8');
const release = { runtime: 'process', functions: [], command: ['python3', 'worker.py', 'one two'] };

async function foreign(t: ExecutionContext, more: Partial<ReleaseSpec> = {}): Promise<FakeScheduler> {
  const { scheduler } = await startWorker(t, { 'worker.py': program }, '', { ...release, ...more }, { workerPingMs: 1_000, spareHosts: 0 });
  return scheduler;
}

/** Lines of the worker that hold a text, once there are some. */
function line(scheduler: FakeScheduler, text: string): Promise<string> {
  let requestId = 0;
  return until(`the worker printed ${text}`, async () => {
    requestId += 1;
    const wanted = requestId;
    scheduler.send({ $case: 'logs', value: { requestId, endpointId: 'ep1', workerId: '', limit: 1_000, afterMs: 0n } });
    const { lines } = await scheduler.hear('logs', (value) => value.requestId === wanted);
    return lines.find((each) => each.text.includes(text))?.text;
  });
}

test.serial('a job is fetched, entered, and its result comes back byte for byte', async (t) => {
  const scheduler = await foreign(t);
  // Numbers that no double holds, and an order of keys that must stay.
  const body = '{"output" : {"b":12345678901234567890,"a":1.0} }';
  scheduler.dispatch({ jobId: 'j1' }, { do: 'raw', body });
  const ended = await scheduler.ended('j1');
  t.is(ended.outcome, 'ATTEMPT_OUTCOME_COMPLETED');
  const output = ended.output?.body;
  t.is(output?.$case === 'inline' ? output.value.toString() : '', '{"b":12345678901234567890,"a":1.0}');
  const kinds = scheduler.heard.items.map(({ $case }) => $case).filter((kind) => kind === 'started' || kind === 'ended');
  t.deepEqual(kinds, ['started', 'ended']);
  t.is(await line(scheduler, 'argv'), 'argv ["one two"]');
});

test.serial('a job holds its id and input, and s3Config where the caller gave one', async (t) => {
  const scheduler = await foreign(t);
  const s3Config = { accessId: 'id', accessSecret: 'secret', bucketName: 'bucket', endpointUrl: 'https://storage.test' };
  scheduler.dispatch({ jobId: 'j1', s3Config: { ...s3Config, more: '{"region":"eu"}', json: '' } }, { do: 'job' });
  t.deepEqual(scheduler.valueOf((await scheduler.ended('j1')).output), {
    id: 'j1',
    input: { do: 'job' },
    s3Config: { ...s3Config, region: 'eu' },
  });
});

test.serial('a job of a trace holds its context, alone and among several', async (t) => {
  const scheduler = await foreign(t, { maxConcurrency: 2, env: { ROOM: '2' } });
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const tracestate = 'vendor="1"';
  scheduler.dispatch({ jobId: 'j1', trace: traceparent }, { do: 'job' });
  scheduler.dispatch({ jobId: 'j2', trace: `${traceparent} ${tracestate}` }, { do: 'job' });
  const jobOf = async (jobId: string): Promise<unknown> => scheduler.valueOf((await scheduler.ended(jobId)).output);
  t.deepEqual(await jobOf('j1'), { id: 'j1', input: { do: 'job' }, traceparent });
  t.deepEqual(await jobOf('j2'), { id: 'j2', input: { do: 'job' }, traceparent, tracestate });
});

test.serial('each form of a result is recorded as it is meant', async (t) => {
  const scheduler = await foreign(t);
  const cases = [
    ['{}', 'COMPLETED', '', {}],
    ['{"output":null}', 'COMPLETED', '', null],
    ['{"output":false}', 'COMPLETED', '', false],
    ['{"error":"as it came"}', 'FAILED', 'as it came', undefined],
    ['{"output":{"detail":1},"error":"custom"}', 'FAILED', 'custom', { detail: 1 }],
    ['{"error":{"code":7}}', 'FAILED', '{"code":7}', undefined],
    ['{"output":NaN}', 'FAILED', 'the worker posted a result that is not JSON: it contains NaN or Infinity', undefined],
    ['[1]', 'FAILED', 'the worker posted a result that is not JSON: it is not an object', undefined],
    ['', 'FAILED', 'the worker posted a result that is not JSON: error at byte 0', undefined],
  ] as const;
  for (const [index, [body, outcome, error, value]] of cases.entries()) {
    const jobId = `j${index}`;
    scheduler.dispatch({ jobId }, { do: 'raw', body });
    const ended = await scheduler.ended(jobId);
    t.like(ended, { outcome: `ATTEMPT_OUTCOME_${outcome}`, error }, body);
    t.deepEqual(scheduler.valueOf(ended.output), value, body);
  }
});

test.serial('progress is told; what comes after the end is answered 200 and changes nothing', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'progress' });
  t.deepEqual(scheduler.valueOf((await scheduler.hear('progress')).data), { percent: 50 });
  t.is(scheduler.valueOf((await scheduler.ended('j1')).output), 'done');
  t.is(await line(scheduler, 'late status'), 'late status 200');
  t.is(scheduler.heard.items.filter(({ $case }) => $case === 'ended' || $case === 'progress').length, 2);
});

test.serial('chunks go past the first credits, in order', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'stream', count: 100 });
  const ended = await scheduler.ended('j1');
  t.is(ended.chunks, 100);
  t.deepEqual(scheduler.valueOf(ended.output), []);
  const chunks = scheduler.heard.items.flatMap((event) => (event.$case === 'chunk' ? [scheduler.valueOf(event.value.data)] : []));
  t.deepEqual(chunks, [...Array(100).keys()]);
});

test.serial('what is too large fails its job with a plain message, and the worker serves on', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'chunk', bytes: 1024 * 1024 });
  t.is((await scheduler.ended('j1')).error, `a chunk has ${1024 * 1024 + 2} bytes; at most 1 MiB is allowed`);
  scheduler.dispatch({ jobId: 'j2' }, { do: 'large', bytes: 20 * 1024 * 1024 });
  t.is((await scheduler.ended('j2')).error, `the result has ${20 * 1024 * 1024 + 2} bytes; at most 20 MiB are allowed`);
  scheduler.dispatch({ jobId: 'j3' }, { do: 'large', bytes: 40 * 1024 * 1024 });
  t.regex((await scheduler.ended('j3')).error, /^the result has \d+ bytes; at most 20 MiB are allowed$/);
  scheduler.dispatch({ jobId: 'j4' }, { do: 'echo' });
  t.is((await scheduler.ended('j4')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
});

test.serial('a worker with room takes several jobs at once', async (t) => {
  const scheduler = await foreign(t, { maxConcurrency: 3, env: { ROOM: '3' } });
  for (const jobId of ['j1', 'j2', 'j3']) scheduler.dispatch({ jobId }, { do: 'wait' });
  for (const jobId of ['j1', 'j2', 'j3']) await scheduler.hear('started', (value) => value.jobId === jobId);
  // One of them is stopped; its neighbours and its worker are not touched.
  scheduler.send({ $case: 'stop', value: { jobId: 'j2', token: 1, reason: 'STOP_REASON_CANCELLED' } });
  t.like(await scheduler.ended('j2'), { outcome: 'ATTEMPT_OUTCOME_STOPPED', started: true });
  scheduler.dispatch({ jobId: 'j4' }, { do: 'echo' });
  t.is((await scheduler.ended('j4')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
  t.false(scheduler.heard.items.some(({ $case }) => $case === 'refused'));
});

test.serial('a worker shows how many jobs it takes at once, before it is ready', async (t) => {
  for (const room of ['1', '3']) {
    const scheduler = await foreign(t, { maxConcurrency: 100, env: { ROOM: room } });
    const { slots } = await scheduler.worker('w1', ({ state }) => state === WorkerState.IDLE);
    t.is(slots, Number(room));
  }
});

test.serial('a stopped job ends by the word of its worker; one that does not listen by force', async (t) => {
  const scheduler = await foreign(t);
  const stop = (jobId: string): void => scheduler.send({ $case: 'stop', value: { jobId, token: 1, reason: 'STOP_REASON_CANCELLED' } });
  scheduler.dispatch({ jobId: 'j1' }, { do: 'wait' });
  await scheduler.hear('started');
  stop('j1');
  t.like(await scheduler.ended('j1'), { outcome: 'ATTEMPT_OUTCOME_STOPPED', started: true });
  const from = scheduler.now;
  scheduler.dispatch({ jobId: 'j2', executionTimeoutMs: 100 }, { do: 'deaf' });
  t.like(await scheduler.ended('j2'), { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', error: 'executionTimeout exceeded' });
  const fresh = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_INITIALIZING', from);
  t.is(fresh.failures, 0);
});

test.serial('a job that the worker dropped without a word fails, and says so', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'silent' });
  t.like(await scheduler.ended('j1'), {
    outcome: 'ATTEMPT_OUTCOME_FAILED',
    error: 'the worker ended the job without a result; check that the handler returns JSON',
  });
});

test.serial('stopPod replaces the worker after its job, at no cost for anyone', async (t) => {
  const scheduler = await foreign(t);
  const from = scheduler.now;
  scheduler.dispatch({ jobId: 'j1' }, { do: 'recycle' });
  const pid = scheduler.valueOf((await scheduler.ended('j1')).output) as number;
  const fresh = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_INITIALIZING', from);
  t.is(fresh.failures, 0);
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', scheduler.heard.items.length - 1);
  t.false(await isRunning(pid));
  scheduler.dispatch({ jobId: 'j2' }, { do: 'pid' });
  t.not(scheduler.valueOf((await scheduler.ended('j2')).output), pid);
});

test.serial('a worker reaches its own jobs only, and nothing without its token', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'thieve', worker: 'w2', job: 'other' });
  t.deepEqual(scheduler.valueOf((await scheduler.ended('j1')).output), [401, 401, 401, 401, 401, 404, 404]);
});

test.serial('a start-up check that fails is the reason of a worker that does not start', async (t) => {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, { 'worker.py': program });
  await startAgent(t, scheduler, { spareHosts: 0 });
  await scheduler.hello();
  scheduler.desire([{}], [{ ...build, ...release, command: ['python3', 'worker.py', 'unwell'] }]);
  const sick = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_UNHEALTHY');
  t.like(sick, { reason: 'LOAD_FAILED', detail: 'gpu: none found' });
});

test.serial('a program that is not there, and one that asks for nothing, say why', async (t) => {
  const scheduler = await startScheduler(t);
  await startAgent(t, scheduler, { spareHosts: 0 });
  await scheduler.hello();
  const bare = { runtime: 'process', functions: [], buildDigest: '' };
  scheduler.desire(
    [
      { workerId: 'absent', releaseId: 'absent' },
      { workerId: 'mute', releaseId: 'mute' },
      { workerId: 'none', releaseId: 'none' },
    ],
    [
      { ...bare, releaseId: 'absent', command: ['/nonexistent/program'] },
      { ...bare, releaseId: 'mute', command: ['sleep', '300'], startTimeoutMs: 300 },
      { ...bare, releaseId: 'none', command: [] },
    ],
  );
  const sick = (id: string) => scheduler.worker(id, ({ state }) => state === 'WORKER_STATE_UNHEALTHY');
  const absent = await sick('absent');
  t.is(absent.reason, 'START_FAILED');
  t.regex(absent.detail, /^the worker's process exited with code 127; its last output: .*\/nonexistent\/program: not found$/);
  t.like(await sick('mute'), { reason: 'START_TIMEOUT' });
  t.like(await sick('none'), { reason: 'START_FAILED', detail: 'starting the worker process failed: the release has no command' });
});

test.serial('a worker that asks for nothing more hangs, however it pings: it is replaced, and its job was never started', async (t) => {
  const options = { workerPingMs: 1_000, workerFetchMs: 1_000, spareHosts: 0 };
  const { scheduler } = await startWorker(t, { 'worker.py': program }, '', release, options);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'hang' });
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
  scheduler.dispatch({ jobId: 'j2' });
  const error = 'the worker hangs: it is idle and has not fetched a job for 1 s';
  t.like(await scheduler.ended('j2'), { outcome: 'ATTEMPT_OUTCOME_WORKER_LOST', error });
  t.false(
    scheduler.heard.items.some(({ $case, value }) => $case === 'started' && value.jobId === 'j2'),
    'nobody is charged',
  );
  await scheduler.worker('w1', ({ state, failures }) => state === 'WORKER_STATE_IDLE' && failures === 1);
});

test.serial('a worker that dies is WORKER_LOST with how; one over its memory limit says so', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'exit', code: 3 });
  t.like(await scheduler.ended('j1'), { outcome: 'ATTEMPT_OUTCOME_WORKER_LOST', error: "the worker's process exited with code 3" });
  const small = await foreign(t, { memoryBytes: 200n * 1024n * 1024n });
  small.dispatch({ jobId: 'j1' }, { do: 'hog' });
  t.regex((await small.ended('j1')).error, /^memory limit exceeded: \d+ MiB resident, the limit is 200 MiB$/);
});

test.serial('an unhealthy ping of a worker that serves ends it with its words', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'unhealthy' });
  const lost = await scheduler.ended('j1');
  t.like(lost, { outcome: 'ATTEMPT_OUTCOME_WORKER_LOST', error: 'the worker reports that it is unhealthy: disk: full' });
});

test.serial('a worker writes no core files, and is taken before the agent when memory runs out', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'limits' });
  t.deepEqual(scheduler.valueOf((await scheduler.ended('j1')).output), [[0, 0], 500]);
});

test.serial('what left the group of its worker ends with it', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'daemon' });
  const pid = scheduler.valueOf((await scheduler.ended('j1')).output) as number;
  t.true(await isRunning(pid));
  scheduler.desire([], []);
  await scheduler.hear('workers', ({ workers }) => workers.length === 0);
  t.false(await isRunning(pid));
});

test.serial('what a stopped job started ends with it; what an earlier job left goes on', async (t) => {
  const scheduler = await foreign(t);
  scheduler.dispatch({ jobId: 'j1' }, { do: 'daemon' });
  const daemon = scheduler.valueOf((await scheduler.ended('j1')).output) as number;
  for (const jobId of ['j2', 'j3']) {
    const from = scheduler.now;
    scheduler.dispatch({ jobId }, { do: 'children' });
    const { data } = await scheduler.hear('progress', () => true, from);
    const children = scheduler.valueOf(data) as number[];
    for (const pid of children) t.true(await isRunning(pid));
    scheduler.send({ $case: 'stop', value: { jobId, token: 1, reason: 'STOP_REASON_CANCELLED' } });
    t.like(await scheduler.ended(jobId), { outcome: 'ATTEMPT_OUTCOME_STOPPED', started: true });
    for (const pid of children) t.false(await isRunning(pid));
  }
  t.true(await isRunning(daemon));
});

test.serial('a stranger is turned away before its body is read', async (t) => {
  const api = await WorkerApi.start({ host: '127.0.0.1', port: 0, log: pino({ level: 'silent' }) });
  t.teardown(() => api.close());
  const path = '/v2/ep1/job-done/worker/job';
  const status = await new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port: api.port, path, method: 'POST', headers: { 'content-length': 20_000_000 } });
    call.on('response', (response) => resolve(response.statusCode));
    call.on('error', reject);
    // The head alone: the body never comes.
    call.flushHeaders();
    t.teardown(() => call.destroy());
  });
  t.is(status, 401);
});

test.serial('a HEAD takes no job: its answer would have no room for one', async (t) => {
  const api = await WorkerApi.start({ host: '127.0.0.1', port: 0, log: pino({ level: 'silent' }) });
  t.teardown(() => api.close());
  const asked = (): never => t.fail('the mailbox was used');
  const { token } = api.admit('worker', 'ep1', { take: asked, stops: asked, post: asked, refuse: asked, chunk: asked, ping: asked });
  for (const call of ['job-take/worker', 'job-take-batch/worker', 'job-stop/worker', 'ping/worker']) {
    const answer = await fetch(`http://127.0.0.1:${api.port}/v2/ep1/${call}?gpu=x`, { method: 'HEAD', headers: { authorization: token } });
    t.is(answer.status, 404, call);
  }
});

/**
 * The public Python package `runpod` 1.12.0 as a worker, unmodified. Needs
 * Python and PyPI once; where they are not to be had, its tests are skipped and say why, and so is
 * the one in a container where no engine can be started. What it does is tested without the package
 * in test/agent/foreign-workers.test.ts.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import type { FakeScheduler } from '../agent/fake-scheduler.ts';
import { startAgent, startScheduler, startWorker } from '../agent/fixtures.ts';
import { processesOf } from '../support/processes.ts';
import { noEngine, startEngine, type PrivateEngine } from '../support/container/private-engine.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { runpodPackage } from './runpod-package.ts';

const installed = await runpodPackage();
const program = await readFile(join(import.meta.dirname, 'runpod_worker.py'), 'utf8');

const says = (title: string, body: (t: ExecutionContext) => Promise<void>): void => {
  if ('missing' in installed) {
    test.skip(`${title} (skipped: ${installed.missing})`, body);
    return;
  }
  test.serial(title, async (t) => {
    t.timeout(240_000, 'the worker');
    await body(t);
  });
};

async function workerOf(t: ExecutionContext, kind: string, more: Partial<ReleaseSpec> = {}): Promise<FakeScheduler> {
  const env = {
    PYTHONPATH: 'path' in installed ? installed.path : '',
    // They ask for memory, disk and a network that this host may lack.
    RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true',
  };
  const release = { runtime: 'process', functions: [], command: ['python3', 'worker.py', kind], env, ...more };
  const { scheduler } = await startWorker(t, { 'worker.py': program }, '', release, { workerPingMs: 1_000, spareHosts: 0 });
  return scheduler;
}

async function result(scheduler: FakeScheduler, jobId: string, input: object): Promise<[string, string, unknown]> {
  scheduler.dispatch({ jobId }, input);
  const ended = await scheduler.ended(jobId);
  return [ended.outcome.replace('ATTEMPT_OUTCOME_', ''), ended.error, scheduler.valueOf(ended.output)];
}

says('a plain handler: values, none, an empty object, errors, the trace of its job, progress', async (t) => {
  const scheduler = await workerOf(t, 'sync');
  t.deepEqual(await result(scheduler, 'j1', { n: 1 }), ['COMPLETED', '', { n: 1 }]);
  t.deepEqual(await result(scheduler, 'j2', { do: 'none' }), ['COMPLETED', '', null]);
  t.deepEqual(await result(scheduler, 'j3', { do: 'empty' }), ['COMPLETED', '', {}]);
  t.deepEqual(await result(scheduler, 'j4', { do: 'list' }), ['COMPLETED', '', [1, 2]]);
  t.deepEqual(await result(scheduler, 'j5', { do: 'error' }), ['FAILED', 'custom', { detail: 1 }]);
  const [outcome, error] = await result(scheduler, 'j6', { do: 'raise' });
  t.is(outcome, 'FAILED');
  t.like(JSON.parse(error), { error_type: "<class 'ValueError'>", error_message: 'no luck', worker_id: 'w1' });
  t.deepEqual(await result(scheduler, 'j7', { do: 'not json' }), [
    'FAILED',
    'the worker ended the job without a result; check that the handler returns JSON',
    undefined,
  ]);
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  scheduler.dispatch({ jobId: 'traced', trace: `${traceparent} vendor=1` }, { do: 'trace' });
  t.deepEqual(scheduler.valueOf((await scheduler.ended('traced')).output), { traceparent, tracestate: 'vendor=1' });
  scheduler.dispatch({ jobId: 'j8' }, { do: 'progress', seconds: 0.5 });
  t.deepEqual(scheduler.valueOf((await scheduler.hear('progress')).data), { percent: 50 });
  t.is((await scheduler.ended('j8')).outcome, 'ATTEMPT_OUTCOME_COMPLETED');
});

says('a handler that blocks is ended by force, and its worker comes back', async (t) => {
  const scheduler = await workerOf(t, 'sync');
  const from = scheduler.now;
  scheduler.dispatch({ jobId: 'j1', executionTimeoutMs: 200 }, { do: 'block' });
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_TIMED_OUT');
  const fresh = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_INITIALIZING', from);
  t.is(fresh.failures, 0);
});

says('an asynchronous handler with concurrency_modifier: jobs at once, one of them cancelled', async (t) => {
  const scheduler = await workerOf(t, 'async', { maxConcurrency: 3 });
  for (const jobId of ['j1', 'j2']) scheduler.dispatch({ jobId }, { do: 'sleep' });
  for (const jobId of ['j1', 'j2']) await scheduler.hear('started', (value) => value.jobId === jobId);
  t.deepEqual(await result(scheduler, 'j3', { n: 3 }), ['COMPLETED', '', { n: 3 }]);
  scheduler.send({ $case: 'stop', value: { jobId: 'j1', token: 1, reason: 'STOP_REASON_CANCELLED' } });
  t.is((await scheduler.ended('j1')).outcome, 'ATTEMPT_OUTCOME_STOPPED');
  t.deepEqual(await result(scheduler, 'j4', { n: 4 }), ['COMPLETED', '', { n: 4 }]);
  t.false(scheduler.heard.items.some(({ $case, value }) => $case === 'refused' || ($case === 'ended' && value.jobId === 'j2')));
});

says('a generator: each yield is a chunk; its error fails the job after them', async (t) => {
  const scheduler = await workerOf(t, 'generator');
  t.deepEqual(await result(scheduler, 'j1', { count: 50 }), ['COMPLETED', '', []]);
  const chunks = scheduler.heard.items.flatMap((event) => (event.$case === 'chunk' ? [scheduler.valueOf(event.value.data)] : []));
  t.deepEqual(
    chunks,
    [...Array(50).keys()].map((value) => ({ value })),
  );
  const [outcome, error] = await result(scheduler, 'j2', { count: 1, do: 'raise' });
  t.is(outcome, 'FAILED');
  t.regex(error, /^handler: midway/);
});

says('an asynchronous generator with return_aggregate_stream: chunks, and all of them as the result', async (t) => {
  const scheduler = await workerOf(t, 'aggregate');
  t.deepEqual(await result(scheduler, 'j1', { count: 3 }), ['COMPLETED', '', [0, 1, 2]]);
  t.is((await scheduler.hear('ended')).chunks, 3);
});

for (const [kind, input] of [
  ['sync', { do: 'refresh' }],
  ['refresh', { do: 'pid' }],
] as const) {
  says(`a worker that wants to be replaced is, at no cost: ${kind}`, async (t) => {
    const scheduler = await workerOf(t, kind);
    const from = scheduler.now;
    const [outcome, , value] = await result(scheduler, 'j1', input);
    t.is(outcome, 'COMPLETED');
    const fresh = await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_INITIALIZING', from);
    t.is(fresh.failures, 0);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', scheduler.now - 1);
    const [, , next] = await result(scheduler, 'j2', { do: 'pid' });
    t.notDeepEqual(next, value);
  });
}

says('a worker that is no longer wanted ends in order', async (t) => {
  const scheduler = await workerOf(t, 'sync');
  scheduler.desire([], []);
  await scheduler.hear('workers', ({ workers }) => workers.length === 0);
  t.pass();
});

/** As a user's container file would make it: the package, the program, and how that is started. */
async function makeImage(engine: PrivateEngine, packages: string, image: string): Promise<void> {
  const id = await engine.docker('create', 'capstan/base-python', 'python3');
  await engine.docker('cp', packages, `${id}:/packages`);
  await engine.docker('cp', join(import.meta.dirname, 'runpod_worker.py'), `${id}:/worker.py`);
  const settings = ['ENV PYTHONPATH=/packages', 'ENTRYPOINT ["python3", "/worker.py"]', 'CMD ["sync"]'];
  await engine.docker('commit', ...settings.flatMap((line) => ['--change', line]), id, image);
  await engine.docker('rm', id);
}

if (noEngine === undefined && 'path' in installed) {
  says('in a container of an image of its own: results, an end by force, and no container left', async (t) => {
    // Three copies of the package are written before the worker starts.
    t.timeout(100_000, 'the engine, its image and the worker');
    const engine = await startEngine(['capstan/base-python']);
    t.teardown(() => engine.stop());
    await makeImage(engine, installed.path, 'capstan-test/runpod:1');
    const scheduler = await startScheduler(t);
    const agent = await startAgent(t, scheduler, { containerSocket: engine.socket, workerPingMs: 1_000 });
    await scheduler.hello();
    const env = { RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true' };
    const release = { image: 'capstan-test/runpod:1', runtime: 'container', functions: [], buildDigest: '', env };
    scheduler.desire([{ runtime: 'container' }], [release]);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
    t.deepEqual(await result(scheduler, 'j1', { n: 1 }), ['COMPLETED', '', { n: 1 }]);
    t.deepEqual(await result(scheduler, 'j2', { do: 'error' }), ['FAILED', 'custom', { detail: 1 }]);
    const from = scheduler.now;
    scheduler.dispatch({ jobId: 'j3', executionTimeoutMs: 200 }, { do: 'block' });
    t.is((await scheduler.ended('j3')).outcome, 'ATTEMPT_OUTCOME_TIMED_OUT');
    t.is((await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_INITIALIZING', from)).failures, 0);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE', scheduler.now - 1);
    t.deepEqual(await result(scheduler, 'j4', { n: 4 }), ['COMPLETED', '', { n: 4 }]);
    await agent.close();
    t.is(await engine.docker('ps', '-aq'), '');
  });
} else {
  test.skip(`in a container (skipped: ${noEngine === undefined ? 'the package is missing' : `a container engine of its own ${noEngine}`})`, (t) =>
    t.pass());
}

says('through the whole stack: deployed by a command, called over HTTP, gone with its agent', async (t) => {
  const packages = 'path' in installed ? installed.path : '';
  const stack = await Stack.start({ CAPSTAN_SANDBOX_PATHS: packages });
  t.teardown(() => stack.close());
  const mark = `worker-${randomUUID()}`;
  const env = { PYTHONPATH: packages, RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: 'true', MARK: mark };
  const endpoint = (kind: string): object => ({ command: ['python3', 'worker.py', kind], workersMin: 0, workersMax: 1, env });
  const app = join(stack.scratch, 'app');
  await mkdir(app);
  await writeFile(join(app, 'worker.py'), program);
  await writeFile(
    join(app, 'tool_manifest.json'),
    JSON.stringify({ resources: { plain: endpoint('sync'), stream: endpoint('generator') } }),
  );
  const ids = await stack.deploy(app);
  const [plain, stream] = [ids.get('plain') ?? '', ids.get('stream') ?? ''];
  t.like(await stack.ended(plain, await stack.run(plain, { n: 1 })), { status: 'COMPLETED', output: { n: 1 } });
  t.like(await stack.ended(plain, await stack.run(plain, { do: 'error' })), { status: 'FAILED', error: 'custom', output: { detail: 1 } });
  const job = await stack.run(stream, { count: 3 });
  const chunks: unknown[] = [];
  for (let status = ''; status !== 'COMPLETED';) {
    const answer = (await (await stack.call(`/v2/${stream}/stream/${job}`)).json()) as {
      status: string;
      stream: readonly { output: unknown }[];
    };
    ({ status } = answer);
    chunks.push(...answer.stream.map(({ output }) => output));
  }
  t.deepEqual(chunks, [{ value: 0 }, { value: 1 }, { value: 2 }]);
  // Pids inside a sandbox are not those of the host.
  const before = processesOf(mark).map(({ pid }) => pid);
  t.true(before.length > 0);
  stack.signal('agent', 'SIGKILL');
  await until('the worker has ended with its agent', () => !processesOf(mark).some(({ pid }) => before.includes(pid)));
  t.like(await stack.ended(plain, await stack.run(plain, { n: 2 })), { status: 'COMPLETED', output: { n: 2 } });
});

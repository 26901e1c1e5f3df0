/** The queue of `capstan run`: the cores of scheduler and agent, and real workers whose code the test changes. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { LocalWorkers, type LocalWorker } from '../../agent/local-workers.ts';
import { openDevQueue, type DevQueue, type QueueEndpoint } from '../../devserver/queue.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';
import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';

const SOURCES = {
  'preload.mjs': '',
  // A job ends when its file is there.
  'first.mjs': `import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
export async function f({ file }, ctx) {
  await ctx.progress({ at: file });
  while (!existsSync(file)) await sleep(5);
  return 'first';
}`,
  'second.mjs': `export const f = () => 'second';`,
  'broken.mjs': `throw new Error('does not load');`,
  'throwing.mjs': `export const f = () => { throw new Error('no luck'); };`,
};

/** A queue with one endpoint, whose module the test chooses. */
class World {
  readonly reports: string[] = [];
  isDebugged = false;
  /** How often the queue looked whether it is. */
  looks = 0;
  queue!: DevQueue;
  readonly folder: string;
  readonly workers: LocalWorkers;
  #module = 'first.mjs';
  #worker: LocalWorker | undefined;
  #next = 1;

  private constructor(folder: string, workers: LocalWorkers) {
    this.folder = folder;
    this.workers = workers;
  }

  static async open(t: ExecutionContext): Promise<World> {
    const folder = await folderOf(t, SOURCES);
    const workers = await LocalWorkers.open({ folder, own: join(folder, '.tool'), onLog: () => undefined });
    workers.configure({ env: {}, python: 'python3', preload: { python: [], node: join(folder, 'preload.mjs') } });
    const world = new World(folder, workers);
    world.queue = await openDevQueue({
      workerOf: () => world.worker(),
      onProgress: (endpoint, text) => world.reports.push(`progress of ${endpoint}: ${text}`),
      onFailed: (endpoint, job, error) => world.reports.push(`${endpoint} ${job} ${error}`),
      onWebhook: (job) => world.reports.push(`webhook of ${job}`),
      isDebugged() {
        world.looks += 1;
        return world.isDebugged;
      },
      bodyBytes: 1_000_000,
      onFault: (message) => t.fail(message),
    });
    t.teardown(async () => {
      await world.queue.close();
      await workers.close();
    });
    return world;
  }

  worker(): LocalWorker {
    if (this.#worker === undefined || this.#worker.isOver)
      this.#worker = this.workers.start({
        ...{ name: 'e', language: 'node', folder: this.folder, command: [], env: {}, servesHttp: false, maxConcurrency: 1 },
        functions: [{ name: 'f', module: this.#module, callStyle: CallStyle.WHOLE, parameters: [] }],
      });
    return this.#worker;
  }

  /** The project was read: the endpoint's code is this module. */
  deploy(module: string, more: Partial<QueueEndpoint> = {}): void {
    this.#module = module;
    this.#worker?.retire();
    this.#worker = undefined;
    this.queue.deploy([{ name: 'e', maxConcurrency: 1, executionTimeoutMs: 0, isBroken: false, ...more }]);
  }

  /** Returns the job as it is after `waitMs` at most. */
  submit(input: object = {}, more: Partial<Submit> = {}, endpoint = 'e'): Promise<Job> {
    const value: Submit = {
      jobId: `job-${this.#next++}`,
      kind: JobKind.RUN,
      input: { body: { $case: 'inline', value: Buffer.from(JSON.stringify(input)) } },
      ...{ webhook: '', policy: undefined, s3Config: undefined, idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 },
      ...more,
    };
    return this.#request({ $case: 'submit', value }, endpoint);
  }

  end({ id }: Job): Promise<Job> {
    return this.#request({ $case: 'get', value: { jobId: id, waitMs: 60_000 } });
  }

  async is(job: Job, state: JobState): Promise<void> {
    await until(
      `${job.id} is ${state}`,
      async () => (await this.#request({ $case: 'get', value: { jobId: job.id, waitMs: 0 } })).state === state,
    );
  }

  #request(operation: Parameters<DevQueue['channel']['request']>[0]['operation'], endpointId = 'e'): Promise<Job> {
    return new Promise((resolve, reject) => {
      this.queue.channel.request({ endpointId, operation, held: null }, (error, answer) => {
        if (answer !== null && 'job' in answer) resolve(answer.job);
        else reject(error ?? new Error('another reply'));
      });
    });
  }
}

function outputOf({ output }: Job): unknown {
  return output?.body?.$case === 'inline' ? JSON.parse(output.body.value.toString()) : undefined;
}

test('a change: the running job ends on the old code, the queued one starts on the new code at once', async (t) => {
  const world = await World.open(t);
  world.deploy('first.mjs');
  const file = join(world.folder, 'go');
  const running = await world.submit({ file });
  await world.is(running, JobState.IN_PROGRESS);
  const queued = await world.submit({ file });
  t.is(queued.state, JobState.IN_QUEUE);
  world.deploy('second.mjs');
  t.is(outputOf(await world.end(queued)), 'second');
  await world.is(running, JobState.IN_PROGRESS);
  await writeFile(file, '');
  t.is(outputOf(await world.end(running)), 'first');
  t.true(world.reports.includes(`progress of e: ${JSON.stringify({ at: file })}`));
});

test('a file that does not load fails its jobs with the reason; the next job loads it again', async (t) => {
  const world = await World.open(t);
  world.deploy('broken.mjs');
  for (const _each of [1, 2]) {
    const job = await world.end(await world.submit());
    t.is(job.state, JobState.FAILED);
    t.regex(job.error ?? '', /does not load/);
  }
  await writeFile(join(world.folder, 'broken.mjs'), SOURCES['second.mjs']);
  t.is(outputOf(await world.end(await world.submit())), 'second');
});

test('jobs of an endpoint whose file cannot be read wait for it; those of a deleted one are cancelled', async (t) => {
  const world = await World.open(t);
  world.deploy('second.mjs', { isBroken: true });
  const waiting = await world.submit();
  await world.is(waiting, JobState.IN_QUEUE);
  world.deploy('second.mjs');
  t.is(outputOf(await world.end(waiting)), 'second');
  world.deploy('second.mjs', { isBroken: true });
  const lost = await world.submit();
  const end = world.end(lost);
  world.queue.deploy([]);
  t.like(await end, { state: JobState.CANCELLED, error: 'the endpoint was deleted' });
  await t.throwsAsync(world.submit(), { message: 'endpoint e does not exist' });
});

test('an endpoint whose name has the form of an id has a queue, and so have those beside it', async (t) => {
  const world = await World.open(t);
  world.deploy('second.mjs');
  const common = { maxConcurrency: 1, executionTimeoutMs: 0, isBroken: false };
  world.queue.deploy([
    { name: 'e', ...common },
    { name: 'wordcounter001', ...common },
  ]);
  t.is(outputOf(await world.submit({}, { waitMs: 60_000 }, 'wordcounter001')), 'second');
  t.is(outputOf(await world.submit({}, { waitMs: 60_000 })), 'second');
});

test('bodies of jobs have a limit; a job that would exceed it is refused', async (t) => {
  const world = await World.open(t);
  world.deploy('second.mjs');
  await t.throwsAsync(world.submit({ text: 'x'.repeat(1_000_000) }), { code: 'QUOTA_EXCEEDED' });
  t.is(outputOf(await world.submit({}, { waitMs: 60_000 })), 'second');
});

test('executionTimeout does not count while a debugger holds the endpoint', async (t) => {
  const world = await World.open(t);
  world.isDebugged = true;
  world.deploy('first.mjs', { executionTimeoutMs: 20 });
  const first = join(world.folder, 'first');
  const held = await world.submit({ file: first });
  await world.is(held, JobState.IN_PROGRESS);
  await until('its limit has passed again and again', () => world.looks >= 5);
  await writeFile(first, '');
  t.is(outputOf(await world.end(held)), 'first');
  world.isDebugged = false;
  const late = await world.end(await world.submit({ file: join(world.folder, 'never') }));
  t.like(late, { state: JobState.TIMED_OUT, error: 'executionTimeout exceeded' });
  t.true(world.reports.some((report) => report.endsWith('TIMED_OUT: executionTimeout exceeded')));
});

test('a failed job is told of, and one with a webhook; an Idempotency-Key returns the first job', async (t) => {
  const world = await World.open(t);
  world.deploy('throwing.mjs');
  const key = { idempotencyKey: 'k', bodyHash: Buffer.from('b'), webhook: 'http://127.0.0.1:9/hook' };
  const job = await world.end(await world.submit({}, key));
  t.like(job, { state: JobState.FAILED, error: 'no luck' });
  t.true(world.reports.includes(`e ${job.id} FAILED: no luck`));
  t.true(world.reports.includes(`webhook of ${job.id}`));
  t.is((await world.submit({}, key)).id, job.id);
  await t.throwsAsync(world.submit({}, { ...key, bodyHash: Buffer.from('c') }), { code: 'IDEMPOTENCY_MISMATCH' });
});

test('closing ends what runs, and no process is left', async (t) => {
  const world = await World.open(t);
  world.deploy('first.mjs');
  const running = await world.submit({ file: join(world.folder, 'never') });
  await world.is(running, JobState.IN_PROGRESS);
  await world.queue.close();
  await world.workers.close();
  t.deepEqual(processesOf(world.folder), []);
});

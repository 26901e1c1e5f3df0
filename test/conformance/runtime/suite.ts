/**
 * What every runtime must do alike (agent/runtimes/runtime.ts). A runtime joins by calling
 * {@link runtimeConformance} with its name and a way to make it.
 */
import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';

import test, { type ExecutionContext } from 'ava';

import type { Runtime, WorkerStart } from '../../../agent/runtimes/runtime.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import { processesOf } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import { javascript, type Language } from './languages.ts';
import { startWorkerOf, WINDOW, type TestWorker } from './worker-under-test.ts';
import { folderOf } from '../../support/folder.ts';

type MakeRuntime = (t: ExecutionContext) => Runtime | Promise<Runtime>;

export interface SuiteOptions {
  /** Cases at a time, where each costs the machine much. */
  readonly atOnce?: number;
  /** Leaves out what the language's host does by itself: another suite runs the same host. */
  readonly withoutHost?: boolean;
}

export function runtimeConformance(
  name: string,
  makeRuntime: MakeRuntime,
  language: Language = javascript,
  { atOnce = Infinity, withoutHost = false }: SuiteOptions = {},
): void {
  const { build, broken, typed, missing: nowhere, noJson, strayErrorEnds } = language;
  const workerOf = async (t: ExecutionContext, fn: string, more: Partial<WorkerStart> = {}): Promise<TestWorker> => {
    const folder = await folderOf(t, build);
    const runtime = await makeRuntime(t);
    t.teardown(() => runtime.close());
    const worker = startWorkerOf(runtime, folder, fn, more);
    await worker.hear('loaded');
    return worker;
  };
  const turn = new Turns(atOnce);
  const says = (title: string, body: (t: ExecutionContext) => Promise<void>): void => {
    test(`${name}: ${title}`, async (t) => {
      await turn.take();
      try {
        await body(t);
      } finally {
        turn.give();
      }
    });
  };
  /** A case of the language's host, whatever it runs in. */
  const hostSays: typeof says = (title, body) => {
    if (!withoutHost) says(title, body);
  };

  says('a worker starts, loads, and serves one task after another', async (t) => {
    const worker = await workerOf(t, 'add');
    t.like(await worker.call('1', { a: 1, b: 2 }), { result: { kind: 'returned' }, value: 3 });
    t.like(await worker.call('2', { a: 3, b: 4 }), { value: 7 });
    const order = worker.said.items.map(({ say }) => say).filter((say) => say !== 'log');
    t.deepEqual(order, ['started', 'loaded', 'entered', 'ended', 'entered', 'ended']);
  });

  if (typed !== undefined)
    hostSays('TypeScript runs as it is, with enums and parameter properties', async (t) => {
      const worker = await workerOf(t, 'measured', { folder: await folderOf(t, typed) });
      t.is((await worker.call('1', { name: 'way', n: 3 })).value, 'way 3 m');
    });

  hostSays('asynchronous values, and none at all', async (t) => {
    const later = await workerOf(t, 'later');
    t.deepEqual((await later.call('1', { value: { deep: [1, 'zwei', null] } })).value, { deep: [1, 'zwei', null] });
    const nothing = await workerOf(t, 'nothing');
    t.is((await nothing.call('1')).value, null);
  });

  hostSays("an error is the function's own message, whatever was thrown", async (t) => {
    for (const [fn, input, error] of [
      ['fails', { message: 'no luck' }, 'no luck'],
      ['throwsText', {}, 'plain text'],
      ['throwsObject', {}, '{"code":7}'],
      ['rejects', {}, 'rejected'],
    ] as const) {
      const worker = await workerOf(t, fn);
      t.like((await worker.call('1', input)).result, { kind: 'failed', error });
    }
  });

  says('the stack of an error is in the log of its job', async (t) => {
    const worker = await workerOf(t, 'fails');
    await worker.call('1', { message: 'look here' });
    const line = await worker.hear('log', ({ text }) => text.includes('look here'));
    t.is(line.jobId, 'job-1');
    t.is(line.stream, 'stderr');
  });

  hostSays('a key too few or too many is told by name', async (t) => {
    const worker = await workerOf(t, 'add');
    t.like((await worker.call('1', { a: 1 })).result, { kind: 'failed', error: 'missing argument: b' });
    t.like((await worker.call('2', { a: 1, b: 2, c: 3 })).result, {
      kind: 'failed',
      error: 'unknown argument: c (the function takes: a, b)',
    });
  });

  says('a value of another type is told by name, before the function is called', async (t) => {
    const types = { text: 'string', count: 'integer', ratio: 'number', flag: 'boolean', list: 'array', more: 'object' };
    const parameters = Object.entries(types).map(([key, type], index) => ({ name: key, required: index < 2, type }));
    const worker = await workerOf(t, 'typed', {
      functions: [{ name: 'typed', module: 'main', parameters, callStyle: 'CALL_STYLE_POSITIONAL' }],
    });
    const good = { text: 'a', count: 2 };
    t.deepEqual((await worker.call('0', good)).value, ['a', 2, 0.5, false, [], {}]);
    const all = { text: '', count: 3.0, ratio: 1, flag: true, list: [1], more: { a: 1 } };
    t.deepEqual((await worker.call('1', all)).value, Object.values(all));
    const refused: readonly [object, string][] = [
      [{ text: 1 }, 'text: must be a string'],
      [{ text: null }, 'text: must be a string'],
      [{ count: '2' }, 'count: must be an integer'],
      [{ count: 1.5 }, 'count: must be an integer'],
      [{ count: true }, 'count: must be an integer'],
      [{ ratio: 'x' }, 'ratio: must be a number'],
      [{ flag: 1 }, 'flag: must be a boolean'],
      [{ list: {} }, 'list: must be an array'],
      [{ more: [] }, 'more: must be an object'],
    ];
    for (const [index, [more, error]] of refused.entries())
      t.like((await worker.call(`r${index}`, { ...good, ...more })).result, { kind: 'failed', error });
    t.is((await worker.call('null', { ...good, list: null, more: null })).result.kind, 'returned', 'null need not be given');
  });

  hostSays('what is no JSON fails with a plain message', async (t) => {
    const big = await workerOf(t, 'big');
    t.like((await big.call('1')).result, { kind: 'failed', error: `the result is not JSON: ${noJson.big}` });
    const cycle = await workerOf(t, 'cycle');
    t.like((await cycle.call('1')).result, { kind: 'failed', error: `the result is not JSON: ${noJson.cycle}` });
  });

  says('a result has at most 20 MiB, a chunk at most 1 MiB', async (t) => {
    const large = await workerOf(t, 'large');
    const limit = 20 * 1024 * 1024;
    t.is(((await large.call('1', { bytes: limit - 2 })).value as string).length, limit - 2);
    const { result } = await large.call('2', { bytes: limit - 1 });
    t.like(result, { kind: 'failed', error: `the result has ${limit + 1} bytes; at most 20 MiB are allowed` });
    const chunk = await workerOf(t, 'largeChunk');
    const failed = (await chunk.call('1', { bytes: 1024 * 1024 })).result;
    t.like(failed, { kind: 'failed', error: `a chunk has ${1024 * 1024 + 2} bytes; at most 1 MiB is allowed` });
  });

  hostSays('each yield is a chunk, in order; the result is the array of all', async (t) => {
    for (const [fn, chunks] of [
      ['count', [0, 1, 2]],
      ['countLater', [{ i: 0 }, { i: 1 }, { i: 2 }]],
    ] as const) {
      const worker = await workerOf(t, fn);
      t.deepEqual((await worker.call('1', { to: 3 })).value, chunks);
      const seen = worker.said.items.flatMap((said) => (said.say === 'chunk' ? [said.value] : []));
      t.deepEqual(seen, [...chunks]);
    }
    const none = await workerOf(t, 'count');
    t.deepEqual((await none.call('1', { to: 0 })).value, []);
  });

  hostSays('a generator that fails midway fails the job, after its chunks', async (t) => {
    const worker = await workerOf(t, 'failsMidway');
    t.like((await worker.call('1')).result, { kind: 'failed', error: 'midway' });
    t.is((await worker.hear('chunk')).value, 'first');
  });

  says('a generator is no further ahead than its credits', async (t) => {
    const folder = await folderOf(t, build);
    const runtime = await makeRuntime(t);
    t.teardown(() => runtime.close());
    const total = WINDOW * 3;
    const seen: number[] = [];
    const window = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    const ready = Promise.withResolvers<void>();
    const quiet = (): void => undefined;
    const worker = runtime.start(
      {
        workerId: 'w',
        endpointId: 'e',
        folder,
        workFolder: '',
        functions: [{ name: 'count', module: 'main', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' }],
        env: {},
        deviceUuids: [],
        maxConcurrency: 2,
        memoryBytes: 0,
        cpuMillis: 0,
        image: '',
        command: [],
      },
      {
        preparing: quiet,
        waiting: quiet,
        startFailed: quiet,
        started: quiet,
        loaded: ready.resolve,
        loadFailed: quiet,
        entered: quiet,
        progress: quiet,
        reloading: quiet,
        reachable: quiet,
        violation: quiet,
        log: quiet,
        exited: quiet,
        chunk: (key, data) => {
          if (key === 'paused') seen.push(Number(data.toString()));
          if (seen.length === WINDOW) window.resolve();
        },
        ended: (key) => {
          if (key === 'paused') end.resolve();
          else worker.credit('paused', total);
        },
      },
    );
    await ready.promise;
    worker.run({ key: 'paused', jobId: 'j', input: Buffer.from(JSON.stringify({ to: total })), attempt: 1, s3Config: undefined });
    await window.promise;
    // Another task from start to end: had the first one more to send, it would have come before.
    worker.run({ key: 'other', jobId: 'k', input: Buffer.from('{"to":1}'), attempt: 1, s3Config: undefined });
    await end.promise;
    t.deepEqual(seen, [...Array(total).keys()]);
  });

  hostSays('the context: job, endpoint, attempt, s3Config, signal', async (t) => {
    const worker = await workerOf(t, 'context');
    const s3Config = { accessId: 'id', accessSecret: 'secret', bucketName: 'bucket', endpointUrl: 'https://storage.test' };
    worker.run('1', {}, { attempt: 2, s3Config: { ...s3Config, more: '{"region":"eu"}', json: '' } });
    const s3 = { ...s3Config, region: 'eu' };
    t.deepEqual((await worker.ended('1')).value, { jobId: 'job-1', endpointId: 'endpoint-1', attempt: 2, s3, aborted: false });
    t.is(((await worker.call('2')).value as { s3: unknown }).s3, null);
  });

  hostSays('progress is told while the handler runs', async (t) => {
    const worker = await workerOf(t, 'progress');
    worker.run('1', {});
    t.deepEqual((await worker.hear('progress')).value, { percent: 50 });
    t.is((await worker.ended('1')).value, 'done');
  });

  says('what a handler prints are lines of its job', async (t) => {
    const worker = await workerOf(t, 'prints');
    await worker.call('1', { text: 'one\ntwo' });
    const lines = worker.said.items.flatMap((said) =>
      said.say === 'log' ? [{ stream: said.stream, jobId: said.jobId, text: said.text }] : [],
    );
    t.deepEqual(lines, [
      { stream: 'stdout', jobId: 'job-1', text: 'one' },
      { stream: 'stdout', jobId: 'job-1', text: 'two' },
      { stream: 'stderr', jobId: 'job-1', text: 'err one' },
      { stream: 'stderr', jobId: 'job-1', text: 'two' },
    ]);
  });

  says("the environment: the release's values, the worker's names, its devices; nothing of the agent's", async (t) => {
    const more = { env: { SETTING: 'value', CAPSTAN_WORKER_ID: 'not this' }, deviceUuids: ['GPU-1', 'GPU-2'] };
    const worker = await workerOf(t, 'environment', more);
    const names = ['SETTING', 'CAPSTAN_WORKER_ID', 'CAPSTAN_ENDPOINT_ID', 'CUDA_VISIBLE_DEVICES', 'CAPSTAN_JOIN_TOKEN', 'SERVICE_API_KEY'];
    t.deepEqual((await worker.call('1', { names })).value, ['value', 'worker-1', 'endpoint-1', 'GPU-1,GPU-2', null, null]);
    const plain = await workerOf(t, 'environment');
    t.deepEqual((await plain.call('1', { names: ['CUDA_VISIBLE_DEVICES'] })).value, ['']);
  });

  says('the working folder is its own: it holds the build under its names, and what is written there stays out of the build', async (t) => {
    const folder = await folderOf(t, { ...build, 'data.json': '[1,2]', 'deep/table.txt': 'rows' });
    const before = await readdir(folder, { recursive: true });
    const worker = await workerOf(t, 'scratch', { folder, workFolder: await folderOf(t) });
    t.deepEqual((await worker.call('1')).value, ['[1,2]', 'rows', 'written', 'beside']);
    const after = await readdir(folder, { recursive: true });
    const ours = (names: readonly string[]): string[] => names.filter((name) => !name.includes('__pycache__')).sort();
    t.deepEqual(ours(after), ours(before));
  });

  hostSays('the module is loaded once for all tasks', async (t) => {
    const worker = await workerOf(t, 'counter', { maxConcurrency: 4 });
    const values = await Promise.all(['1', '2', '3', '4'].map(async (key) => (await worker.call(key)).value));
    t.deepEqual(
      values.map(Number).sort((a, b) => a - b),
      [1, 2, 3, 4],
    );
  });

  says('tasks run at once when the worker may', async (t) => {
    const worker = await workerOf(t, 'waits', { maxConcurrency: 2 });
    worker.run('1', { gate: 'a' });
    worker.run('2', { gate: 'b' });
    await worker.hear('entered', ({ key }) => key === '1');
    await worker.hear('entered', ({ key }) => key === '2');
    t.is(worker.said.items.filter(({ say }) => say === 'ended').length, 0);
  });

  says('a cancelled handler that obeys its signal stops, and the worker serves on', async (t) => {
    const worker = await workerOf(t, 'obedient');
    worker.run('1', {});
    await worker.hear('entered');
    worker.worker.cancel('1');
    t.is((await worker.ended('1')).result.kind, 'stopped');
    t.false(worker.said.items.some(({ say }) => say === 'reloading' || say === 'exited'));
    worker.run('2', {});
    await worker.hear('entered', ({ key }) => key === '2');
  });

  says('a task cancelled in the moment it comes ends, and costs its neighbours nothing', async (t) => {
    const worker = await workerOf(t, 'obedient', { maxConcurrency: 2 });
    for (let round = 0; round < 20; round += 1) {
      const key = String(round);
      worker.run(key, {});
      worker.worker.cancel(key);
      t.is((await worker.ended(key)).result.kind, 'stopped');
    }
    t.false(worker.said.items.some(({ say }) => say === 'reloading' || say === 'exited'));
  });

  hostSays('a class makes one instance for all tasks, and the key method chooses among its public methods', async (t) => {
    const worker = await workerOf(t, 'Counter');
    t.deepEqual((await worker.call('1', { method: 'add', by: 2 })).value, { total: 2, made: 1 });
    t.deepEqual((await worker.call('2', { method: 'add', by: 3 })).value, { total: 5, made: 1 });
    t.deepEqual((await worker.call('3', { method: 'later', by: 1 })).value, [1, 'job-3']);
    t.deepEqual((await worker.call('4', { method: 'chunks', to: 2 })).value, [0, 1]);
    t.is(worker.said.items.filter(({ say }) => say === 'chunk').length, 2);
    for (const [key, input, error] of [
      ['5', { by: 1 }, /^missing argument: method \(one of: add, /],
      ['6', { method: '_hidden' }, /^unknown method: _hidden \(the class Counter has: add, /],
      ['7', { method: 'add' }, /^missing argument: by$/],
      ['8', { method: 'add', by: 1, more: 2 }, /^unknown argument: more \(the function takes: by\)$/],
      ['9', { method: 7 }, /^unknown method: 7 /],
    ] as const) {
      const { result } = await worker.call(key, input);
      t.is(result.kind, 'failed');
      t.regex(result.kind === 'failed' ? result.error : '', error);
    }
  });

  hostSays('of a class with one public method the input is its own; the key method may name it', async (t) => {
    const worker = await workerOf(t, 'Sole');
    t.is((await worker.call('1', { name: 'one' })).value, 'sole one');
    t.is((await worker.call('2', { method: 'greet', name: 'two' })).value, 'sole two');
    t.like((await worker.call('3', { method: 'other', name: 'x' })).result, {
      kind: 'failed',
      error: 'unknown argument: method (the function takes: name)',
    });
  });

  hostSays('a class that cannot be made, or has no public method, says so', async (t) => {
    const folder = await folderOf(t, build);
    const runtime = await makeRuntime(t);
    t.teardown(() => runtime.close());
    t.regex((await startWorkerOf(runtime, folder, 'Unmade').hear('load-failed')).detail, /cannot be made/);
    t.regex((await startWorkerOf(runtime, folder, 'Hidden').hear('load-failed')).detail, /the class Hidden has no public method/);
  });

  for (const fn of ['deaf', 'busy', 'stuck', 'endless']) {
    says(`a cancelled handler that does not obey is stopped by force: ${fn}`, async (t) => {
      const worker = await workerOf(t, fn);
      worker.run('1', {});
      await worker.hear('entered');
      worker.worker.cancel('1');
      const over = await worker.said.next((said) => said.say === 'ended' || said.say === 'reloading' || said.say === 'exited');
      if (over.say === 'ended') t.is(over.result.kind, 'stopped');
      else if (over.say === 'exited') t.true(over.hardStop);
      else await worker.hear('loaded', undefined, worker.said.items.indexOf(over));
      t.pass();
    });
  }

  says('a worker whose process ends says how', async (t) => {
    const exits = await workerOf(t, 'exits');
    exits.run('1', { code: 3 });
    const exited = await exits.hear('exited');
    t.regex(exited.detail, /code 3/);
    t.false(exited.hardStop);
    const crashes = await workerOf(t, 'crashes');
    crashes.run('1', {});
    t.regex((await crashes.hear('exited')).detail, /SIGKILL/);
    // Its first act ended the process; that it was entered is known all the same, so that the attempt counts.
    t.deepEqual(
      crashes.said.items.map(({ say }) => say).filter((say) => say === 'entered' || say === 'exited'),
      ['entered', 'exited'],
    );
    if (!strayErrorEnds) {
      t.log('an error that nothing catches ends no process in this language');
      return;
    }
    const stray = await workerOf(t, 'stray');
    stray.run('1', {});
    t.regex((await stray.hear('exited')).detail, /stray error/);
  });

  says('a worker over its memory limit is killed, and says so', async (t) => {
    const worker = await workerOf(t, 'hogs', { memoryBytes: 300 * 1024 * 1024 });
    worker.run('1', {});
    t.regex((await worker.hear('exited')).detail, /^memory limit exceeded: .*, the limit is 300 MiB$/);
  });

  says('a module that cannot be loaded says why', async (t) => {
    const folder = await folderOf(t, broken);
    const runtime = await makeRuntime(t);
    t.teardown(() => runtime.close());
    t.regex((await startWorkerOf(runtime, folder, 'fn').hear('load-failed')).detail, /cannot start/);
    const spec: Omit<FunctionSpec, 'module'> = { name: 'fn', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' };
    const missing = startWorkerOf(runtime, folder, 'fn', { functions: [{ ...spec, module: nowhere }] });
    t.regex((await missing.hear('load-failed')).detail, /nowhere/);
    const other = startWorkerOf(runtime, folder, 'fn', { functions: [{ ...spec, module: 'other' }] });
    t.regex((await other.hear('load-failed')).detail, /no function fn/);
  });

  says('an ended worker is gone with everything it started', async (t) => {
    const mark = `CAPSTAN_TEST_MARK=${randomUUID()}`;
    const worker = await workerOf(t, 'child', { env: { CAPSTAN_TEST_MARK: mark.split('=')[1]! } });
    t.like(await worker.call('1'), { result: { kind: 'returned' } });
    // By its environment: a container's processes have other numbers here than they know of. Its
    // parent goes on a moment before the kernel shows it.
    await until('its child is seen', () => processesOf(mark).length > 0);
    worker.worker.end(false);
    await worker.hear('exited');
    t.deepEqual(processesOf(mark), []);
  });
}

/** Lets so many in at a time, in order. */
class Turns {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async take(): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

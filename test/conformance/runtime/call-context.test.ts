/**
 * What a call sees of the calls before it and beside it: nothing. Context variables of Python and AsyncLocalStorage of
 * Node, time-outs and task groups over the yields of a generator, the first chunk, and the place of `ctx`.
 */
import test, { type ExecutionContext } from 'ava';

import type { Runtime, WorkerStart } from '../../../agent/runtimes/runtime.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../../support/folder.ts';
import { processRuntime, threadRuntime } from './hosts.ts';
import { answered, ask } from './http-suite.ts';
import { startWorkerOf, type TestWorker } from './worker-under-test.ts';

const PYTHON = `
import asyncio, contextvars, threading

asynchronous_timeout = getattr(asyncio, "timeout", None)
v = contextvars.ContextVar("v", default=None)
base = contextvars.ContextVar("base", default=None)
base.set("module")
barrier = threading.Barrier(2)

def f(u):
    before = v.get()
    v.set(u)
    return [before, base.get()]
def f_together(u):
    before = v.get()
    v.set(u)
    barrier.wait(30)
    return [before, base.get(), v.get() == u]
async def f_async(u):
    before = v.get()
    v.set(u)
    await asyncio.sleep(0)
    return [before, base.get()]
def generator(u):
    before = v.get()
    v.set(u)
    yield [before, base.get()]
    yield v.get()
async def generator_async(u):
    before = v.get()
    v.set(u)
    yield [before, base.get()]
    await asyncio.sleep(0)
    yield v.get()
async def returns_generator(u):
    before = v.get()
    v.set(u)
    async def inner():
        yield [before, base.get()]
        yield v.get()
    return inner()
class Methods:
    def one(self, u): return f(u)
    def two(self, u): return generator(u)
def stops():
    yield None
    yield "a"
async def stops_async():
    yield None
    yield "a"
async def late():
    async with asynchronous_timeout(0.2):
        for i in range(1000):
            yield i
            await asyncio.sleep(0.02)
async def late_unread():
    # More than fits in what a caller that does not read is granted.
    try:
        async with asynchronous_timeout(0.2):
            while True:
                yield "x" * 65536
    except TimeoutError:
        print("closed TimeoutError")
        raise
async def caught():
    try:
        async with asynchronous_timeout(0.1):
            while True:
                yield "tick"
                await asyncio.sleep(0.02)
    except TimeoutError:
        yield "late"
async def group():
    async def fails():
        await asyncio.sleep(0.05)
        raise ValueError("of the group")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fails())
        while True:
            yield "tick"
            await asyncio.sleep(0.02)
async def cleans():
    try:
        while True:
            yield "x"
            await asyncio.sleep(0.001)
    finally:
        print("closed", asyncio.current_task() is not None)
def socket(websocket):
    before = v.get()
    v.set("set")
    websocket.send([before, base.get()])
def ctx_first(ctx, u): return [bool(ctx.endpoint_id), u]
def ctx_middle(a, ctx, b=2): return [a, bool(ctx.endpoint_id), b]
def ctx_only_positional(a, ctx, b=2, /, c=3): return [a, bool(ctx.endpoint_id), b, c]
def ctx_keyword(*, ctx, u): return [bool(ctx.endpoint_id), u]
def ctx_whole(ctx, input): return [bool(ctx.endpoint_id), input]
def ctx_plain(ctx: str, u): return [ctx, u]
def context_first(context, question): return [context, question]
def any_keys(ctx, **more): return [bool(ctx.endpoint_id), more]
`;

const TYPESCRIPT = `
import { AsyncLocalStorage } from 'node:async_hooks';
const v = new AsyncLocalStorage();
export function f(u) {
  const before = v.getStore() ?? null;
  v.enterWith(u);
  return before;
}
export async function f_async(u) {
  const before = v.getStore() ?? null;
  v.enterWith(u);
  await new Promise((resolve) => setTimeout(resolve, 1));
  v.enterWith(u);
  return before;
}
export function* generator(u) {
  const before = v.getStore() ?? null;
  v.enterWith(u);
  yield before;
  yield v.getStore() ?? null;
}
export async function* generator_async(u) {
  const before = v.getStore() ?? null;
  v.enterWith(u);
  yield before;
  await null;
  yield v.getStore() ?? null;
}
export class Methods {
  one(u) { return f(u); }
  two(u) { return generator(u); }
}
export function* stops() { yield null; yield 'a'; }
export async function* stops_async() { yield undefined; yield 'a'; }
export const ctx_first = (ctx, u) => [Boolean(ctx.endpointId), u];
export function ctx_middle(a, ctx, b = 2) { return [a, Boolean(ctx.endpointId), b]; }
export async function ctx_whole(ctx, input) { return [Boolean(ctx.endpointId), input]; }
export function ctx_object(ctx, { a, b = 2 }) { return [Boolean(ctx.endpointId), a, b]; }
export function context_first(context, question) { return [context, question]; }
`;

interface Language {
  readonly name: string;
  readonly file: string;
  readonly source: string;
  readonly make: () => Runtime;
  /** What the module set, which every call sees, as a suffix of the values that tell it. */
  readonly seen: (before: unknown) => unknown;
}

const languages: readonly Language[] = [
  { name: 'python', file: 'main.py', source: PYTHON, make: () => processRuntime(), seen: (before) => [before, 'module'] },
  { name: 'thread', file: 'main.js', source: TYPESCRIPT, make: () => threadRuntime(), seen: (before) => before },
  { name: 'node', file: 'main.js', source: TYPESCRIPT, make: () => processRuntime(), seen: (before) => before },
];

/** What a build tells of a function that it could not read. */
const unread = (name: string): FunctionSpec => ({ name, module: 'main', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' });

async function workerOf(t: ExecutionContext, { make, file, source }: Language, fn: string, more: Partial<WorkerStart> = {}) {
  const folder = await folderOf(t, { [file]: source, ...(file === 'main.js' ? { 'package.json': '{"type":"module"}' } : {}) });
  const runtime = make();
  t.teardown(() => runtime.close());
  const worker = startWorkerOf(runtime, folder, fn, { functions: [unread(fn)], ...more });
  await worker.hear('loaded');
  return worker;
}

const valueOf = async (worker: TestWorker, key: string, input: unknown): Promise<unknown> => {
  const { result, value } = await worker.call(key, input);
  return result.kind === 'failed' ? result.error : value;
};

const route = async (worker: TestWorker, fn: string, body: unknown, lines = true): Promise<unknown> => {
  const headers: [string, string][] = lines ? [['accept', 'application/x-ndjson']] : [];
  const answer = await answered(ask(worker, fn, { method: 'POST', body: Buffer.from(JSON.stringify(body)), headers }));
  return answer.body
    .toString()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
};

for (const language of languages) {
  const { name, seen } = language;
  const isPython = name === 'python';

  for (const [fn, input, expected] of [
    ['f', { u: 1 }, seen(null)],
    ['f_async', { u: 1 }, seen(null)],
    ['generator', { u: 1 }, [seen(null), 1]],
    ['generator_async', { u: 1 }, [seen(null), 1]],
    ...(isPython ? ([['returns_generator', { u: 1 }, [seen(null), 1]]] as const) : []),
    ['Methods', { method: 'one', u: 1 }, seen(null)],
    ['Methods', { method: 'two', u: 1 }, [seen(null), 1]],
  ] as const) {
    for (const maxConcurrency of [1, 4]) {
      test(`${name}: a job of ${fn} ${JSON.stringify(input)} sees nothing of the one before it (${maxConcurrency} at once)`, async (t) => {
        const worker = await workerOf(t, language, fn, { maxConcurrency });
        for (const key of ['1', '2', '3']) t.deepEqual(await valueOf(worker, key, input), expected);
      });
    }
  }

  test(`${name}: a request sees nothing of the one before it`, async (t) => {
    const names = ['f', 'f_async', 'generator', 'generator_async', ...(isPython ? ['returns_generator'] : [])];
    const worker = await workerOf(t, language, 'f', { functions: names.map(unread), servesHttp: true });
    for (const fn of names) {
      for (let count = 0; count < 3; count += 1)
        t.deepEqual(await route(worker, fn, { u: 1 }), fn.startsWith('f') ? [seen(null)] : [seen(null), 1], fn);
    }
  });

  test(`${name}: a first chunk without a value counts`, async (t) => {
    for (const fn of ['stops', 'stops_async']) {
      const worker = await workerOf(t, language, fn);
      t.deepEqual(await valueOf(worker, '1', {}), [null, 'a']);
      const chunks = worker.said.items.flatMap((item) => (item.say === 'chunk' ? [item.value] : []));
      t.deepEqual(chunks, [null, 'a']);
      const server = await workerOf(t, language, fn, { servesHttp: true });
      t.deepEqual(await route(server, fn, {}), [null, 'a']);
      t.deepEqual(await route(server, fn, {}, false), [null, 'a']);
    }
  });

  for (const [fn, input, expected] of [
    ['ctx_first', { u: 1 }, [true, 1]],
    ['ctx_middle', { a: 1 }, [1, true, 2]],
    ['ctx_middle', { a: 1, b: 3 }, [1, true, 3]],
    ['ctx_whole', { a: 1, b: 3 }, [true, { a: 1, b: 3 }]],
    ['context_first', { context: 'c', question: 'q' }, ['c', 'q']],
    ...(isPython
      ? ([
          ['ctx_only_positional', { a: 1, c: 5 }, [1, true, 2, 5]],
          ['ctx_keyword', { u: 1 }, [true, 1]],
          ['ctx_plain', { ctx: 'text', u: 1 }, ['text', 1]],
          ['any_keys', { a: 1 }, [true, { a: 1 }]],
        ] as const)
      : ([['ctx_object', { a: 1 }, [true, 1, 2]]] as const)),
  ] as const) {
    test(`${name}: the context of ${fn}(${JSON.stringify(input)}) is at its place, in jobs and routes`, async (t) => {
      const worker = await workerOf(t, language, fn);
      t.deepEqual(await valueOf(worker, '1', input), expected);
      const server = await workerOf(t, language, fn, { servesHttp: true });
      t.deepEqual(await route(server, fn, input), [expected]);
    });
  }
}

const [python] = languages as [Language];
const pythonRoutes = (t: ExecutionContext, ...names: string[]): Promise<TestWorker> =>
  workerOf(t, python, 'f', { functions: names.map(unread), servesHttp: true });

test('python: jobs in threads side by side see only what they set, and what the module set', async (t) => {
  const worker = await workerOf(t, python, 'f_together', { maxConcurrency: 2 });
  for (const round of ['1', '2']) {
    const both = await Promise.all([valueOf(worker, `${round}-a`, { u: 'a' }), valueOf(worker, `${round}-b`, { u: 'b' })]);
    t.deepEqual(both, [
      [null, 'module', true],
      [null, 'module', true],
    ]);
  }
});

test('python: a time-out around the yields of a generator ends it', async (t) => {
  const worker = await workerOf(t, python, 'late');
  t.is(await valueOf(worker, '1', {}), 'TimeoutError');
  const server = await pythonRoutes(t, 'late');
  await t.throwsAsync(answered(ask(server, 'late')), { message: /TimeoutError/ });
});

test('python: a time-out holds while the caller does not read', async (t) => {
  const server = await pythonRoutes(t, 'late_unread');
  const { call, heard } = ask(server, 'late_unread', {}, false);
  await heard.next(({ on }) => on === 'head');
  // The window of the response is full, so the generator waits at its yield; its time-out ends it there.
  const line = await server.hear('log', ({ text }) => text.startsWith('closed'));
  t.is(line.text, 'closed TimeoutError');
  call.credit(64 * 1024 * 1024);
  const last = await heard.next(({ on }) => on === 'failed');
  t.is(last.on === 'failed' ? last.message : '', 'TimeoutError');
});

test('python: a generator may go on after its time-out, and a task group ends with its tasks', async (t) => {
  const server = await pythonRoutes(t, 'caught', 'group');
  const ticks = (await answered(ask(server, 'caught'))).body.toString();
  t.regex(ticks, /^(tick)+late$/);
  await t.throwsAsync(answered(ask(server, 'group')), { message: /TaskGroup/ });
  for (const [fn, expected] of [
    ['caught', /"tick","late"\]$/],
    ['group', /TaskGroup/],
  ] as const) {
    const worker = await workerOf(t, python, fn);
    t.regex(JSON.stringify(await valueOf(worker, '1', {})), expected);
  }
});

test('python: a generator whose caller leaves is closed in its task', async (t) => {
  const server = await pythonRoutes(t, 'cleans');
  const { call, heard } = ask(server, 'cleans');
  await heard.next(({ on }) => on === 'body');
  call.abort(false);
  const line = await server.hear('log', ({ text }) => text.startsWith('closed'));
  t.is(line.text, 'closed True');
});

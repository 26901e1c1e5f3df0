/** What is Python's own in the process runtime: its values, its threads, its signals, its modules. */
import { chmod } from 'node:fs/promises';

import test from 'ava';

import { processRuntime } from './hosts.ts';
import { isRunning } from './running.ts';
import { startWorkerOf, type TestWorker } from './worker-under-test.ts';
import { folderOf } from '../../support/folder.ts';
import { workerOf, linesOf } from './python-worker.ts';

test('values pass as they are: great numbers, text, order of keys', async (t) => {
  const worker = await workerOf(t, 'def f(value): return value');
  const values = [
    '123456789012345678901234567890',
    '-0.0',
    '1e+300',
    '0.1',
    '{"b":1,"a":[null,true,false]}',
    '"😀 ß \\u0000"',
    '"\\ud800"',
    '{"1":1}',
  ];
  for (const [index, value] of values.entries()) t.is(await worker.text(String(index), `{"value":${value}}`), value);
});

test('what is no JSON fails with a plain message', async (t) => {
  const worker = await workerOf(t, 'def f(code): return eval(code)');
  const result = async (code: string): Promise<string> => worker.text(code, JSON.stringify({ code }));
  t.is(await result('float("nan")'), 'the result is not JSON: result: nan is not a number in JSON');
  t.is(await result('[float("inf")]'), 'the result is not JSON: result[0]: inf is not a number in JSON');
  t.is(await result('object'), 'the result is not JSON: result: a value of the type type has no JSON form');
  t.is(await result('b"x"'), '"eA=="');
  t.is(await result('{(1, 2): 3}'), 'the result is not JSON: result: a key of the type tuple has no JSON form');
  t.is(await result('{1: (2, 3)}'), '{"1":[2,3]}');
});

test('an error is its text, or the name of its class when it has none', async (t) => {
  const worker = await workerOf(t, 'def f(code): raise eval(code)');
  const error = async (code: string): Promise<string> => worker.text(code, JSON.stringify({ code }));
  t.is(await error('ValueError("no luck")'), 'no luck');
  t.is(await error('ValueError()'), 'ValueError');
  // The text of a KeyError is the bare key.
  t.is(await error('KeyError("k")'), "KeyError: 'k'");
  t.is(await error('type("Lost", (KeyError,), {"__str__": lambda self: "no such thing"})()'), 'no such thing');
  t.is(await error('KeyboardInterrupt()'), 'KeyboardInterrupt');
  t.is(await error('type("Odd", (Exception,), {"__str__": lambda self: 1/0})()'), 'Odd');
});

test("a traceback starts at the user's first line", async (t) => {
  const worker = await workerOf(t, 'def g():\n    raise ValueError("deep")\ndef f():\n    g()');
  await worker.text('1', '{}');
  const lines = linesOf(worker, 'stderr');
  t.is(lines[0], 'Traceback (most recent call last):');
  t.regex(lines[1] ?? '', /main\.py", line 4, in f/);
  t.is(lines.at(-1), 'ValueError: deep');
});

const signatures: [string, string, string][] = [
  // Parameters, input, what comes of it.
  ['a, b=2', '{"a":1}', '[1,2]'],
  ['a, *, b', '{"a":1,"b":3}', '[1,3]'],
  ['a, /, b=2', '{"a":1}', '[1,2]'],
  ['a=1, b=2, /', '{"b":3}', '[1,3]'],
  ['a, **b', '{"a":1,"c":2}', '[1,{"c":2}]'],
  ['a, b, ctx', '{"a":1,"b":2}', '[1,2]'],
  ['a, b, *, context', '{"a":1,"b":2}', '[1,2]'],
  ['a, b, context=None', '{"a":1,"b":2}', '[1,2]'],
  ['a, b, ctx', '{"a":1,"b":2,"ctx":3}', 'unknown argument: ctx (the function takes: a, b)'],
  ['a, b, /', '{"a":1,"b":2,"c":3}', 'unknown argument: c (the function takes: a, b)'],
  ['a, b', '{"a":1}', 'missing argument: b'],
  ['a, b', '[1]', 'input must be an object'],
];
for (const [parameters, input, expected] of signatures) {
  test(`def f(${parameters}) with ${input}`, async (t) => {
    const worker = await workerOf(t, `def f(${parameters}): return [a, b]`);
    t.is(await worker.text('1', input), expected);
  });
}

const marks: [string, string, string][] = [
  // Mark, value, what comes of it.
  ['int', '1.0', '1'],
  ['int', '1e400', 'input: the number 1e400 is beyond the range of a float'],
  ['int', 'NaN', 'input: must be JSON'],
  ['list[int]', '"x"', 'a: must be an array'],
  ['"list[int] | None"', 'null', 'null'],
  ['"list[int] | str"', '"x"', '"x"'],
  ['"typing.Dict[str, typing.List[int]]"', '[]', 'a: must be an object'],
  ['"Optional[int]"', '"x"', '"x"'],
  ['typing.Any', '"x"', '"x"'],
  ['typing.Sequence', '{}', 'a: must be an array'],
];
for (const [mark, value, expected] of marks) {
  test(`def f(a: ${mark}) with ${value}`, async (t) => {
    const worker = await workerOf(t, `import typing\ndef f(a: ${mark}): return a`);
    t.is(await worker.text('1', `{"a":${value}}`), expected);
  });
}

test('a sole parameter `input` gets the input whole, unless it is marked as plain', async (t) => {
  const whole = await workerOf(t, 'def f(input): return input');
  t.is(await whole.text('1', '{"any":1}'), '{"any":1}');
  const dict = await workerOf(t, 'def f(input: dict, ctx): return [input, ctx.attempt]');
  t.is(await dict.text('1', '{"any":1}'), '[{"any":1},1]');
  const plain = await workerOf(t, 'def f(input: str): return input');
  t.is(await plain.text('1', '{"input":"x"}'), '"x"');
  const none = await workerOf(t, 'def f(): return 1');
  t.is(await none.text('1', '{"a":1}'), 'unknown argument: a (the function takes no arguments)');
});

test('functions behind decorators run as what they give', async (t) => {
  const source = `
import asyncio, functools
def wrap(fn):
    @functools.wraps(fn)
    def call(*args, **kwargs): return fn(*args, **kwargs)
    return call
class Callable:
    async def __call__(self, a):
        await asyncio.sleep(0)
        return a
@wrap
async def one(a):
    await asyncio.sleep(0)
    return a
@wrap
async def two(a):
    yield a
three = functools.partial(lambda a, b: a + b, b=1)
four = Callable()
`;
  for (const [name, expected] of [
    ['one', '5'],
    ['two', '[5]'],
    ['three', '6'],
    ['four', '5'],
  ] as const) {
    const worker = await workerOf(t, `${source}\nf = ${name}`);
    t.is(await worker.text('1', '{"a":5}'), expected, name);
    t.is(await worker.text('2', '{"a":5}'), expected, name);
  }
});

test('whatever user code prints, and wherever, is log lines and never protocol', async (t) => {
  const worker = await workerOf(
    t,
    `
import multiprocessing, os, subprocess, sys, logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
def in_child(n):
    print("child", n)
    return n * 2
def f():
    print("half", end="")
    print(" and half")
    sys.stdout.buffer.write(b"raw\\n")
    os.write(1, b"direct\\n")
    subprocess.run(["echo", "program"])
    subprocess.run(["echo", "program to us"], stdout=sys.stdout)
    logging.info("logged")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        doubled = pool.map(in_child, [1, 2])
    if os.fork() == 0:
        print("forked")
        os._exit(0)
    os.wait()
    print("no end", end="")
    return doubled
`,
  );
  t.is(await worker.text('1', '{}'), '[2,4]');
  t.is(await worker.text('2', '{}'), '[2,4]');
  const inOrder = worker.said.items.flatMap((said) =>
    said.say === 'log' || said.say === 'ended' ? [said.say === 'log' ? said.text : 'end'] : [],
  );
  t.true(inOrder.indexOf('no end') < inOrder.indexOf('end'));
  for (const line of ['raw', 'direct', 'program', 'program to us', 'child 1', 'child 2', 'forked']) {
    t.is((await worker.hear('log', ({ text }) => text === line)).stream, 'stdout');
  }
  t.is((await worker.hear('log', ({ text }) => text === 'half and half')).jobId, 'job-1');
  t.is((await worker.hear('log', ({ text }) => text === 'logged')).stream, 'stderr');
});

test('processes that a handler spawns are programs of their own', async (t) => {
  const source = `
import multiprocessing
def double(n): return n * 2
def f():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return pool.map(double, [1, 2])
`;
  const worker = await workerOf(t, source);
  t.is(await worker.text('1', '{}'), '[2,4]');
});

test('each line is of its own job, also when several run', async (t) => {
  const source = `
import asyncio
started = []
async def f(name):
    started.append(name)
    while len(started) < 2:
        await asyncio.sleep(0.001)
    print("from " + name)
`;
  const worker = await workerOf(t, source, { maxConcurrency: 2 });
  worker.run('1', { name: 'a' });
  worker.run('2', { name: 'b' });
  t.is((await worker.hear('log', ({ text }) => text === 'from a')).jobId, 'job-1');
  t.is((await worker.hear('log', ({ text }) => text === 'from b')).jobId, 'job-2');
});

test('an error in a thread of the user ends nothing, and is in the log', async (t) => {
  const source = `
import threading
def stray(): raise ValueError("stray error")
def f():
    thread = threading.Thread(target=stray)
    thread.start()
    thread.join()
    return 1
`;
  const worker = await workerOf(t, source);
  t.is(await worker.text('1', '{}'), '1');
  t.true(linesOf(worker, 'stderr').includes('ValueError: stray error'));
});

test('sys.exit() ends the worker with its code, or with its text', async (t) => {
  const coded = await workerOf(t, 'import sys\ndef f():\n    print("last words", end="")\n    sys.exit(7)');
  coded.run('1', {});
  t.regex((await coded.hear('exited')).detail, /code 7/);
  t.deepEqual(linesOf(coded, 'stdout'), ['last words']);
  const worded = await workerOf(t, 'import sys\nasync def f():\n    sys.exit("no use")');
  worded.run('1', {});
  t.regex((await worded.hear('exited')).detail, /code 1/);
  t.deepEqual(linesOf(worded, 'stderr'), ['no use']);
});

for (const [what, source] of [
  ['sleeps', 'import time\ndef f(): time.sleep(3600)'],
  ['computes', 'def f():\n    while True: pass'],
  ['prints', 'import time\ndef f():\n    while True:\n        print("x" * 100)\n        time.sleep(0.001)'],
  ['waits for a lock', 'import threading\ndef f(): threading.Event().wait()'],
  ['is in asyncio.run', 'import asyncio\ndef f(): asyncio.run(asyncio.sleep(3600))'],
  ['gives a coroutine', 'import asyncio\ndef f(): return asyncio.sleep(3600)'],
  ['is a generator', 'import time\ndef f():\n    yield 1\n    time.sleep(3600)'],
] as const) {
  test(`a plain function that ${what} is interrupted, and its worker serves on`, async (t) => {
    const worker = await workerOf(t, source);
    for (const key of ['1', '2', '3']) {
      worker.run(key, {});
      await worker.hear('entered', (said) => said.key === key);
      worker.worker.cancel(key);
      t.is((await worker.ended(key)).result.kind, 'stopped');
    }
    t.false(worker.said.items.some(({ say }) => say === 'exited'));
  });
}

for (const [what, source] of [
  ['code that never lets the interpreter go', 'def f():\n    print("in")\n    sum(range(10**15))'],
  [
    'a handler that swallows the interrupt',
    'def f():\n    while True:\n        try:\n            print("in")\n            while True: pass\n        except BaseException: pass',
  ],
  [
    'a handler that ignores every signal it can',
    'import signal\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\ndef f():\n    print("in")\n    while True: pass',
  ],
  ['a coroutine that blocks its loop', 'import time\nasync def f():\n    print("in")\n    time.sleep(3600)'],
] as const) {
  test(`stopped by force: ${what}`, async (t) => {
    const worker = await workerOf(t, source);
    worker.run('1', {});
    await worker.hear('log', ({ text }) => text === 'in');
    worker.worker.cancel('1');
    t.true((await worker.hear('exited')).hardStop);
  });
}

test('before SIGKILL comes SIGTERM', async (t) => {
  const source = `
import os, signal, time
def term(*_):
    os.write(1, b"told to end\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, term)
signal.signal(signal.SIGINT, signal.SIG_IGN)
def f():
    while True: time.sleep(1)
`;
  const worker = await workerOf(t, source);
  worker.run('1', {});
  await worker.hear('entered');
  worker.worker.cancel('1');
  t.true((await worker.hear('exited')).hardStop);
  t.true(linesOf(worker, 'stdout').includes('told to end'));
});

test('what a handler does to clean up is done', async (t) => {
  for (const source of [
    'import time\ndef f():\n    try: time.sleep(3600)\n    finally: print("cleaned")',
    'import asyncio\nasync def f():\n    try: await asyncio.sleep(3600)\n    finally: print("cleaned")',
    'import asyncio\nasync def f():\n    try:\n        yield 1\n        await asyncio.sleep(3600)\n    finally: print("cleaned")',
    'def f():\n    try:\n        while True: yield 1\n    finally: print("cleaned")',
  ]) {
    const worker = await workerOf(t, source);
    worker.run('1', {});
    await worker.hear('entered');
    worker.worker.cancel('1');
    t.is((await worker.ended('1')).result.kind, 'stopped');
    // Told to stop before its first line, there is nothing to clean up.
    const entered = worker.said.items.some((said) => said.say === 'chunk') || !source.includes('yield');
    if (entered && source.includes('time')) t.deepEqual(linesOf(worker, 'stdout'), ['cleaned']);
  }
});

test('at once: one is stopped, its neighbours go on', async (t) => {
  for (const source of [
    'import asyncio\ngo = {}\nasync def f(name, spin):\n    while spin: await asyncio.sleep(0.001)\n    return name',
    'def f(name, spin):\n    while spin: pass\n    return name',
  ]) {
    const worker = await workerOf(t, source, { maxConcurrency: 3 });
    worker.run('1', { name: 'a', spin: true });
    worker.run('2', { name: 'b', spin: true });
    await worker.hear('entered', ({ key }) => key === '1');
    await worker.hear('entered', ({ key }) => key === '2');
    worker.worker.cancel('1');
    t.is((await worker.ended('1')).result.kind, 'stopped');
    t.is((await worker.call('3', { name: 'c', spin: false })).value, 'c');
    t.false(worker.said.items.some((said) => said.say === 'exited' || (said.say === 'ended' && said.key === '2')));
  }
});

test('a module is found by path or dots, whatever else has its name, with what the build brings along', async (t) => {
  const answer = (name: string): string => `def f(): return ${JSON.stringify(name)}`;
  for (const [module, files] of [
    ['src/worker.py', { 'src/worker.py': answer('x') }],
    ['src.worker', { 'src/worker.py': answer('x') }],
    [
      'pack/sub/worker.py',
      {
        'pack/__init__.py': '',
        'pack/sub/__init__.py': '',
        'pack/value.py': 'v = "x"',
        'pack/sub/worker.py': 'from ..value import v\ndef f(): return v',
      },
    ],
    ['pack', { 'pack/__init__.py': answer('x') }],
    ['queue.py', { 'queue.py': answer('x') }],
    ['with-dash.py', { 'with-dash.py': answer('x') }],
    [
      'main.py',
      {
        'main.py': 'import brought, own\ndef f(): return brought.v + own.v',
        'python_packages/brought.py': 'v = "x"',
        'python_packages/own.py': 'v = "no"',
        'own.py': 'v = ""',
      },
    ],
  ] as const) {
    const worker = await workerOf(t, files, { module });
    t.is(await worker.text('1', '{}'), '"x"', module);
  }
});

test('what cannot be loaded says why, in its log, too', async (t) => {
  for (const [source, reason] of [
    ['import no_such_package', /No module named 'no_such_package'/],
    ['def f(:', /invalid syntax/],
    ['class f: pass', /the class f has no public method/],
    [
      'class f:\n def __init__(self, size): pass\n def run(self): pass',
      /the class f must have no required constructor arguments; it has size/,
    ],
    ['import sys\nsys.exit(3)', /^3$/],
    ['def g(): pass', /module main\.py has no function f \(its functions: g\)/],
  ] as const) {
    const folder = await folderOf(t, { 'main.py': source });
    const runtime = processRuntime();
    t.teardown(() => runtime.close());
    const functions = [{ name: 'f', module: 'main.py', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' as const }];
    const worker = startWorkerOf(runtime, folder, 'f', { functions });
    t.regex((await worker.hear('load-failed')).detail, reason);
    t.true(linesOf(worker, 'stderr').length > 0);
  }
});

test('a host without Python, or with one too old, says so', async (t) => {
  const folder = await folderOf(t, {
    'main.py': 'def f(): pass',
    old: '#!/bin/sh\nexec /usr/bin/env python3 -c "import sys; sys.version_info = (3, 7); sys.argv[0:1] = []; exec(open(sys.argv[0]).read())" "$@"\n',
  });
  const start = (python: string): TestWorker => {
    const runtime = processRuntime({ python: 1 }, python);
    t.teardown(() => runtime.close());
    return startWorkerOf(runtime, folder, 'f');
  };
  t.regex((await start('/nonexistent/python3').hear('exited')).detail, /worker process failed: \/nonexistent\/python3 was not found/);
  await chmod(`${folder}/old`, 0o755);
  const old = start(`${folder}/old`);
  await old.hear('log', ({ text }) => text.startsWith('Python 3.8 or newer is required'));
  t.regex((await old.hear('exited')).detail, /code 1/);
});

test('memory is that of the whole process group', async (t) => {
  const source = `
import subprocess, sys
def f():
    subprocess.run([sys.executable, "-c", "x = bytearray(b'x') * (400 * 1024 * 1024); import time; time.sleep(3600)"])
`;
  const worker = await workerOf(t, source, { memoryBytes: 300 * 1024 * 1024 });
  worker.run('1', {});
  t.regex((await worker.hear('exited')).detail, /^memory limit exceeded: \d+ MiB resident, the limit is 300 MiB$/);
});

test('children that outlive their handler end with the worker', async (t) => {
  const worker = await workerOf(
    t,
    'import os, time\ndef f():\n    pid = os.fork()\n    if pid == 0:\n        while True: time.sleep(1)\n    return pid',
  );
  const pid = Number(await worker.text('1', '{}'));
  t.true(await isRunning(pid));
  worker.worker.end(false);
  await worker.hear('exited');
  t.false(await isRunning(pid));
});

/** How a function in Python is found and its parameters are read, without running its module. */
import test from 'ava';

import { readApplication } from '../../compiler/application/application.ts';
import { listFiles } from '../../compiler/artifact/files.ts';
import type { EndpointRow } from '../../cli/api/endpoint-row.ts';
import type { Application } from '../../compiler/application/application.ts';
import { nextCommands } from '../../cli/deploy/report.ts';
import { folderOf } from '../support/folder.ts';
import { inShort, readFunction } from './read-function.ts';

const sources: [string, string][] = [
  ['def f(): pass', 'POSITIONAL'],
  ['def f(a, b=1): pass', 'POSITIONAL a b?'],
  ['async def f(a: str, *, b, c=2): pass', 'POSITIONAL a b c?'],
  ['def f(a, /, b): yield a', 'POSITIONAL a b'],
  ['def f(a, ctx): pass', 'POSITIONAL a'],
  ['def f(a, *, context=None): pass', 'POSITIONAL a'],
  ['def f(a, context: str): pass', 'POSITIONAL a context'],
  ['def f(ctx, a): pass', 'POSITIONAL a'],
  ['def f(a, ctx: Context, b=1): pass', 'POSITIONAL a b?'],
  ['def f(ctx, input): pass', 'WHOLE'],
  ['def f(ctx: str, a): pass', 'POSITIONAL ctx a'],
  ['def f(context, a): pass', 'POSITIONAL context a'],
  ['def f(a, *rest): pass', 'POSITIONAL a'],
  ['def f(input): pass', 'WHOLE'],
  ['def f(input: dict, ctx): pass', 'WHOLE'],
  ['def f(input: str): pass', 'POSITIONAL input'],
  ['def f(a, **more): pass', 'WHOLE'],
  ['def f(a): pass\ndef f(b): pass', 'POSITIONAL b'],
  ['@wrap\ndef f(a): pass', 'UNSPECIFIED'],
  ['f = partial(g, 1)', 'UNSPECIFIED'],
  ['from other import f', 'UNSPECIFIED'],
  ['from other import *', 'UNSPECIFIED'],
  ['try:\n    def f(a): pass\nexcept ImportError: pass', 'UNSPECIFIED'],
];
for (const [source, expected] of sources) {
  test(JSON.stringify(source), async (t) => {
    t.is(inShort(await readFunction(await folderOf(t, { 'main.py': source }), 'main.py')), expected);
  });
}

test('nothing of the module is run', async (t) => {
  const folder = await folderOf(t, { 'main.py': 'import no_such_package\nraise SystemExit\ndef f(a): pass' });
  t.is(inShort(await readFunction(folder, 'main.py')), 'POSITIONAL a');
});

test('texts are cut as the service counts them, between characters', async (t) => {
  const smile = '😀';
  const folder = await folderOf(t, {
    'main.py': `def f(a="${smile.repeat(400)}", b="${smile.repeat(600)}"):\n    """x${smile.repeat(3000)}"""`,
    'main.ts': `/** x${smile.repeat(3000)} */\nexport function f(a: number) {}\n`,
  });
  const python = await readFunction(folder, 'main.py');
  t.is(python.description, `x${smile.repeat(999)}`);
  t.deepEqual(
    python.parameters.map(({ defaultValue }) => defaultValue),
    [JSON.stringify(smile.repeat(400)), undefined],
  );
  const { description } = await readFunction(folder, 'main.ts');
  t.true(description?.isWellFormed());
  t.true((description?.length ?? 0) <= 2_000 && (description?.length ?? 0) >= 1_999);
});

test('the next command gets a value of the right type for each parameter', async (t) => {
  const folder = await folderOf(t, {
    'main.py': 'from typing import List\ndef f(a: int, b: "str", c: List[int], d=True, e: dict = {}): pass',
  });
  t.deepEqual(
    (await readFunction(folder, 'main.py')).parameters.map(({ sample }) => sample),
    [1, 'text', [], true, {}],
  );
});

test('a module is found by path, by dots, and as a package', async (t) => {
  const source = 'def f(a): pass';
  const folder = await folderOf(t, { 'main.py': source, 'src/worker.py': source, 'pack/__init__.py': source });
  for (const [module, path] of [
    ['main', 'main.py'],
    ['src/worker', 'src/worker.py'],
    ['src.worker', 'src/worker.py'],
    ['pack', 'pack/__init__.py'],
  ] as const) {
    t.is((await readFunction(folder, module)).module, path);
  }
});

test('the example of a call of a class is one of its first method, which is named where there are several', async (t) => {
  const inputOf = async (source: string): Promise<string> => {
    const read = await readFunction(await folderOf(t, { 'main.py': source }), 'main.py');
    const rows = [{ name: 'e', kind: 'queue', url: 'http://host/v2/e', routes: {} }] as unknown as EndpointRow[];
    const application = { endpoints: [{ spec: { name: 'e' }, functions: [read] }] } as unknown as Application;
    return nextCommands(application, rows, 'key')[0] ?? '';
  };
  t.is(await inputOf('class f:\n def __init__(self): pass\n def run(self, png: bytes, n: int = 1): pass'), 'capstan call e png=dGV4dA==');
  t.is(
    await inputOf('class f:\n def one(self, a: int): pass\n def two(self): pass\n def _hidden(self): pass'),
    'capstan call e method=one a=1',
  );
  t.is(await inputOf('class f:\n @staticmethod\n def run(a: str): pass'), 'capstan call e a=text');
});

test('a class is read by the worker that makes it', async (t) => {
  const read = await readFunction(await folderOf(t, { 'main.py': 'class f:\n def run(self): pass' }), 'main.py');
  t.like(read, { module: 'main.py', style: 'CALL_STYLE_UNSPECIFIED' });
});

const refusals: [string, RegExp][] = [
  ['def g(): pass\ndef _h(): pass', /main\.py:1: no function f \(it exports g\)/],
  ['def g(): pass\ndef f(:', /^main\.py:2: invalid syntax \(read by Python 3\.\d+\.\d+\)$/],
];
for (const [source, message] of refusals) {
  test(`refused: ${JSON.stringify(source)}`, async (t) => {
    await t.throwsAsync(readFunction(await folderOf(t, { 'main.py': source }), 'main.py'), { message });
  });
}

test('the runtime is the manifest’s, or the service’s choice', async (t) => {
  const files = { 'main.py': 'def f(): pass' };
  const read = async (more: object): Promise<string | undefined> => {
    const manifest = { resources: { e: { functions: [{ name: 'f', module: 'main.py' }], ...more } } };
    const { endpoints } = await readApplication(await folderOf(t, { ...files, 'tool_manifest.json': JSON.stringify(manifest) }));
    return endpoints[0]?.spec.runtime;
  };
  t.is(await read({}), '');
  t.is(await read({ runtime: 'process' }), 'process');
  await t.throwsAsync(read({ runtime: 'rocket' }), { message: /runtime: must be thread, process or container/ });
});

test('installed packages are taken along, compiled files are not', async (t) => {
  const folder = await folderOf(t, {
    '.gitignore': 'python_packages/',
    'main.py': '',
    '__pycache__/main.cpython-311.pyc': '',
    'python_packages/pack/__init__.py': '',
    'python_packages/pack/__pycache__/x.pyc': '',
  });
  const { entries } = await listFiles(folder);
  t.deepEqual(
    entries.map(({ path }) => path),
    ['.gitignore', 'main.py', 'python_packages/pack/__init__.py'],
  );
});

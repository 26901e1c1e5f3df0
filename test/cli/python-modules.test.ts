/**
 * Imports in Python: projects with packages below `src`, modules that have the names of the standard library's, and what
 * cannot be imported, which is refused with its place before anything is deployed.
 */
import { execFile } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';
import { extract } from 'tar';

import { discover } from '../../compiler/discovery/discover.ts';
import { folderOf } from '../support/folder.ts';
import { run } from './fakes/run.ts';

const root = join(import.meta.dirname, '../..');
const execute = promisify(execFile);
const nothing = (): undefined => undefined;
const PROJECT = '[project]\nname = "pkg"\nversion = "1"\n';

const serving = (imports: string, value: string, name = 'one'): string =>
  `${imports}\nfrom capstan import Endpoint\n\n@Endpoint(name="${name}")\ndef ${name}():\n    return ${value}\n`;

/** Loads a function as a worker's host does, and returns what it returns. */
async function called(folder: string, module: string, paths: readonly string[] = []): Promise<unknown> {
  const script = `
import sys
sys.path.pop(0)  # the working folder, which a host does not have there
from capstan_bootstrap.loading import load_function, prepare_path
prepare_path(${JSON.stringify(folder)})
import json
print(json.dumps(load_function(${JSON.stringify(folder)}, ${JSON.stringify(module)}, "one")()))`;
  const env = {
    PATH: process.env['PATH'],
    PYTHONPATH: [join(root, 'agent/runtimes/process/python'), ...paths].join(':'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const { stdout } = await execute('python3', ['-c', script], { cwd: folder, env });
  return JSON.parse(stdout) as unknown;
}

async function built(t: ExecutionContext, folder: string): Promise<string> {
  const env = { CAPSTAN_CACHE_DIR: join(folder, '.tool/cache') };
  const running = run([join(root, 'cli/main.ts'), 'build'], { cwd: folder, env });
  t.is(await running.ended, 0, running.stderr());
  const place = await folderOf(t);
  await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
  return place;
}

/** The value of endpoint `one` in its build, and under `capstan run`. */
async function valuesOf(t: ExecutionContext, files: Readonly<Record<string, string>>, file: string): Promise<unknown[]> {
  const folder = await folderOf(t, files);
  const { pythonRoots } = await discover(folder, nothing);
  const paths = [join(root, 'sdk/python'), ...pythonRoots.map((each) => join(folder, each))];
  return [await called(await built(t, folder), '_capstan/one/handler.py'), await called(folder, file, paths)];
}

const loads: Readonly<Record<string, readonly [files: Readonly<Record<string, string>>, file: string, value: unknown]>> = {
  'packages below src': [
    {
      'pyproject.toml': PROJECT,
      'src/pkg/__init__.py': '',
      'src/pkg/main.py': serving('from pkg.a import a\nfrom .b.c import c\nimport pkg.a', '[a, c, pkg.a.count, __name__]'),
      'src/pkg/a.py': 'a = 1\nimport builtins\nbuiltins.times = getattr(builtins, "times", 0) + 1\ncount = builtins.times',
      'src/pkg/b/c.py': 'from pkg.a import a\nc = a + 1',
    },
    'src/pkg/main.py',
    [1, 2, 1, 'pkg.main'],
  ],
  'packages below the folder that the build backend names': [
    {
      'pyproject.toml': `${PROJECT}[tool.setuptools.packages.find]\nwhere = ["python"]\n`,
      'python/pkg/main.py': serving('from pkg.a import a', '[a, __name__]'),
      'python/pkg/a.py': 'a = 1',
    },
    'python/pkg/main.py',
    [1, 'pkg.main'],
  ],
  'files named as modules of the standard library, which keep working': [
    {
      'email.py': serving(
        'import urllib.request, smtplib, json, queue\nfrom types import SimpleNamespace',
        '[json.dumps(1), queue.Queue.__name__]',
      ),
      'json.py': 'x = 1',
      'queue/__init__.py': '',
      'types.py': 'y = 1',
      'enum.py': '',
    },
    'email.py',
    ['1', 'Queue'],
  ],
  'a shebang, __future__, CRLF, circles, packages without __init__, and a main guard': [
    {
      'jobs/main.py': `#!/usr/bin/env python3\r\nfrom __future__ import annotations\r\n${serving('from jobs.a import even\nfrom . import a as again', '[even(4), again.even(3)]').replaceAll('\n', '\r\n')}\r\nif __name__ == "__main__":\r\n    raise SystemExit(1)\r\n`,
      'jobs/a.py': 'from jobs import b\ndef even(n): return n == 0 or b.odd(n - 1)',
      'jobs/b.py': 'from jobs import a\ndef odd(n): return n != 0 and a.even(n - 1)',
    },
    'jobs/main.py',
    [true, false],
  ],
  'a name with spaces, a line end and other signs': [{ 'my app/a b\n"c"é.py': serving('', '1') }, 'my app/a b\n"c"é.py', 1],
};

for (const [title, [files, file, value]] of Object.entries(loads)) {
  test(`loads: ${title}`, async (t) => {
    t.deepEqual(await valuesOf(t, files, file), [value, value]);
  });
}

test('another endpoint’s file below src is replaced by its stub, by either name', async (t) => {
  const folder = await folderOf(t, {
    'pyproject.toml': PROJECT,
    'src/pkg/one.py': serving(
      'from pkg.two import two, own\nfrom src.pkg.two import two as again',
      '[type(two).__name__, two is again, own]',
    ),
    'src/pkg/two.py': `own = 1\n${serving('', '2', 'two')}`,
  });
  const [, same, own] = (await called(await built(t, folder), '_capstan/one/handler.py')) as [string, boolean, number];
  t.is(own, 1);
  t.false(same, 'two names are two modules, as in Python itself');
});

const refusals: Readonly<Record<string, readonly [files: Readonly<Record<string, string>>, message: string]>> = {
  'a module of the project that the standard library hides': [
    { 'main.py': serving('import sys\nfrom queue import enqueue', 'enqueue'), 'queue.py': 'def enqueue(): pass' },
    "main.py:2:1: queue is a module of Python's standard library, which workers import instead of queue.py; rename the file",
  ],
  'the same by its attributes, in an imported file': [
    {
      'main.py': serving('import a', '1'),
      'a.py': 'import calendar as c\n\nmonth = c.our_month()',
      'calendar.py': 'def our_month(): pass',
    },
    "a.py:3:9: calendar is a module of Python's standard library, which workers import instead of calendar.py; rename the file",
  ],
  'an ignored file': [
    { 'main.py': serving('from gen.a import a', 'a'), 'gen/a.py': 'a = 1', '.gitignore': 'gen/\n' },
    'main.py:1:1: the import is gen/a.py, which an ignore file or its name keeps out of the artifact',
  ],
  'another Unicode form of a name': [
    { 'main.py': serving('import caf\u00e9', '1'), 'cafe\u0301.py': '' },
    'main.py:1:1: Python imports caf\u00e9 in another Unicode form than the name of the file; rename the file',
  ],
};

for (const [title, [files, message]] of Object.entries(refusals)) {
  test(`refused with its place: ${title}`, async (t) => {
    await t.throwsAsync(discover(await folderOf(t, files), nothing), { code: 'INVALID_MANIFEST', message });
  });
}

test('a module of the project may be a link to another one', async (t) => {
  const folder = await folderOf(t, { 'main.py': serving('from linked import a', 'a'), 'real.py': 'a = 1' });
  await symlink('real.py', join(folder, 'linked.py'));
  t.is(await called(await built(t, folder), '_capstan/one/handler.py'), 1);
});

test('a file whose name hosts refuse is refused by the build', async (t) => {
  const folder = await folderOf(t, { 'main.py': serving('', '1'), 'data\\a.txt': '' });
  const running = run([join(root, 'cli/main.ts'), 'build'], { cwd: folder, env: { CAPSTAN_CACHE_DIR: join(folder, '.tool/cache') } });
  t.is(await running.ended, 65);
  t.regex(running.stderr(), /^✗ data\\a\.txt: the name of the file must not contain a backslash$/m);
});

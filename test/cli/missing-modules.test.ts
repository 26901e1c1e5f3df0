/** Imports that workers will not find are named with their places before anything is uploaded, in both languages. */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { build } from '../../compiler/build/build.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';

async function warningsOf(
  t: ExecutionContext,
  files: Readonly<Record<string, string>>,
  exclude: readonly string[] = [],
  below = '',
): Promise<string[]> {
  const folder = join(await folderOf(t, files), below);
  const lines: string[] = [];
  const terminal = createTerminal({ out: { write: () => true }, err: { write: (text: string) => lines.push(text) }, colours: false });
  const options = {
    ...{ lookUp: () => undefined, exclude, bundleBasePackages: false, python: undefined, refresh: false, keepStaging: false },
    cacheDir: join(await ownFolder('capstan-modules'), 'cache'),
  };
  await build(folder, options, terminal);
  return lines.filter((line) => line.includes('in no package of the build'));
}

const PYTHON = `import json, os.path
import numpy as np
import helper
import vendored
from beside import thing
from requestsx.adapters import HTTPAdapter
from typing import TYPE_CHECKING
from contextlib import suppress
from capstan import Endpoint
if TYPE_CHECKING:
    import only_types
try:
    import optional
except ImportError:
    optional = None
with suppress(ImportError):
    import suppressed
@Endpoint(name="one", workers=(0, 1))
def one(x: int):
    import lazyx
    return x
`;

test('Python: neither standard, optional, own, vendored nor base modules are named, but what fails is, with its place', async (t) => {
  const own = {
    'helper.py': 'import deeperx\n',
    'lib/beside.py': 'thing = 1\n',
    'python_packages/vendored/__init__.py': '',
    'main.py': PYTHON,
  };
  const found = await warningsOf(t, own);
  t.is(found.length, 1);
  t.regex(
    found[0] ?? '',
    /^! imported, but in no package of the build: requestsx \(main\.py:6\), lazyx \(main\.py:20\), deeperx \(helper\.py:1\)\. /,
  );
  t.deepEqual(await warningsOf(t, own, ['requestsx', 'lazyx', 'deeperx']), [], 'hosts have what is excluded');
  t.deepEqual(await warningsOf(t, own, ['py-requestsx']), [], 'the names of distributions are not those of modules');
});

test('Python: what a script of a command imports is named, too; what is beside it is its own', async (t) => {
  const found = await warningsOf(t, {
    'main.py': 'from capstan import Endpoint\nEndpoint(name="one", command=["python3", "-u", "jobs/worker.py", "x.py", "$PORT"])\n',
    'jobs/worker.py': 'import json\nimport sibling\nimport requestsx\ntry:\n    import optional\nexcept ImportError:\n    pass\n',
    'jobs/sibling.py': '',
  });
  t.is(found.length, 1);
  t.regex(found[0] ?? '', /^! imported, but in no package of the build: requestsx \(jobs\/worker\.py:3\)\. /);
  const newer = { 'main.py': 'from capstan import Endpoint\nEndpoint(name="one", command=["python3", "w.py"])\n', 'w.py': 'import x y\n' };
  t.deepEqual(await warningsOf(t, newer), [], 'it may be for another Python');
});

test('an image of an endpoint may have any module of its language', async (t) => {
  const python = (settings: string): string =>
    `import yamlx\nfrom capstan import Endpoint\n@Endpoint(name="one"${settings})\ndef one(): return 1\n`;
  const node = (settings: string): string =>
    `import pad from 'left-padd';\nimport { endpoint } from '@capstan/sdk';\nexport const two = endpoint({ name: 'two'${settings} }, (x: number) => x);\n`;
  const named = async (ofPython: string, ofNode: string): Promise<string[]> => {
    const found = await warningsOf(t, { 'main.py': python(ofPython), 'main.ts': node(ofNode) });
    return found.map((line) => /: (\S+) \(/.exec(line)?.[1] ?? line);
  };
  t.deepEqual(await named('', ''), ['yamlx', 'left-padd']);
  t.deepEqual(await named(', image="example/one:1"', ''), ['left-padd']);
  t.deepEqual(await named('', `, image: 'example/two:1'`), ['yamlx']);
});

const NODE = `import { endpoint } from '@capstan/sdk';
import fs from 'node:fs';
import path from 'path';
import pad from 'left-padd';
import { deep } from '@scope/pkg/deep';
import type { Gone } from 'only-types';
import { own } from './own.ts';
import self from 'me';
let optional;
try { optional = require('optional'); } catch { optional = null; }
export const two = endpoint({ name: 'two', workers: [0, 1] }, (x: number) => x);
`;

test('Node: neither built-in, optional, own nor type imports are named, but what fails is, with its place', async (t) => {
  const found = await warningsOf(t, {
    'package.json': JSON.stringify({ name: 'me', type: 'module', exports: './own.ts' }),
    'own.ts': "export { x as own } from 'reexportedx';\nexport default 1;\n",
    'main.ts': NODE,
  });
  t.is(found.length, 1);
  t.regex(found[0] ?? '', /: left-padd \(main\.ts:4\), @scope\/pkg \(main\.ts:5\), reexportedx \(own\.ts:1\)\. Name them in package\.json/);
});

const written = (...endpoints: readonly (readonly [name: string, more: object])[]): string =>
  JSON.stringify({ version: '1', resources: Object.fromEntries(endpoints) });

test('written manifest: what functions and scripts of commands import is named; what the folder has is not', async (t) => {
  const python = { 'jobs.py': 'import helper, yamlx, vendored\ndef job(x): return x\n', 'helper.py': 'import deepx\n' };
  const functions = [{ name: 'job', module: 'jobs' }];
  const [found = '', ...more] = await warningsOf(t, {
    ...python,
    'python_packages/vendored.py': '',
    'tool_manifest.json': written(['job', { functions }]),
  });
  t.deepEqual(more, []);
  t.regex(found, /: yamlx \(jobs\.py:1\), deepx \(helper\.py:1\)\. Install the packages into python_packages: workers do not have/);

  const node = {
    'web.mjs': "import pad from 'left-padd';\nimport './own.mjs';\nexport const two = (x) => pad(x);\n",
    'own.mjs': "import 'deepx';\n",
  };
  const [ofNode = ''] = await warningsOf(t, {
    ...node,
    'tool_manifest.json': written(['two', { functions: [{ name: 'two', module: 'web' }] }]),
  });
  t.regex(ofNode, /: left-padd \(web\.mjs:1\), deepx \(own\.mjs:1\)\. Name them in package\.json/);
  const there = { ...node, 'node_modules/left-padd/package.json': '{}', 'node_modules/deepx/package.json': '{}' };
  t.deepEqual(
    await warningsOf(t, { ...there, 'tool_manifest.json': written(['two', { functions: [{ name: 'two', module: 'web' }] }]) }),
    [],
  );

  const command = ['python3', 'jobs.py'];
  const [ofCommand = ''] = await warningsOf(t, { ...python, 'tool_manifest.json': written(['three', { command }]) });
  t.regex(ofCommand, /: yamlx \(jobs\.py:1\), vendored \(jobs\.py:1\)\. Name the packages in requirements\.txt/);
});

test('written manifest: an image of its own may have any module, a base image only its packages', async (t) => {
  const files = { 'jobs.py': 'import numpy, yamlx\ndef job(x): return x\n' };
  const of = (imageName: string): Record<string, string> => ({
    ...files,
    'tool_manifest.json': written(['job', { imageName, functions: [{ name: 'job', module: 'jobs' }] }]),
  });
  t.deepEqual(await warningsOf(t, of('example/one:1')), []);
  t.regex((await warningsOf(t, of('capstan/base-python'))).join(), /: yamlx \(jobs\.py:1\)\./);
});

test('Node: what a script of a command imports is named, in both kinds of projects', async (t) => {
  const script = {
    'jobs/serve.mjs': "import 'node:http';\nimport './own.mjs';\nimport 'expresss';\n",
    'jobs/own.mjs': "import 'deepx';\n",
  };
  const command = ['node', '--enable-source-maps', './jobs/serve.mjs', '$PORT'];
  const expected = /: expresss \(jobs\/serve\.mjs:3\), deepx \(jobs\/own\.mjs:1\)\. Name them in package\.json/;
  const main = `import { endpoint } from '@capstan/sdk';\nendpoint({ name: 'one', loadBalanced: true, command: ${JSON.stringify(command)} });\n`;
  t.regex((await warningsOf(t, { ...script, 'main.ts': main })).join(), expected);
  const manifest = { 'tool_manifest.json': written(['one', { is_load_balanced: true, command }]) };
  t.regex((await warningsOf(t, { ...script, ...manifest })).join(), expected);
});

test('Node: what folders above the project have is no package of a build', async (t) => {
  const files = {
    'node_modules/left-padd/index.js': 'module.exports = 1;',
    'one/project/main.ts': NODE,
    'one/project/own.ts': 'export const own = 1;\n',
  };
  t.regex((await warningsOf(t, files, [], 'one/project')).join(), /: left-padd \(main\.ts:4\)/);
});

/** What a project's own files say of its Python packages: requirements, pyproject.toml of any tool, lock files. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { findLockFile, readLockFile } from '../../compiler/build/lock-files.ts';
import { readPipSettings } from '../../compiler/build/pip-settings.ts';
import { poetryRequirements, poetrySchema, versionsOf } from '../../compiler/build/poetry.ts';
import { requirementName } from '../../compiler/build/python-names.ts';
import { pinsOf, readPythonProject } from '../../compiler/build/python-project.ts';
import { readPyproject } from '../../compiler/build/pyproject.ts';
import { readRequirements } from '../../compiler/build/requirements-file.ts';
import { graphOf } from '../../compiler/build/uv-installer.ts';
import { writeFiles } from './fakes/package-world.ts';
import { folderOf } from '../support/folder.ts';

const none = (): undefined => undefined;

test('requirements.txt: included files, options of pip, hashes, variables and continued lines', async (t) => {
  const folder = await folderOf(t);
  t.deepEqual((await readRequirements(folder, none)).requirements, []);
  await writeFiles(folder, {
    'requirements.txt': [
      '\uFEFF# head',
      '-r sub/base.txt  # more',
      '-c limits.txt',
      '-i https://${NAME}:${SECRET}@index.example/simple',
      '--extra-index-url=https://extra.example/simple',
      '--find-links ./wheels',
      '--pre',
      '--prefer-binary',
      '--only-binary=:all:',
      'numpy == 2.1.0 \\',
      '    --hash=sha256:aa \\',
      '    --hash=sha256:bb',
      'requests[socks]>=2 ; python_version > "3.8"',
      '-e ./own',
      'wheels/left-1.0-py3-none-any.whl',
      'git+https://example.com/repo.git@main#egg=name',
      '',
    ].join('\r\n'),
    'sub/base.txt': 'six\n-r ../requirements.txt\n-e../other\n',
    'limits.txt': 'six<2\n',
  });
  const read = await readRequirements(folder, (name) => ({ NAME: 'me' })[name]);
  t.deepEqual(read.requirements, [
    'six',
    join(folder, 'other'),
    'numpy == 2.1.0',
    'requests[socks]>=2 ; python_version > "3.8"',
    join(folder, 'own'),
    join(folder, 'wheels/left-1.0-py3-none-any.whl'),
    'git+https://example.com/repo.git@main#egg=name',
  ]);
  t.deepEqual(read.constraints, ['six<2']);
  t.deepEqual(read.indexes, {
    index: 'https://me:${SECRET}@index.example/simple',
    extraIndexes: ['https://extra.example/simple'],
    findLinks: [join(folder, 'wheels')],
    noIndex: false,
    pre: true,
  });
  t.deepEqual([...read.hashes], [['numpy==2.1.0', ['sha256:aa', 'sha256:bb']]]);
  for (const [text, message] of [
    ['six\n--global-option=x\n', /^requirements\.txt:2: the option --global-option is not supported$/],
    ['-r absent.txt\n', /^requirements\.txt:1: cannot read absent\.txt$/],
  ] as const) {
    await writeFile(join(folder, 'requirements.txt'), text);
    await t.throwsAsync(readRequirements(folder, none), { message });
  }
});

test('pyproject.toml: what is not TOML or not a list is named with its place', async (t) => {
  const folder = await folderOf(t);
  const read = async (text: string): Promise<Awaited<ReturnType<typeof readPyproject>>> => {
    await writeFile(join(folder, 'pyproject.toml'), text);
    return readPyproject(folder);
  };
  t.deepEqual(await readPyproject(folder), { dependencies: [], extraIndexes: [], places: new Map(), warnings: [] });
  t.deepEqual((await read('[project]\ndependencies = ["a>1; python_version > \'3\'", "b"]\n')).dependencies, [
    "a>1; python_version > '3'",
    'b',
  ]);
  await t.throwsAsync(read('[project\ndependencies = []\n'), { message: /^pyproject\.toml is not valid TOML: .*line 1/ });
  await t.throwsAsync(read('[project]\ndependencies = "a"\n'), { message: /dependencies of \[project\] must be an array of strings/ });
  t.regex((await read('[project]\ndynamic = ["dependencies"]\n')).warnings.join(), /dynamic and are not read/);
  const sources = await read(`
[project]
dependencies = ["torch>=2", "mine[fast]>1; sys_platform == 'linux'", "near", "far"]
[tool.uv.sources]
torch = { index = "cpu" }
Mine = { git = "https://example.com/mine.git", tag = "v1" }
near = { path = "../near lib" }
far = [{ url = "https://example.com/far-1-py3-none-any.whl", marker = "sys_platform == 'linux'" }]
[[tool.uv.index]]
name = "cpu"
url = "https://cpu.example/simple"
explicit = true
[[tool.uv.index]]
name = "unused"
url = "https://unused.example/simple"
explicit = true
[dependency-groups]
dev = ["pytest"]
`);
  t.deepEqual(sources.dependencies, [
    'torch>=2',
    "mine[fast] @ git+https://example.com/mine.git@v1 ; sys_platform == 'linux'",
    `near @ file://${encodeURI(join(folder, '../near lib'))}`,
    'far @ https://example.com/far-1-py3-none-any.whl',
  ]);
  t.deepEqual(sources.extraIndexes, ['https://cpu.example/simple']);
});

test("Poetry's own table becomes requirements, unless [project] has dependencies", async (t) => {
  const table = poetrySchema.parse({
    python: '^3.11',
    requests: '*',
    caret: '^1.2.3',
    zero: '^0.2.3',
    tilde: '~1.2',
    exact: '1.4',
    wild: '2.*',
    range: '>=1.0,<2.0, !=1.5',
    extras: { version: '^2', extras: ['a', 'b'], python: '>=3.9,<3.13' },
    marked: { version: '>=1', markers: "sys_platform == 'linux' or extra == 'x'" },
    optional: { version: '1', optional: true },
    several: [
      { version: '<2', python: '<3.10' },
      { version: '>=2', python: '>=3.10.1' },
    ],
    repo: { git: 'git@example.com:me/repo.git', rev: 'abc', subdirectory: 'py' },
    wheel: { url: 'https://example.com/wheel-1-py3-none-any.whl' },
  });
  t.deepEqual(poetryRequirements(table), [
    'requests',
    'caret>=1.2.3,<2',
    'zero>=0.2.3,<0.3',
    'tilde>=1.2,<1.3',
    'exact==1.4',
    'wild==2.*',
    'range>=1.0,<2.0,!=1.5',
    'extras[a,b]>=2,<3 ; python_version >= "3.9" and python_version < "3.13"',
    "marked>=1 ; (sys_platform == 'linux' or extra == 'x')",
    'several<2 ; python_version < "3.10"',
    'several>=2 ; python_full_version >= "3.10.1"',
    'repo @ git+ssh://git@example.com/me/repo.git@abc#subdirectory=py',
    'wheel @ https://example.com/wheel-1-py3-none-any.whl',
  ]);
  t.deepEqual(versionsOf('^0.0.3', 'x'), ['>=0.0.3', '<0.0.4']);
  t.deepEqual(versionsOf('^0', 'x'), ['>=0', '<1']);
  t.deepEqual(versionsOf('~1', 'x'), ['>=1', '<2']);
  t.deepEqual(versionsOf('>=1 <2', 'x'), ['>=1', '<2']);
  t.throws(() => versionsOf('^1 || ^2', 'x'), { message: /version \^1 \|\| \^2 of x .* has alternatives/ });
  t.throws(() => versionsOf('latest', 'x'), { message: /latest is not a version of x/ });

  const folder = await folderOf(t);
  await writeFiles(folder, { 'pyproject.toml': '[tool.poetry.dependencies]\npython = "^3.11"\nsix = "^1.16"\nown = { path = "lib" }\n' });
  t.deepEqual((await readPyproject(folder)).dependencies, ['six>=1.16,<2', `own @ file://${join(folder, 'lib')}`]);
  await writeFiles(folder, { 'pyproject.toml': '[project]\ndependencies = ["idna"]\n[tool.poetry.dependencies]\nsix = "^1.16"\n' });
  t.deepEqual((await readPyproject(folder)).dependencies, ['idna']);
});

test('lock files of uv, Poetry and PEP 751 give versions and hashes; what they lack is told', async (t) => {
  const folder = await folderOf(t);
  const read = async (files: Readonly<Record<string, string>>): Promise<Awaited<ReturnType<typeof readLockFile>>> => {
    await writeFiles(folder, files);
    const lock = await findLockFile(folder);
    if (lock === null) throw new Error('there is no lock file');
    return readLockFile(lock, folder);
  };
  t.is(await findLockFile(folder), null);
  const pylock = await read({
    'pylock.toml': `lock-version = "1.0"
[[packages]]
name = "six"
version = "1.17.0"
marker = "python_version > '3'"
wheels = [{ url = "https://x.example/six.whl", hashes = { sha256 = "aa" } }]
[[packages]]
name = "repo"
vcs = { type = "git", url = "https://example.com/repo.git", commit-id = "abc" }
[[packages]]
name = "own"
directory = { path = "." }
`,
  });
  t.deepEqual(pylock.constraints, ["six==1.17.0 ; (python_version > '3')", 'repo @ git+https://example.com/repo.git@abc']);
  t.deepEqual([...pylock.hashes], [['six==1.17.0', ['sha256:aa']]]);
  const poetry = await read({
    'poetry.lock': `[[package]]
name = "PyYAML"
version = "6.0.3"
optional = false
files = [{ file = "a.whl", hash = "sha256:aa" }, { file = "b.whl", hash = "sha256:bb" }]
[package.dependencies]
other = "*"
[[package]]
name = "torch"
version = "2.5.0+cpu"
files = []
[package.source]
type = "legacy"
url = "https://download.example/cpu"
reference = "cpu"
[[package]]
name = "repo"
version = "1"
files = []
[package.source]
type = "git"
url = "https://example.com/repo.git"
reference = "main"
resolved_reference = "abc"
[[package]]
name = "near"
version = "1"
files = []
[package.source]
type = "directory"
url = "../near"
[metadata]
content-hash = "x"
`,
  });
  t.deepEqual(poetry.constraints, ['pyyaml==6.0.3', 'torch==2.5.0+cpu', 'repo @ git+https://example.com/repo.git@abc']);
  t.deepEqual([...poetry.hashes], [['pyyaml==6.0.3', ['sha256:aa', 'sha256:bb']]]);
  await writeFiles(folder, {
    'uv.lock': `version = 1
requires-python = ">=3.11"
[[package]]
name = "app"
version = "1"
source = { virtual = "." }
[[package]]
name = "numpy"
version = "1.26.4"
source = { registry = "https://pypi.org/simple" }
resolution-markers = ["python_version < '3.12'", "sys_platform == 'win32'"]
sdist = { url = "https://x.example/numpy.tar.gz", hash = "sha256:cc" }
wheels = [{ url = "https://x.example/numpy.whl", hash = "sha256:dd" }]
[[package]]
name = "repo"
version = "1"
source = { git = "https://example.com/repo.git?rev=main#abc" }
`,
    'pyproject.toml': '[project]\ndependencies = ["numpy", "Fresh>1"]\n',
  });
  const project = await readPythonProject(folder, none);
  const pins = await pinsOf(project, folder);
  t.deepEqual(pins.constraints, [
    "numpy==1.26.4 ; ((python_version < '3.12') or (sys_platform == 'win32'))",
    'repo @ git+https://example.com/repo.git@abc',
  ]);
  t.deepEqual([...pins.hashes], [['numpy==1.26.4', ['sha256:dd', 'sha256:cc']]]);
  t.deepEqual(pins.warnings, ['uv.lock does not have fresh: the newest versions are installed; regenerate the lock file']);
  await t.throwsAsync(read({ 'uv.lock': '[[package]]\nversion = "1"\n' }), { message: /^uv\.lock is not a valid lock file: / });
});

test("uv's annotated list and pip's settings are read", (t) => {
  t.deepEqual(
    [
      ...graphOf(
        'numpy==2.4.6    # via pandas, -r in.txt\nsix @ https://x.example/six.whl#sha256=a  # via -r in.txt\n./lib    # via -r in.txt\nalone==1\n',
      ),
    ],
    [
      ['numpy==2.4.6', { requirement: 'numpy==2.4.6', via: ['pandas', '-r in.txt'] }],
      ['six @ https://x.example/six.whl#sha256=a', { requirement: 'six @ https://x.example/six.whl#sha256=a', via: ['-r in.txt'] }],
      ['./lib', { requirement: './lib', via: ['-r in.txt'] }],
      ['alone==1', { requirement: 'alone==1', via: [] }],
    ],
  );
  t.deepEqual(
    readPipSettings(
      "global.index-url='https://global.example'\ninstall.index-url='https://install.example'\n:env:.find-links='/a /b'\nglobal.trusted-host='h1\\nh2'\nglobal.no-index='true'\ndownload.index-url='x'\n",
    ),
    { index: 'https://install.example', extraIndexes: [], findLinks: ['/a', '/b'], noIndex: true, trustedHosts: ['h1', 'h2'] },
  );
  for (const [line, name] of [
    ['NumPy[x]>=1', 'numpy'],
    ['a.b_c==1', 'a-b-c'],
    ['wheels/left-1.0-py3-none-any.whl', 'left'],
    ['my @ git+https://example.com/x', 'my'],
    ['git+https://example.com/x', 'git+https://example-com/x'],
  ] as const)
    t.is(requirementName(line), name, line);
});

/** `[tool.uv.sources]`: entries with markers, members of workspaces, and sources that cannot be used. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { hostMarkers, markerHolds } from '../../compiler/build/markers.ts';
import { readPyproject, type Pyproject } from '../../compiler/build/pyproject.ts';
import { readPythonProject, requirementsFor } from '../../compiler/build/python-project.ts';
import { folderOf } from '../support/folder.ts';
import { writeFiles } from './fakes/package-world.ts';

const linux = hostMarkers('3.11');
const macOs = { ...linux, sys_platform: 'darwin', platform_system: 'Darwin', platform_machine: 'arm64' };

async function reading(t: ExecutionContext, text: string, environment = linux): Promise<Pyproject> {
  return readPyproject(await folderOf(t, { 'pyproject.toml': text }), environment);
}

test('markers hold as installers evaluate them', (t) => {
  const holds = (marker: string): boolean => markerHolds(marker, linux, 'here');
  for (const marker of [
    "sys_platform == 'linux'",
    `platform_system=="Linux" and platform_machine == "x86_64"`,
    "sys_platform == 'win32' or (os_name == 'posix' and python_version >= '3.9')",
    "python_version < '3.12'",
    "python_version ~= '3.10'",
    "python_full_version == '3.11.*'",
    "python_version != '3.1'",
    "python_version in '3.10 3.11'",
    "'linux' in sys_platform",
    "sys_platform not in 'win32 darwin'",
    "os.name == 'posix'",
    "implementation_name == 'cpython'",
    "python_version == '3.11.0'",
  ])
    t.true(holds(marker), marker);
  for (const marker of [
    "sys_platform == 'darwin'",
    "python_version >= '3.12'",
    "python_version < '3.2'",
    "sys_platform == 'linux' and python_version > '3.11'",
    "extra == 'gpu'",
  ])
    t.false(holds(marker), marker);
  for (const marker of [
    'x',
    "sys_platform == 'linux",
    "sys_platform = 'linux'",
    '',
    "platform == 'linux'",
    "os_name == 'a' and",
    "(os_name == 'a'",
  ])
    t.throws(() => holds(marker), { message: /^here: .*is not an environment marker/ }, marker);
});

const MARKED = `
[project]
dependencies = ["torch>=2; python_version > '3'", "mine", "other"]
[tool.uv.sources]
torch = [
  { index = "mac", marker = "sys_platform == 'darwin'" },
  { index = "cpu", marker = "sys_platform == 'linux'" },
]
mine = [
  { path = "mac", marker = "sys_platform == 'darwin'" },
  { git = "https://example.com/mine.git", rev = "abc", subdirectory = "py", marker = "sys_platform == 'linux'" },
]
other = { url = "https://example.com/other.zip", subdirectory = "py", marker = "sys_platform == 'darwin'" }
[[tool.uv.index]]
name = "mac"
url = "https://mac.example/simple"
explicit = true
[[tool.uv.index]]
name = "cpu"
url = "https://cpu.example/simple"
explicit = true
`;

test('of entries with markers, that of the hosts counts, and on this machine that of this machine', async (t) => {
  const hosts = await reading(t, MARKED);
  t.deepEqual(hosts.dependencies, [
    "torch>=2; python_version > '3'",
    'mine @ git+https://example.com/mine.git@abc#subdirectory=py',
    'other',
  ]);
  t.deepEqual(hosts.extraIndexes, ['https://cpu.example/simple']);
  const here = await reading(t, MARKED, macOs);
  t.regex(here.dependencies[1] ?? '', /^mine @ file:\/\/\/.*\/mac$/);
  t.is(here.dependencies[2], 'other @ https://example.com/other.zip#subdirectory=py');
  t.deepEqual(here.extraIndexes, ['https://mac.example/simple']);
});

const member = (name: string, more = ''): string => `[project]\nname = "${name}"\nversion = "9.9.9"\n${more}`;
const WORKSPACE = `
[project]
name = "app"
dependencies = ["Six>=1; python_version > '3'"]
[tool.uv.sources]
six = { workspace = true }
[tool.uv.workspace]
members = ["packages/*", "apps/*"]
exclude = ["packages/old"]
`;

test('a member of the workspace is taken from its folder, for every file that names it', async (t) => {
  const folder = await folderOf(t, {
    'pyproject.toml': WORKSPACE,
    'requirements.txt': 'six\nidna\n',
    'packages/six/pyproject.toml': member('six'),
    'packages/notes.txt': '',
    'packages/no-project/a.py': '',
  });
  const six = `@ file://${folder}/packages/six`;
  const project = await readPythonProject(folder, () => undefined);
  t.deepEqual(project.requirements, [`six ${six}`, 'idna', `Six ${six} ; python_version > '3'`]);
  const endpoint = { settings: { dependencies: ['six>1', 'attrs'] }, app: null } as unknown as Parameters<
    typeof requirementsFor
  >[2][number];
  t.true(requirementsFor(folder, project, [endpoint]).all.includes(`six ${six}`));
  t.false(requirementsFor(folder, project, [endpoint]).all.includes('six>1'));
});

test('a project that is itself a member finds the others; what they name in turn comes from their folders, too', async (t) => {
  const uses = (name: string): string => `dependencies = ["${name}"]\n[tool.uv.sources]\n${name} = { workspace = true }\n`;
  const root = await folderOf(t, {
    'pyproject.toml': '[tool.uv.workspace]\nmembers = ["packages/*", "apps/**"]\n',
    'apps/api/pyproject.toml': member('api', uses('six')),
    'packages/six/pyproject.toml': member('six', uses('attrs')),
    'packages/attrs/pyproject.toml': member(
      'attrs',
      'dependencies = ["idna", "near"]\n[tool.uv.sources]\nnear = { path = "../../near" }\n',
    ),
    'near/pyproject.toml': member('near', uses('six')),
  });
  const { requirements } = await readPythonProject(join(root, 'apps/api'), () => undefined);
  t.deepEqual(requirements, [`six @ file://${root}/packages/six`, `attrs @ file://${root}/packages/attrs`, `near @ file://${root}/near`]);
});

test('sources of a workspace’s root hold for its members, unless a member has its own', async (t) => {
  const root = await folderOf(t, {
    'pyproject.toml': `[tool.uv.workspace]\nmembers = ["apps/*", "packages/*"]\n[tool.uv.sources]\nsix = { workspace = true }\nidna = { path = "idna" }\n`,
    'apps/api/pyproject.toml': member('api', 'dependencies = ["six", "idna", "attrs"]\n[tool.uv.sources]\nidna = { path = "own" }\n'),
    'packages/six/pyproject.toml': member('six'),
    'other/pyproject.toml': member('other', 'dependencies = ["six"]\n'),
  });
  const { requirements } = await readPythonProject(join(root, 'apps/api'), () => undefined);
  t.deepEqual(requirements, [`six @ file://${root}/packages/six`, `idna @ file://${root}/apps/api/own`, 'attrs']);
  t.deepEqual((await readPythonProject(join(root, 'other'), () => undefined)).requirements, ['six'], 'it is no member');
});

test('a member that is named without a source comes from its folder, too: a public package may have its name', async (t) => {
  const root = await folderOf(t, {
    'pyproject.toml': `[project]\nname = "root"\ndependencies = ["six"]\n[tool.uv.workspace]\nmembers = ["apps/*", "packages/*"]\n`,
    'apps/api/pyproject.toml': member('api'),
    'apps/api/requirements.txt': 'Six>=1\nidna\n',
    'packages/six/pyproject.toml': member(
      'six',
      'dependencies = ["attrs", "six", "near"]\n[tool.uv.sources]\nnear = [{ workspace = true, marker = "sys_platform == \'darwin\'" }]\n',
    ),
    'packages/attrs/pyproject.toml': member('attrs'),
    'packages/near/pyproject.toml': member('near'),
  });
  const six = `@ file://${root}/packages/six`;
  const attrs = `attrs @ file://${root}/packages/attrs`;
  t.deepEqual((await readPythonProject(join(root, 'apps/api'), () => undefined)).requirements, [`Six ${six}`, 'idna', attrs]);
  t.deepEqual((await readPythonProject(root, () => undefined)).requirements, [`six ${six}`, attrs]);
  const { dependencies } = await readPyproject(join(root, 'packages/six'));
  t.deepEqual(dependencies, [attrs, 'six', 'near'], 'its own name is its own matter; a source whose marker does not hold is none');
});

test('a source that leads nowhere is refused: the package would come from a public index', async (t) => {
  const folder = await folderOf(t, { 'packages/old/pyproject.toml': member('six'), 'packages/other/pyproject.toml': member('other') });
  const refused = async (text: string, message: RegExp): Promise<void> => {
    await writeFiles(folder, { 'pyproject.toml': text });
    await t.throwsAsync(readPyproject(folder), { code: 'INVALID_MANIFEST', message });
  };
  await refused(WORKSPACE, /^pyproject\.toml: tool\.uv\.sources\.six: workspace = true, and no member .* \(its members: app, other\)$/);
  const uses = (source: string): string => `[project]\ndependencies = ["six"]\n[tool.uv.sources]\nsix = ${source}\n`;
  await refused(uses('{ workspace = true }'), /six: workspace = true, .*there is no \[tool\.uv\.workspace\] here or above/);
  await refused(uses('{ editable = true }'), /six: the source must be git, url, path, index, or workspace = true$/);
  await refused(uses('[{ path = "a", marker = "linux" }]'), /six: linux is not an environment marker$/);
});

test('Poetry says where a package of [project] comes from', async (t) => {
  const folder = await folderOf(t, {
    'pyproject.toml': '[project]\ndependencies = ["own>1", "six"]\n[tool.poetry.dependencies]\nown = { path = "lib" }\nsix = "^1"\n',
  });
  await mkdir(join(folder, 'lib'));
  t.deepEqual((await readPyproject(folder)).dependencies, [`own @ file://${folder}/lib`, 'six']);
});

/** Packages in artifacts: wheels and tarballs that the test makes, installed by the real pip and npm without any index. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import { create, list } from 'tar';

import { readPyproject } from '../../cli/build/pyproject.ts';
import { run } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');
const pip = spawnSync('python3', ['-m', 'pip', '--version']).status === 0 ? null : 'python3 has no pip here';
const npm = spawnSync('npm', ['--version']).status === 0 ? null : 'there is no npm here';

interface Built {
  readonly code: number | string;
  readonly stderr: string;
  readonly digest: string;
  readonly names: readonly string[];
  readonly endpoints: readonly { readonly name: string; readonly packages: readonly string[]; readonly python: string }[];
}

interface World {
  readonly folder: string;
  build(...args: string[]): Promise<Built>;
}

async function world(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<World> {
  const root = await folderOf(t);
  const folder = join(root, 'app');
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const env = { PIP_NO_INDEX: '1', PIP_FIND_LINKS: join(folder, 'wheels'), CAPSTAN_CACHE_DIR: join(root, 'cache') };
  return {
    folder,
    async build(...args) {
      const running = run([bin, 'build', '--json', ...args], { cwd: folder, env });
      const code = await running.ended;
      const names: string[] = [];
      if (code === 0) await list({ file: join(folder, '.tool/artifact.tar.gz'), onReadEntry: (entry) => void names.push(entry.path) });
      const told = (code === 0 ? JSON.parse(running.stdout()) : { digest: '', endpoints: [] }) as Pick<Built, 'digest' | 'endpoints'>;
      return { code, stderr: running.stderr(), names, ...told };
    },
  };
}

/** Makes `wheels/<name>-1.0-py3-none-<platform>.whl`. */
function wheel(folder: string, name: string, needs: readonly string[] = [], platform = 'any'): void {
  const script = `
import sys, zipfile, os
folder, name, platform, *needs = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
with zipfile.ZipFile("%s/%s-1.0-py3-none-%s.whl" % (folder, name, platform), "w") as made:
    made.writestr(name + "/__init__.py", "value = %r\\n" % name)
    info = name + "-1.0.dist-info/"
    made.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: %s\\nVersion: 1.0\\n%s" % (name, "".join("Requires-Dist: %s\\n" % each for each in needs)))
    made.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-%s\\n" % platform)
    made.writestr(info + "RECORD", "")
    if platform != "any":
        made.writestr("%s/native.cpython-311-x86_64-linux-gnu.so" % name, "")
`;
  execFileSync('python3', ['-c', script, join(folder, 'wheels'), name, platform, ...needs]);
}

const inside = (built: Built, folder: string): string[] => [
  ...new Set(built.names.filter((name) => name.startsWith(`${folder}/`)).map((name) => name.split('/')[1] ?? '')),
];

const declaring = (dependencies: string): string => `from capstan import Endpoint

@Endpoint(name="one", dependencies=${dependencies})
def one():
    return 1
`;

(pip === null ? test : test.skip)(
  `wheels go along, without what the base image has and what only that needs${pip === null ? '' : ` (${pip})`}`,
  async (t) => {
    const { folder, build } = await world(t, { 'one.py': declaring('["left", "torch>=1"]'), '.toolignore': 'wheels/\n' });
    wheel(folder, 'left', ['right', 'numpy']);
    wheel(folder, 'right', [], 'manylinux2014_x86_64');
    wheel(folder, 'numpy', ['only_numpy']);
    wheel(folder, 'only_numpy');
    const built = await build();
    t.is(built.code, 0, built.stderr);
    t.deepEqual(inside(built, 'python_packages').sort(), ['capstan', 'left', 'left-1.0.dist-info', 'right', 'right-1.0.dist-info']);
    t.deepEqual(built.endpoints[0]?.packages, ['torch', 'numpy']);
    t.regex(built.endpoints[0]?.python ?? '', /^3\.\d+$/, 'a compiled module is for one Python');

    await writeFile(join(folder, 'one.py'), `${declaring('["left", "torch>=1"]')}# changed\n`);
    // What is there is not asked for again.
    await rm(join(folder, 'wheels'), { recursive: true });
    const changed = await build();
    t.is(changed.code, 0, changed.stderr);
    t.not(changed.digest, built.digest);
    await writeFile(join(folder, 'one.py'), declaring('["left", "torch>=1"]'));
    t.is((await build()).digest, built.digest);
    t.is((await build('--refresh')).code, 65);
  },
);

(pip === null ? test : test.skip)(
  `options leave out and bundle; what has no wheel is named${pip === null ? '' : ` (${pip})`}`,
  async (t) => {
    const { folder, build } = await world(t, {
      'one.py': declaring('["left"]'),
      '.toolignore': 'wheels/\n',
      'requirements.txt': 'right # why\n',
      'pyproject.toml': '[project]\nname = "app"\ndependencies = [\n  "more >= 1",\n]\n',
    });
    wheel(folder, 'left', ['numpy']);
    for (const name of ['right', 'numpy', 'more']) wheel(folder, name);
    const bundled = await build('--bundle-base-packages', '--exclude', 'right');
    t.is(bundled.code, 0, bundled.stderr);
    t.is(bundled.endpoints[0]?.python, '', 'what is not compiled is for any');
    t.deepEqual(
      inside(bundled, 'python_packages').filter((name) => !name.endsWith('-info')),
      ['capstan', 'left', 'more', 'numpy'],
    );
    t.deepEqual(bundled.endpoints[0]?.packages, []);
    // None of the places wins over another.
    await writeFile(join(folder, 'requirements.txt'), 'more < 1\n');
    const contrary = await build();
    t.is(contrary.code, 65);
    t.regex(contrary.stderr, /✗ installing Python packages failed:\n[^]*more/);
    await writeFile(join(folder, 'requirements.txt'), '');
    await writeFile(join(folder, 'one.py'), declaring('["absent==3"]'));
    const refused = await build('--python', '3.99');
    t.is(refused.code, 65);
    t.regex(
      refused.stderr,
      /✗ installing Python packages failed:\n[^]*absent==3[^]*hint: Packages must have a wheel for Linux x86_64 and Python 3\.99/,
    );
  },
);

test('pyproject.toml: what is no TOML or no list is named with its place, what only Poetry reads is told', async (t) => {
  const { folder } = await world(t, { 'pyproject.toml': '[project]\nname = "app"\n' });
  const read = async (text: string): Promise<Awaited<ReturnType<typeof readPyproject>>> => {
    await writeFile(join(folder, 'pyproject.toml'), text);
    return readPyproject(folder);
  };
  t.deepEqual(await readPyproject(folder), { dependencies: [], warnings: [] });
  t.deepEqual((await read('[project]\ndependencies = ["a>1; python_version > \'3\'", "b"]\n')).dependencies, [
    "a>1; python_version > '3'",
    'b',
  ]);
  await t.throwsAsync(read('[project\ndependencies = []\n'), { message: /^pyproject\.toml is not valid TOML: .*line 1/ });
  await t.throwsAsync(read('[project]\ndependencies = "a"\n'), { message: /dependencies of \[project\] must be an array of strings/ });
  const poetry = await read('[tool.poetry.dependencies]\npython = "^3.11"\nrequests = "*"\n');
  t.regex(poetry.warnings.join(), /\[tool\.poetry\] \(requests\) are not read/);
});

(npm === null ? test : test.skip)(`packages of npm go along, those for this machine stay${npm === null ? '' : ` (${npm})`}`, async (t) => {
  const { folder, build } = await world(t, {
    'one.ts': `import { endpoint } from '@capstan/sdk';
export const one = endpoint({ name: 'one', dependencies: ['./vendor/right.tgz'] }, () => 1);
`,
    '.toolignore': 'vendor/\n',
    'package.json': JSON.stringify({ dependencies: { left: 'file:vendor/left.tgz', '@capstan/sdk': '*' } }),
    'node_modules/mine/index.js': '',
  });
  for (const name of ['left', 'right']) {
    const source = join(folder, 'vendor', name);
    await mkdir(join(source, 'package'), { recursive: true });
    await writeFile(join(source, 'package/package.json'), JSON.stringify({ name, version: '1.0.0' }));
    await writeFile(join(source, 'package/index.js'), '');
    await create({ cwd: source, file: join(folder, 'vendor', `${name}.tgz`), gzip: true }, ['package']);
  }
  const built = await build();
  t.is(built.code, 0, built.stderr);
  t.deepEqual(inside(built, 'node_modules').sort(), ['@capstan', 'left', 'right']);
  t.is((await readFile(join(folder, 'node_modules/mine/index.js'), 'utf8')).length, 0);
});

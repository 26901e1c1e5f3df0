/** Builds with packages of the real registries: what a lock file names is installed once and runs where it is unpacked. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { extract } from 'tar';

import { inside, packageWorld, withoutNpm, withoutUv } from './fakes/package-world.ts';

/** Whether a program reaches its registry; the package is small. */
const reaches = (program: string, args: readonly string[]): boolean => spawnSync(program, [...args], { timeout: 60_000 }).status === 0;
const pipTry = ['-m', 'pip', 'install', '--quiet', '--dry-run', '--no-deps', '--ignore-installed', '--retries', '0', 'six'];
const withoutPypi = withoutUv ?? (reaches('python3', pipTry) ? null : 'pip reaches no package index');
const withoutRegistry = withoutNpm ?? (reaches('npm', ['view', 'zod', 'version']) ? null : 'npm reaches no registry');

(withoutPypi === null ? test : test.skip)(
  `fastapi, pillow and numpy of PyPI: one line for what stays out, programs and compiled modules that run${withoutPypi === null ? '' : ` (${withoutPypi})`}`,
  async (t) => {
    const { folder, build } = await packageWorld(
      t,
      {
        'main.py': `import numpy
from capstan import Endpoint

@Endpoint(name="one")
def one():
    return 1
`,
        'requirements.txt': 'fastapi\nuvicorn\n',
        'pyproject.toml': '[tool.poetry.dependencies]\npython = "^3.8"\npillow = "*"\n',
      },
      { installer: 'uv', index: true },
    );
    const built = await build();
    t.is(built.code, 0, built.stderr);
    t.regex(built.stderr, /=> not bundled, because the base image has it: numpy \(\d+\.\d MB\); --bundle-base-packages bundles it\n/);
    t.deepEqual(built.endpoints[0]?.packages, ['numpy']);
    t.false(inside(built, 'python_packages').includes('numpy'));
    const place = join(folder, '../a b');
    await mkdir(place);
    await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
    t.regex(execFileSync(join(place, 'python_packages/bin/uvicorn'), ['--version'], { encoding: 'utf8', cwd: '/' }), /Running uvicorn/);
    const env = { PATH: process.env['PATH'], PYTHONPATH: join(place, 'python_packages') };
    const code = 'import PIL.Image, fastapi; print(PIL.Image.new("RGB", (2, 2)).size, fastapi.FastAPI().title)';
    t.is(execFileSync('python3', ['-c', code], { encoding: 'utf8', env }), '(2, 2) FastAPI\n');
    t.regex(await readFile(join(place, 'requirements.txt'), 'utf8'), /^fastapi==/m);

    const bundled = await build('--bundle-base-packages');
    t.is(bundled.code, 0, bundled.stderr);
    t.true(inside(bundled, 'python_packages').includes('numpy'));
    t.deepEqual(bundled.endpoints[0]?.packages, []);
    t.is((await build()).digest, built.digest, 'the cached packages give the same artifact');
  },
);

(withoutPypi === null ? test : test.skip)(
  `torch with CUDA is refused by its size before anything of it is downloaded${withoutPypi === null ? '' : ` (${withoutPypi})`}`,
  async (t) => {
    const { build } = await packageWorld(
      t,
      { 'main.py': 'from capstan import Endpoint\n\n@Endpoint(name="one", dependencies=["torch"])\ndef one():\n    return 1\n' },
      { installer: 'uv', index: true },
    );
    const refused = await build('--bundle-base-packages', '--python', '3.12');
    t.is(refused.code, 65, refused.stderr);
    t.regex(refused.stderr, /✗ the artifact is larger than 500\.0 MB \(about [\d.]+ GB compressed\); its largest parts: [^\n]*torch \(/);
  },
);

(withoutRegistry === null ? test : test.skip)(
  `zod of npm, by the lock file${withoutRegistry === null ? '' : ` (${withoutRegistry})`}`,
  async (t) => {
    const { folder, build } = await packageWorld(
      t,
      {
        'one.ts':
          "import { endpoint } from '@capstan/sdk';\nimport { z } from 'zod';\n\nexport const one = endpoint({ name: 'one' }, () => z.string().parse('x'));\n",
        'package.json': JSON.stringify({ name: 'app', dependencies: { zod: '^3.0.0' } }),
        'package-lock.json': JSON.stringify({
          name: 'app',
          lockfileVersion: 3,
          requires: true,
          packages: { '': { name: 'app', dependencies: { zod: '^3.0.0' } }, 'node_modules/zod': { version: '3.22.4' } },
        }),
      },
      { index: true },
    );
    const built = await build();
    t.is(built.code, 0, built.stderr);
    const place = join(folder, 'unpacked');
    await mkdir(place);
    await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
    t.is((JSON.parse(await readFile(join(place, 'node_modules/zod/package.json'), 'utf8')) as { version: string }).version, '3.22.4');
  },
);

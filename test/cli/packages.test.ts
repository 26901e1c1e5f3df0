/** Packages in artifacts: wheels and tarballs that the test makes, installed by the real uv, pip and npm without any index. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { create, extract } from 'tar';

import { declaring, inside, packageWorld, pathWith, wheel, withoutNpm, withoutPip, withoutUv, writeFiles } from './fakes/package-world.ts';
import { run } from './fakes/run.ts';

for (const installer of ['uv', 'pip'] as const) {
  const why = installer === 'uv' ? withoutUv : withoutPip;
  const check = why === null ? test : test.skip;
  const title = (text: string): string => `${installer}: ${text}${why === null ? '' : ` (${why})`}`;

  check(title('wheels go along, without what the base image has and what only that needs'), async (t) => {
    const { folder, build } = await packageWorld(
      t,
      { 'one.py': declaring('["left", "torch>=1"]'), '.toolignore': 'wheels/\n' },
      { installer },
    );
    wheel(folder, 'left', { needs: ['right', 'numpy'] });
    wheel(folder, 'right', { platform: 'manylinux2014_x86_64' });
    wheel(folder, 'numpy', { needs: ['only_numpy'] });
    wheel(folder, 'only_numpy');
    const built = await build();
    t.is(built.code, 0, built.stderr);
    t.deepEqual(inside(built, 'python_packages').sort(), ['capstan', 'left', 'left-1.0.dist-info', 'right', 'right-1.0.dist-info']);
    t.deepEqual(built.endpoints[0]?.packages, ['torch', 'numpy']);
    t.regex(built.endpoints[0]?.python ?? '', /^3\.\d+$/, 'a compiled module is for one Python');
    t.is(/installing with pip/.test(built.stderr), installer === 'pip', built.stderr);

    await writeFile(join(folder, 'one.py'), `${declaring('["left", "torch>=1"]')}# changed\n`);
    // What is there is not asked for again.
    await rm(join(folder, 'wheels'), { recursive: true });
    const changed = await build();
    t.is(changed.code, 0, changed.stderr);
    t.not(changed.digest, built.digest);
    await writeFile(join(folder, 'one.py'), declaring('["left", "torch>=1"]'));
    t.is((await build()).digest, built.digest);
    t.is((await build('--refresh')).code, 65);
    t.is((await build()).code, 0, 'what a failed refresh would have replaced is still there');
  });

  check(title('addresses of indexes, which may contain credentials, are no arguments of a program'), async (t) => {
    const { folder, build } = await packageWorld(
      t,
      {
        'one.py': declaring('["left"]'),
        '.toolignore': 'wheels/\n',
        'requirements.txt': '--extra-index-url https://user:s3cret@127.0.0.1:9/simple\n',
      },
      { installer },
    );
    wheel(folder, 'left');
    let seen = '';
    const watch = setInterval(() => (seen += argumentsOfAll()), 5);
    const built = await build();
    clearInterval(watch);
    t.is(built.code, 0, built.stderr);
    t.true(seen.includes('pip'), 'the installer was seen');
    t.false(seen.includes('s3cret'));
    t.false(built.stderr.includes('s3cret'));
  });

  check(title('the header of a script names its packages, also that of an application (PEP 723)'), async (t) => {
    const header = (text: string): string => `# /// script\n${text.replaceAll(/^/gm, '# ')}\n# ///\n`;
    const { folder, build } = await packageWorld(
      t,
      {
        'one.py': `${header('requires-python = ">=3.8"\ndependencies = [\n  "left>=1",\n]')}import left\n${declaring('["right"]')}`,
        'web.py': 'from capstan import Endpoint\nweb = Endpoint(name="web", app="site:app")\n',
        'site.py': `${header('dependencies = ["more"]')}async def app(scope, receive, send): ...\n`,
        '.toolignore': 'wheels/\n',
      },
      { installer },
    );
    for (const name of ['left', 'right', 'more', 'uvicorn', 'waitress', 'wsproto']) wheel(folder, name);
    const built = await build();
    t.is(built.code, 0, built.stderr);
    const names = inside(built, 'python_packages').filter((name) => /^(left|right|more)$/.test(name));
    t.deepEqual(names.sort(), ['left', 'more', 'right']);

    await writeFile(join(folder, 'one.py'), `${header('requires-python = ">=3.99"')}${declaring('[]')}`);
    const old = await build();
    t.is(old.code, 65);
    t.regex(old.stderr, /^✗ one\.py requires Python >=3\.99, and the build is for Python 3\.\d+$/m);
    await writeFile(join(folder, 'one.py'), `${header('dependencies = "left"')}${declaring('[]')}`);
    t.regex((await build()).stderr, /^✗ the header of one\.py: dependencies must be an array of strings$/m);
    await writeFile(join(folder, 'one.py'), `${header('dependencies = [')}${declaring('[]')}`);
    t.regex((await build()).stderr, /^✗ the header of one\.py is not valid TOML: /m);
  });

  check(title('options leave out and bundle; what has no wheel is named'), async (t) => {
    const { folder, build } = await packageWorld(
      t,
      {
        'one.py': `import triton\n${declaring('["left"]')}`,
        '.toolignore': 'wheels/\n',
        'requirements.txt': 'right # why\n',
        'pyproject.toml': '[project]\nname = "app"\ndependencies = [\n  "more >= 1",\n]\n',
      },
      { installer },
    );
    wheel(folder, 'left', { needs: ['numpy'] });
    for (const name of ['right', 'numpy', 'more', 'triton']) wheel(folder, name);
    const bundled = await build('--bundle-base-packages', '--exclude', 'right');
    t.is(bundled.code, 0, bundled.stderr);
    t.is(bundled.endpoints[0]?.python, '', 'what is not compiled is for any');
    t.deepEqual(
      inside(bundled, 'python_packages').filter((name) => !name.endsWith('-info')),
      ['capstan', 'left', 'more', 'numpy', 'triton'],
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
  });

  check(title('a lock file decides the versions; a path, an included file and a program go along'), async (t) => {
    const { folder, build } = await packageWorld(
      t,
      {
        'one.py': declaring('[]'),
        '.toolignore': 'wheels/\nlocal/\n',
        'requirements.txt': '-r more/base.txt\n',
        'more/base.txt': '../local\nmore\n',
        'local/setup.py': 'from setuptools import setup\nsetup(name="local", version="1.0", py_modules=["local"])\n',
        'local/pyproject.toml': '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        'local/local.py': 'value = 1\n',
        'local/backend.py': BACKEND,
        'pyproject.toml': '[project]\nname = "app"\nversion = "1"\ndependencies = ["left"]\n',
        'uv.lock': 'version = 1\n[[package]]\nname = "left"\nversion = "1.0"\nsource = { registry = "https://example.invalid/simple" }\n',
      },
      { installer },
    );
    wheel(folder, 'left', { needs: ['right'], program: 'left = left:main' });
    wheel(folder, 'left', { version: '2.0', program: 'left = left:main' });
    wheel(folder, 'more');
    for (const version of ['1.0', '2.0']) wheel(folder, 'right', { version });
    const built = await build();
    t.is(built.code, 0, built.stderr);
    t.regex(built.stderr, /! uv\.lock does not have more: /);
    const place = join(folder, 'unpacked elsewhere');
    await mkdir(place);
    await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
    t.is(await readFile(join(place, 'requirements.txt'), 'utf8'), 'left==1.0\nlocal==1.0\nmore==1.0\nright==2.0\n');
    t.is(execFileSync(join(place, 'python_packages/bin/left'), { encoding: 'utf8', cwd: '/' }), 'left 1.0\n');

    await writeFile(join(folder, 'local/local.py'), 'value = 2\n');
    await rm(place, { recursive: true });
    const changed = await build();
    t.is(changed.code, 0, changed.stderr);
    await mkdir(place);
    await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
    t.is(await readFile(join(place, 'python_packages/local.py'), 'utf8'), 'value = 2\n', 'a changed path is installed again');
  });

  check(title('hashes of a lock file are checked'), async (t) => {
    const lock = (hash: string): string =>
      `version = 1\n[[package]]\nname = "left"\nversion = "1.0"\nsource = { registry = "https://example.invalid/simple" }\nwheels = [{ url = "left-1.0-py3-none-any.whl", hash = "sha256:${hash}" }]\n`;
    const { folder, build } = await packageWorld(
      t,
      {
        'one.py': declaring('[]'),
        '.toolignore': 'wheels/\n',
        'pyproject.toml': '[project]\nname = "app"\nversion = "1"\ndependencies = ["left"]\n',
        'uv.lock': lock('0'.repeat(64)),
      },
      { installer },
    );
    wheel(folder, 'left');
    const refused = await build();
    t.is(refused.code, 65);
    t.regex(refused.stderr, /hash/i);
    const [digest = ''] = execFileSync('sha256sum', [join(folder, 'wheels/left-1.0-py3-none-any.whl')], { encoding: 'utf8' }).split(' ');
    await writeFile(join(folder, 'uv.lock'), lock(digest));
    const built = await build();
    t.is(built.code, 0, built.stderr);
  });
}

/** A build backend that needs no other package. */
const BACKEND = `
import zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "local-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel_directory + "/" + name, "w") as made:
        made.write("local.py")
        info = "local-1.0.dist-info/"
        made.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: local\\nVersion: 1.0\\n")
        made.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr(info + "RECORD", "local.py,,\\n%sMETADATA,,\\n%sWHEEL,,\\n%sRECORD,,\\n" % (info, info, info))
    return name
`;

(withoutUv === null ? test : test.skip)(
  `two builds of the same packages at once install them once${withoutUv === null ? '' : ` (${withoutUv})`}`,
  async (t) => {
    const { folder, cacheDir } = await packageWorld(t, {});
    for (const app of ['a', 'b']) await writeFiles(join(folder, app), { 'one.py': declaring('["left"]') });
    wheel(folder, 'left');
    const env = {
      PIP_NO_INDEX: '1',
      PIP_FIND_LINKS: join(folder, 'wheels'),
      CAPSTAN_CACHE_DIR: cacheDir,
      UV_CACHE_DIR: `${cacheDir}-uv`,
      PATH: pathWith('uv'),
    };
    const main = join(import.meta.dirname, '../../cli/main.ts');
    const both = ['a', 'b'].map((app) => run([main, 'build', app], { cwd: folder, env }));
    for (const each of both) t.is(await each.ended, 0, each.stderr());
    const layers = await readdir(join(cacheDir, 'layers'));
    t.is(layers.filter((name) => !name.startsWith('.')).length, 1, layers.join());
    t.is(layers.filter((name) => name.startsWith('.')).length, 0, layers.join());
  },
);

(withoutNpm === null ? test : test.skip)(
  `packages of npm go along, those for this machine stay${withoutNpm === null ? '' : ` (${withoutNpm})`}`,
  async (t) => {
    const { folder, build } = await packageWorld(t, {
      'one.ts': `import { endpoint } from '@capstan/sdk';
export const one = endpoint({ name: 'one', dependencies: ['./vendor/right.tgz'] }, () => 1);
`,
      '.toolignore': 'vendor/\n',
      'package.json': JSON.stringify({ dependencies: { left: 'file:vendor/left.tgz', '@capstan/sdk': '*' } }),
      'node_modules/mine/index.js': '',
    });
    for (const name of ['left', 'right']) {
      const source = join(folder, 'vendor', name);
      await writeFiles(source, {
        'package/package.json': JSON.stringify({ name, version: '1.0.0', bin: 'index.js' }),
        'package/index.js': `#!/usr/bin/env node\nconsole.log('${name}');\n`,
      });
      await create({ cwd: source, file: join(folder, 'vendor', `${name}.tgz`), gzip: true }, ['package']);
    }
    const built = await build();
    t.is(built.code, 0, built.stderr);
    t.deepEqual(inside(built, 'node_modules').sort(), ['.bin', '@capstan', 'left', 'right']);
    t.is((await readFile(join(folder, 'node_modules/mine/index.js'), 'utf8')).length, 0);
    const place = join(folder, 'unpacked');
    await mkdir(place);
    await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
    t.is(execFileSync(join(place, 'node_modules/.bin/left'), { encoding: 'utf8' }), 'left\n');
  },
);

for (const installer of ['uv', 'pip'] as const) {
  const why = installer === 'uv' ? withoutUv : withoutPip;
  (why === null ? test : test.skip)(
    `${installer}: a project has one environment for the same packages, with the programs${why === null ? '' : ` (${why})`}`,
    async (t) => {
      const { folder, environment } = await packageWorld(
        t,
        { 'one.py': `import numpy\n${declaring('["left"]')}`, 'requirements.txt': 'right\n', '.toolignore': 'wheels/\n' },
        { installer },
      );
      wheel(folder, 'left', { needs: ['right'], program: 'left = left:main' });
      for (const name of ['right', 'numpy']) wheel(folder, name);
      const made = await environment();
      t.true(made?.isNew);
      const env = { PATH: `${made?.scripts ?? ''}:${process.env['PATH'] ?? ''}`, PYTHONPATH: made?.path ?? '' };
      const code = 'import left, right, numpy; print(numpy.version)';
      t.is(execFileSync(made?.python ?? '', ['-c', code], { encoding: 'utf8', env }).length > 0, true);
      t.is(execFileSync('left', { encoding: 'utf8', env }), 'left 1.0\n');
      await rm(join(folder, 'wheels'), { recursive: true });
      t.deepEqual(await environment(), { ...made, isNew: false });
      await writeFile(join(folder, 'requirements.txt'), 'other\n');
      await t.throwsAsync(environment(), { message: /installing Python packages failed/ });
      await writeFiles(folder, { 'one.py': declaring('[]'), 'requirements.txt': '' });
      t.is(await environment(), null);
    },
  );
}

/** The arguments of all processes, as every user of the machine reads them. */
function argumentsOfAll(): string {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return ''; // it has ended
      }
    })
    .join('\n');
}

/** A command whose program or script is not there is refused by the build, and the project's own scripts are programs of the artifact. */
import { execFile } from 'node:child_process';
import { chmod, mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';
import { extract } from 'tar';

import { build } from '../../compiler/build/build.ts';
import { checkCommands } from '../../compiler/build/command-check.ts';
import type { Layer } from '../../compiler/artifact/artifact.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { folderOf } from '../support/folder.ts';

interface Made {
  readonly folder: string;
  readonly warnings: readonly string[];
}

async function made(t: ExecutionContext, files: Readonly<Record<string, string>>, runnable: readonly string[] = []): Promise<Made> {
  const folder = await folderOf(t, files);
  for (const path of runnable) await chmod(join(folder, path), 0o755);
  const lines: string[] = [];
  const terminal = createTerminal({ out: { write: () => true }, err: { write: (text: string) => lines.push(text) }, colours: false });
  await build(
    folder,
    {
      ...{ exclude: [], bundleBasePackages: false, python: undefined, refresh: false, keepStaging: false },
      lookUp: (name) => (name === 'PATH' ? '/usr/bin:/bin' : undefined),
      cacheDir: join(await folderOf(t), 'cache'),
    },
    terminal,
  );
  return { folder, warnings: lines.filter((line) => line.startsWith('! ')) };
}

/** Written, and declared in both languages. */
const FORMS: readonly [string, (command: readonly string[]) => Readonly<Record<string, string>>][] = [
  ['a manifest', (command) => ({ 'tool_manifest.json': JSON.stringify({ resources: { one: { command } } }) })],
  ['Python', (command) => ({ 'main.py': `from capstan import Endpoint\nEndpoint(name="one", command=${JSON.stringify(command)})\n` })],
  [
    'TypeScript',
    (command) => ({
      'main.ts': `import { endpoint } from '@capstan/sdk';\nendpoint({ name: 'one', command: ${JSON.stringify(command)} });\n`,
    }),
  ],
];

const REFUSED: readonly [readonly string[], RegExp][] = [
  [['./start.sh'], /endpoint one: command: \.\/start\.sh is not in the artifact/],
  [['bin/plain'], /endpoint one: command: bin\/plain may not be run/],
  [['../outside'], /is not in the artifact/],
  [['python3', '-u', 'worker.py'], /endpoint one: command: worker\.py is not in the artifact/],
  [['/usr/bin/python3', 'worker.py', '--port', '$PORT'], /worker\.py is not in the artifact/],
  [['node', '--enable-source-maps', 'dist/server.js'], /dist\/server\.js is not in the artifact/],
  [['bash', 'ignored.sh'], /ignored\.sh is not in the artifact/],
  [['node', '-r', 'dotenv/config.js', 'gone.js'], /gone\.js is not in the artifact/],
  [['python3', '-uW', 'ignore', '-X', 'dev', 'gone.py'], /gone\.py is not in the artifact/],
  [['node', 'node_modules/vite/bin/vite.js'], /node_modules\/vite\/bin\/vite\.js is not in the artifact/],
];
const ADMITTED: readonly (readonly string[])[] = [
  ['bin/run'],
  ['./bin/run', 'missing.py'],
  ['sh', 'bin/plain'],
  ['python3', '-c', 'import worker.py'],
  ['python3', '-m', 'app', 'x.py'],
  ['$PROGRAM', 'x.py'],
  ['/opt/model/serve'],
  ['ls', 'missing.py'],
  ['node', '-r', 'dotenv/config.js', 'server.js'],
  ['node', '--import', 'tsx/esm.mjs', '--require', './x.cjs', 'server.js'],
  ['node', '--loader', 'ts-node/esm.mjs', '--experimental-loader', 'x.mjs', './server.js'],
  ['python3', '-W', 'ignore::x.py', '-X', 'importtime', 'bin/serve.py'],
  ['bash', '-o', 'pipefail', 'bin/plain'],
];

for (const [form, declared] of FORMS) {
  test(`${form}: what is not in the artifact is refused, and what a node or the build has is not`, async (t) => {
    const own = {
      'bin/run': '#!/bin/sh\n',
      'bin/plain': 'echo\n',
      'ignored.sh': '',
      'server.js': '',
      'bin/serve.py': '',
      '.toolignore': 'ignored.sh\n',
    };
    for (const [command, message] of REFUSED)
      await t.throwsAsync(made(t, { ...own, ...declared(command) }, ['bin/run']), { code: 'INVALID_MANIFEST', message }, command.join(' '));
    for (const command of ADMITTED)
      t.deepEqual((await made(t, { ...own, ...declared(command) }, ['bin/run'])).warnings, [], command.join(' '));
    const { warnings } = await made(t, { ...own, ...declared(['gunicornx', 'app:app']) });
    t.regex(warnings.join('\n'), /endpoint one: the program gunicornx is in no package of the build/);
  });
}

test('a program that only this machine has is named: below a home, in an environment, or of packages installed here', async (t) => {
  const folder = await folderOf(t, {
    'usr/bin/x': '',
    'home/.local/bin/serve': '#!/bin/sh\n',
    'venv/bin/serve': '#!/bin/sh\n',
    'project/a.txt': '',
  });
  for (const path of ['home/.local/bin', 'venv/bin']) await chmod(join(folder, path, 'serve'), 0o755);
  const check = async (command: readonly string[], path: string): Promise<string[]> =>
    checkCommands({ folder: join(folder, 'project'), commands: [{ name: 'one', command }], layers: [], generated: [], path });
  for (const path of ['home/.local/bin', 'venv/bin', 'node_modules/.bin', '.'])
    t.regex((await check(['serve'], `${join(folder, path)}:/usr/bin`)).join(), /the program serve is in no package of the build/, path);
  t.deepEqual(await check(['ls'], '/usr/local/bin:/usr/bin/:/bin'), []);
  t.deepEqual(await check(['python3', '-m', 'serve'], '/nowhere'), []);
  // Scripts of Python in a folder of the system: what pip and apt install there.
  const { stdout } = await promisify(execFile)('sh', ['-c', "grep -lIm1 '^#!.*python' /usr/bin/* 2>/dev/null | head -1"]);
  const script = stdout.trim();
  if (script === '') t.log('skipped in part: /usr/bin has no script of Python');
  else t.is((await check([basename(script)], '/usr/bin')).length, 1, script);
});

test('scripts of packages that a build installs are not looked for in the project', async (t) => {
  const folder = await folderOf(t);
  const layer: Layer = { member: join(folder, 'member'), files: 1, packages: { vite: 1 }, programs: [] };
  const commands = [
    { name: 'one', command: ['node', '--enable-source-maps', './node_modules/vite/bin/vite.js', 'preview'] },
    { name: 'two', command: ['python3', 'python_packages/x/main.py'] },
  ];
  const check = async (layers: readonly Layer[]): Promise<string[]> => checkCommands({ folder, commands, layers, generated: [], path: '' });
  t.deepEqual(await check([layer]), []);
  await t.throwsAsync(check([]), { message: /vite\.js is not in the artifact/ });
});

test('[project.scripts] are programs of the artifact, which find the project in its src layout', async (t) => {
  const { folder, warnings } = await made(t, {
    'pyproject.toml':
      '[project]\nname = "shop"\nversion = "1"\n[project.scripts]\nshop-serve = "shop.cli:main"\nshop-obj = "shop.cli:App.run"\n"../evil" = "a:b"\n',
    'src/shop/__init__.py': '',
    'src/shop/cli.py':
      'import sys\ndef main():\n    print("serving", sys.argv[1])\n    return 3\nclass App:\n    @staticmethod\n    def run():\n        print("object")\n',
    'main.py': 'from capstan import Endpoint\nEndpoint(name="one", command=["shop-serve", "$PORT"])\n',
  });
  t.deepEqual(warnings, []);
  const unpacked = join(await folderOf(t), 'a place with spaces');
  await mkdir(unpacked);
  await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: unpacked });
  const run = promisify(execFile);
  const failed = await t.throwsAsync<Error & { code: number; stdout: string }>(
    run(join(unpacked, 'python_packages/bin/shop-serve'), ['80']),
  );
  t.deepEqual([failed?.code, failed?.stdout], [3, 'serving 80\n']);
  t.is((await run(join(unpacked, 'python_packages/bin/shop-obj'))).stdout, 'object\n');
});

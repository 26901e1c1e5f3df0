/** `build: '…'`: what a project's own command makes is part of the artifact; ignore files and compiled twins. */
import { execFile, spawnSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { missingRegistry } from '../support/registries.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

interface Failed {
  readonly stderr: string;
}

async function built(folder: string): Promise<{ readonly files: readonly string[]; readonly stderr: string }> {
  const { stderr } = await promisify(execFile)(process.execPath, [tool, 'build', folder], { env: { ...process.env, NO_COLOR: '1' } });
  const { stdout } = spawnSync('tar', ['-tzf', join(folder, '.tool/artifact.tar.gz')], { encoding: 'utf8' });
  return { files: stdout.trim().split('\n'), stderr };
}

async function refused(folder: string): Promise<string> {
  return promisify(execFile)(process.execPath, [tool, 'build', folder], { env: { ...process.env, NO_COLOR: '1' } }).then(
    () => 'it was built',
    (error: unknown) => (error as Failed).stderr,
  );
}

const ENDPOINT = `import { endpoint } from '@capstan/sdk';
export default endpoint({ name: 'api', app: 'dist/server.js', build: 'node make.mjs' });
`;
const MAKE = `import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
mkdirSync('dist/assets', { recursive: true });
writeFileSync('dist/server.js', "export default (_request, response) => response.end('" + readFileSync('.env', 'utf8').trim() + "');");
writeFileSync('dist/assets/a.css', '');
writeFileSync('dist/capstan.js', "import { endpoint } from '@capstan/sdk'; endpoint({ name: 'api', app: 'dist/server.js' });");
`;

test('a command runs in a copy, and what it makes is packed although .gitignore names it', async (t) => {
  const folder = await folderOf(t, { 'capstan.ts': ENDPOINT, 'make.mjs': MAKE, '.gitignore': 'dist/\n', '.env': 'A=1\n' });
  const { files } = await built(folder);
  for (const name of ['dist/server.js', 'dist/assets/a.css', 'capstan.ts', '_capstan/api/serve.mjs']) t.true(files.includes(name), name);
  t.false(files.some((name) => name.includes('.env') || name.includes('.gitignore')));
  t.false((await readdir(folder)).includes('dist'), 'the project itself is not changed');
});

test('a command that fails is shown with its last lines, and one that makes something else by the file that is missing', async (t) => {
  const failing = await folderOf(t, { 'capstan.ts': ENDPOINT, 'make.mjs': 'console.log("compiling"); throw new Error("no such type");' });
  t.regex(await refused(failing), /the build command node make\.mjs failed:[^]*compiling[^]*Error: no such type/);
  const other = await folderOf(t, { 'capstan.ts': ENDPOINT, 'make.mjs': '' });
  t.regex(await refused(other), /capstan\.ts:2: endpoint api: the build command node make\.mjs did not make dist\/server\.js/);
});

test('an app that only a build would make names the script of package.json', async (t) => {
  const folder = await folderOf(t, {
    'capstan.ts': ENDPOINT.replace(", build: 'node make.mjs'", ''),
    'package.json': '{"scripts": {"build": "tsc"}}',
  });
  const message = await refused(folder);
  t.regex(message, /dist\/server\.js is not in the project/);
  t.regex(message, /build: 'npm run build'/);
});

test('.toolignore includes again what .gitignore excludes, and .flashignore is read as it is', async (t) => {
  const folder = await folderOf(t, {
    'capstan.ts': ENDPOINT.replace(", build: 'node make.mjs'", ''),
    '.gitignore': 'dist/\nmodels/\ntmp/\n',
    '.toolignore': '!dist/\n!models/small/*.bin\n',
    '.flashignore': '*.log\n!keep.log\n',
    'dist/server.js': 'export default () => {};',
    'models/large.bin': '',
    'models/small/a.bin': '',
    'models/small/notes.txt': '',
    'tmp/a': '',
    'a.log': '',
    'keep.log': '',
  });
  const { files, stderr } = await built(folder);
  for (const name of ['dist/server.js', 'models/small/a.bin', 'keep.log']) t.true(files.includes(name), name);
  for (const name of ['models/large.bin', 'models/small/notes.txt', 'tmp/a', 'a.log']) t.false(files.includes(name), name);
  t.regex(stderr, /! \.flashignore is read as \.toolignore is/);
});

const pypi = missingRegistry.pypi;
const titled = 'requirements.txt beside a written manifest with a command is installed';
(pypi === null ? test : test.skip)(pypi === null ? titled : `${titled} (${pypi})`, async (t) => {
  const manifest = { resources: { web: { is_load_balanced: true, command: ['python3', 'main.py'] } } };
  const files = { 'tool_manifest.json': JSON.stringify(manifest), 'main.py': 'import idna\n', 'requirements.txt': 'idna==3.7\n' };
  const { files: packed } = await built(await folderOf(t, files));
  t.true(packed.includes('python_packages/idna/__init__.py'));
  const own = await built(await folderOf(t, { ...files, 'python_packages/idna.py': '' }));
  t.false(own.files.includes('python_packages/idna/__init__.py'), 'packages that the folder has are taken as they are');
});

test('a declaration beside its compiled file is found once', async (t) => {
  const declared = "import { endpoint } from '@capstan/sdk';\nexport default endpoint({ name: 'api', app: 'dist/server.js' });\n";
  const compiled = { 'dist/server.js': 'export default () => {};', 'dist/capstan.js': declared };
  const outDir = '{"compilerOptions": {"outDir": "./dist"}}';
  const inFolder = await folderOf(t, { ...compiled, 'capstan.ts': declared, 'tsconfig.json': outDir });
  t.true((await built(inFolder)).files.includes('dist/capstan.js'));
  const inherited = { 'tsconfig.json': '{"extends": "./tsconfig.base.json"}', 'tsconfig.base.json': outDir };
  await t.notThrowsAsync(built(await folderOf(t, { ...compiled, 'src/capstan.ts': declared, ...inherited })));
  const beside = { 'dist/server.js': '', 'capstan.ts': declared, 'capstan.js': declared };
  await t.notThrowsAsync(built(await folderOf(t, beside)));
});

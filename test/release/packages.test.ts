/** The packages of a release, used as a new user would, without the checkout and without a network. */
import { execFile, spawn } from 'node:child_process';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import { list } from 'tar';

import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';
import { isRunnable, withoutCheckout } from './host.ts';
import { bindings, fillCache, publishedPackage } from './npm-cache.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
/** Without the folders of this checkout, where npm's scripts put the Node of the dependencies. */
const PATH = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((folder) => !folder.startsWith(root))
  .join(delimiter);
const hasPython = await isRunnable('python3', ['-c', 'import sys, venv; sys.exit(sys.version_info < (3, 11))']);

let release = '';

test.before('make the release', async () => {
  release = await ownFolder('capstan-release');
  await makeRelease(release);
});

test.after.always(() => rm(release, { recursive: true, force: true }));

function makeRelease(folder: string): Promise<unknown> {
  return run(process.execPath, ['--disable-warning=ExperimentalWarning', join(root, 'release/main.ts'), folder, '--offline', 'none']);
}

function toolArchive(): string {
  return join(release, `capstan-${version}.tgz`);
}

async function filesIn(name: string): Promise<string[]> {
  const files: string[] = [];
  await list({ file: join(release, name), onReadEntry: ({ path }) => files.push(path) });
  return files;
}

/** Returns the lines of the standard output that begin with this word, without it. */
function linesOf(stdout: string, word: string): string[] {
  return stdout
    .split('\n')
    .filter((line) => line.startsWith(`${word} `))
    .map((line) => line.slice(word.length + 1));
}

(hasPython ? test.serial : test.serial.skip)(
  `a release installs, serves and runs jobs without the checkout and without a network${hasPython ? '' : ' (skipped: there is no Python 3.11)'}`,
  async (t) => {
    t.timeout(240_000);
    const place = await folderOf(t);
    const cache = join(place, 'npm-cache');
    await mkdir(cache);
    await fillCache(toolArchive(), cache, PATH);

    const hidden = await withoutCheckout();
    if (hidden.reason !== '') t.log(`the checkout is not hidden: ${hidden.reason}`);
    const { stdout: python } = await run('python3', ['-c', 'import sys; print(sys.executable)']);
    const script = [
      join(root, 'test/release/first-hour.sh'),
      release,
      version,
      place,
      await systemNode(),
      hidden.reason === '' ? root : '',
    ];
    const child = spawn(hidden.command, [...hidden.args, 'bash', ...script], {
      env: { PATH, PYTHON: python.trim(), npm_config_cache: cache, npm_config_audit: 'false', npm_config_fund: 'false' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.teardown(() => child.kill('SIGTERM'));
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const code = await new Promise((resolve) => child.once('close', resolve));
    t.is(code, 0, `${stdout}\n${stderr}`);

    const [size = ''] = linesOf(stdout, 'size');
    t.true(Number(size) < 98_000, `${size} KiB without Node`);
    const jobs = linesOf(stdout, 'job').map((line) => JSON.parse(line) as { status: string; output: unknown });
    t.deepEqual(
      jobs.map((job) => job.status),
      ['COMPLETED', 'COMPLETED', 'COMPLETED'],
      stdout,
    );
    t.deepEqual([jobs[0]?.output, jobs[1]?.output], ['Hello, Ada!', 'Bonjour, Grace!']);
    t.deepEqual(linesOf(stdout, 'sdk'), ['Hello, TypeScript!', 'Bonjour, Python!']);
    t.deepEqual(linesOf(stdout, 'wheel'), ['bonjour,hello,text-analysis']);
    t.regex(stdout, /^ended$/m);
  },
);

test.serial('the same commit gives the same files', async (t) => {
  const again = await folderOf(t);
  await makeRelease(again);
  t.is(await readFile(join(again, 'SHA256SUMS'), 'utf8'), await readFile(join(release, 'SHA256SUMS'), 'utf8'));
});

test.serial('a release has one version, and a checksum for each file', async (t) => {
  const files = (await readdir(release)).filter((name) => name !== 'SHA256SUMS');
  const sums = (await readFile(join(release, 'SHA256SUMS'), 'utf8')).trim().split('\n');
  t.deepEqual(sums.map((line) => line.split('  ')[1] ?? '').sort(), files.sort());
  t.deepEqual(
    files.filter((name) => name !== 'CHANGELOG.md' && !name.includes(version)),
    [],
  );
  t.true((await readFile(join(release, 'CHANGELOG.md'), 'utf8')).includes(`\n## ${version}\n`));
  const read = (file: string): Promise<string> => readFile(join(root, file), 'utf8');
  t.is((JSON.parse(await read('sdk/typescript/package.json')) as { version: string }).version, version);
  t.is(/^version = "(.*)"$/m.exec(await read('sdk/python/pyproject.toml'))?.[1], version);
  t.is(/^__version__ = "(.*)"$/m.exec(await read('sdk/python/capstan/__init__.py'))?.[1], version);
});

test.serial('the package of the tool holds programs, their licences, and nothing that only developers read', async (t) => {
  const files = await filesIn(`capstan-${version}.tgz`);
  // Applications are deployed from their sources.
  const isOfApplication = (file: string): boolean => /^package\/(examples|deploy\/gpu-check\/app)\//.test(file);
  t.deepEqual(
    files.filter((file) => /\.(?:[cm]?ts|map)$|__pycache__/.test(file) && !isOfApplication(file)),
    [],
  );
  for (const file of [
    'LICENSE',
    'CHANGELOG.md',
    'cli/capstan.mjs',
    'proto/capstan/v1/jobs.proto',
    'deploy/nginx/capstan.conf',
    'docs/install.md',
  ])
    t.true(files.includes(`package/${file}`), file);
  const { bundleDependencies } = await publishedPackage(toolArchive());
  for (const name of bundleDependencies) t.true(files.includes(`package/node_modules/${name}/package.json`), name);
});

test.serial('the bill of materials has every package that is installed with the tool', async (t) => {
  const text = await readFile(join(release, `capstan-${version}.cdx.json`), 'utf8');
  const { bomFormat, components, dependencies } = JSON.parse(text) as {
    bomFormat: string;
    components: { name: string; version: string; 'bom-ref': string; hashes?: unknown[]; licenses?: unknown[] }[];
    dependencies: { ref: string; dependsOn: string[] }[];
  };
  t.is(bomFormat, 'CycloneDX');
  const named = new Set(components.map(({ name }) => name));
  const bundled = (await filesIn(`capstan-${version}.tgz`)).flatMap((file) => {
    const [, name] = /node_modules\/((?:@[^/]+\/)?[^/]+)\/package\.json$/.exec(file) ?? [];
    return name === undefined ? [] : [name];
  });
  const { dependencies: direct } = await publishedPackage(toolArchive());
  for (const name of [...bundled, ...Object.keys(direct), ...Object.keys(await bindings())]) t.true(named.has(name), name);
  // Every package can be reached from the tool, and what is referred to is there.
  const below = new Map(dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
  const reached = new Set([`pkg:npm/capstan@${version}`]);
  for (const ref of reached) for (const next of below.get(ref) ?? []) reached.add(next);
  t.deepEqual(
    components.map((each) => each['bom-ref']).filter((ref) => !reached.has(ref)),
    [],
  );
  t.is(reached.size, components.length + 1);
  t.deepEqual(
    components.filter(({ hashes }) => hashes === undefined).map(({ name }) => name),
    [],
  );
});

test.serial('units, chart, Compose file and Containerfile travel with all of their files', async (t) => {
  t.true((await filesIn(`capstan-chart-${version}.tgz`)).includes('capstan/templates/_helpers.tpl'));
  t.true((await filesIn(`capstan-compose-${version}.tar.gz`)).includes(`capstan-compose-${version}/cluster.env`));
  t.true((await filesIn(`capstan-image-${version}.tar.gz`)).includes(`capstan-image-${version}/Containerfile`));
  const files = await filesIn(`capstan-systemd-${version}.tar.gz`);
  for (const file of ['capstan-agent.service', 'sysusers.d/capstan.conf', 'tmpfiles.d/capstan.conf'])
    t.true(files.includes(`capstan-systemd-${version}/${file}`), file);
});

/** The Node of the PATH outside of this checkout: that of a user. */
async function systemNode(): Promise<string> {
  return (await run('sh', ['-c', 'command -v node'], { env: { PATH } })).stdout.trim();
}

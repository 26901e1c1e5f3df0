/** The image and the Compose file of a release, run by a real engine: one scheduler, and two on PostgreSQL whose owner is killed. */
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { fillCache } from '../release/npm-cache.ts';
import { ComposeProject, findCompose, NO_COMPOSE } from '../support/container/compose-project.ts';
import { noNetworkedEngine, startEngine, type PrivateEngine } from '../support/container/private-engine.ts';
import { buildBlobs, buildPostgres, buildSystem, npmFolder } from '../support/container/service-images.ts';
import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';
import { NO_POSTGRES, postgresBinaries } from '../support/postgres-binaries.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
/** Without the folders of this checkout, where npm's scripts put the Node of the dependencies. */
const PATH = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((folder) => !folder.startsWith(root))
  .join(delimiter);

const compose = await findCompose();
const npm = await npmFolder(PATH);
const binaries = await postgresBinaries(['pg_isready']);
const lacksNpm = npm === undefined ? 'npm is not one folder here' : undefined;
const missing = noNetworkedEngine ?? (compose === undefined ? NO_COMPOSE : lacksNpm);
const missingForCluster = missing ?? (binaries === undefined ? NO_POSTGRES : undefined);

/** Registers a test, skipped with the reason in its title. */
const testUnless = (reason: string | undefined, title: string, body: (t: ExecutionContext) => Promise<void>): void =>
  (reason === undefined ? test.serial : test.serial.skip)(reason === undefined ? title : `${title} (skipped: ${reason})`, body);

const USER = 10_001;
const SYSTEM = 'system:test';
const POSTGRES = 'postgres:test';
const BLOBS = 'blobs:test';

const HELLO = `
import { readFile } from 'node:fs/promises';
import { endpoint } from '@capstan/sdk';

export const hello = endpoint({ name: 'hello', workers: [0, 1] }, (name: string) => \`Hello, \${name}!\`);
/** Waits until a pipe in the agent's container is written to. */
export const gate = endpoint({ name: 'gate', workers: [1, 1] }, async (pipe: string) => (await readFile(pipe, 'utf8')).trim());
`;

let running: PrivateEngine | undefined;
let release = '';

/** The engine of this file. */
function engine(): PrivateEngine {
  if (running === undefined) throw new Error('the engine is not started');
  return running;
}

/** Runs `docker build`. The classic builder is part of the engine; BuildKit's client is a program of its own. */
async function build(...args: string[]): Promise<string> {
  const env = { ...process.env, DOCKER_HOST: `unix://${engine().socket}`, DOCKER_BUILDKIT: '0' };
  return (await run('docker', ['build', ...args], { env, maxBuffer: 1 << 26 })).stdout;
}

/** Starts the engine with the images that the Containerfile and the Compose file stand on. */
async function makeImages(): Promise<void> {
  running = await startEngine(['base:test'], {}, { hasNetwork: true });
  const [system, postgres, blobs] = ['system', 'postgres', 'blobs'].map((name) => join(release, name)) as [string, string, string];
  for (const folder of [system, postgres, blobs]) await mkdir(folder);
  await buildSystem(build, system, { tag: SYSTEM, base: 'base:test', npm: npm ?? '' });
  if (binaries !== undefined) await buildPostgres(build, postgres, { tag: POSTGRES, base: SYSTEM, binaries });
  await buildBlobs(build, blobs, { tag: BLOBS, base: SYSTEM });
}

/** Makes a release in a folder, with npm's cache in it. */
async function makeRelease(dist: string): Promise<void> {
  await run(process.execPath, ['--disable-warning=ExperimentalWarning', join(root, 'release/main.ts'), dist, '--offline', 'none']);
  await fillCache(join(dist, `capstan-${version}.tgz`), join(dist, 'npm-cache'), PATH);
}

test.before('make a release, and the image by its Containerfile without a network', async (t) => {
  if (missing !== undefined) return;
  t.timeout(280_000);
  release = await ownFolder('capstan-release');
  const dist = join(release, 'dist');
  await Promise.all([makeRelease(dist), makeImages()]);
  await run('tar', ['-xf', join(dist, `capstan-image-${version}.tar.gz`), '-C', release]);
  const file = join(release, `capstan-image-${version}`, 'Containerfile');
  // The tag is the one that the Compose file has by default.
  await build('--file', file, '--build-arg', `BASE=${SYSTEM}`, '--build-arg', 'PACKAGES=', '--tag', `capstan:${version}`, dist);
});

test.after.always(async () => {
  await running?.stop();
  if (release !== '') await rm(release, { recursive: true, force: true });
});

testUnless(missing, 'the image by itself runs the whole service, as a plain user, and ends in order', async (t) => {
  const options = ['--publish', '127.0.0.1:8080:8080', '--env', 'CAPSTAN_HTTP_HOST=0.0.0.0'];
  const container = await engine().docker('run', '--detach', ...options, `capstan:${version}`);
  t.teardown(() => engine().docker('rm', '--force', '--volumes', container));
  const check = "fetch('http://127.0.0.1:8080/healthz').then(({ ok }) => process.exit(ok ? 0 : 1))";
  const isHealthy = (): Promise<boolean> =>
    engine()
      .inNetwork(process.execPath, ['-e', check])
      .then(
        () => true,
        () => false,
      );
  await until('the service is healthy', isHealthy);
  t.like(JSON.parse(await engine().docker('exec', container, 'capstan', 'version', '--json')), { version });
  await engine().docker('stop', '--time', '60', container);
  t.is(await engine().docker('inspect', '--format', '{{.Config.User}} {{.State.ExitCode}}', container), `${USER}:${USER} 0`);
});

/** The Compose file of the release in a folder of its own, and an application beside it. */
async function projectOf(t: ExecutionContext, options: readonly string[], settings: (text: string) => string): Promise<ComposeProject> {
  const folder = await folderOf(t, { 'app/hello.ts': HELLO, pgpass: 'postgres:5432:capstan:capstan:secret\n' });
  await run('tar', ['-xf', join(release, 'dist', `capstan-compose-${version}.tar.gz`), '-C', folder, '--strip-components=1']);
  const file = join(folder, 'cluster.env');
  await writeFile(file, settings(await readFile(file, 'utf8')));
  await chmod(join(folder, 'pgpass'), 0o600);
  await chown(join(folder, 'pgpass'), USER, USER);
  const project = await ComposeProject.make(engine(), compose ?? [], folder, options);
  t.teardown(async () => {
    if (!t.passed) t.log(await project.compose('logs', '--no-color', '--tail', '40'));
    await project.compose('down', '--volumes', '--timeout', '0');
  });
  return project;
}

/** Deploys the application; returns the id of an endpoint by its name. */
async function deploy(project: ComposeProject): Promise<(name: string) => string> {
  const rows = JSON.parse(await project.tool('deploy', join(project.folder, 'app'), '--json')) as { id: string; name: string }[];
  const ids = new Map(rows.map(({ id, name }) => [name, id]));
  return (name) => ids.get(name) ?? '';
}

/** Waits until the gateway reaches an owner of the queue. */
const serves = (project: ComposeProject): Promise<boolean> =>
  until('the gateway serves', async () => (await project.call('/healthz'))?.status === 200);

/** Stops all containers in order, checks how they ended, and removes them. */
async function endsCleanly(t: ExecutionContext, project: ComposeProject, parts: readonly string[]): Promise<void> {
  await project.compose('stop');
  const containers = await project.containers();
  for (const part of parts) t.deepEqual(containers.get(part), { state: 'exited', exitCode: 0 }, part);
  await project.compose('down', '--volumes');
  for (const what of [
    ['ps', '--all', '--quiet'],
    ['volume', 'ls', '--quiet'],
  ])
    t.is(await engine().docker(...what, '--filter', 'label=com.docker.compose.project=capstan'), '', what.join(' '));
}

testUnless(missing, 'one scheduler: a deployment, a job over HTTP, a restart, and an end in order', async (t) => {
  t.timeout(240_000);
  const project = await projectOf(t, [], (text) => text);
  await project.compose('up', '--detach');
  t.deepEqual((await project.containers()).get('tokens'), { state: 'exited', exitCode: 0 });
  await project.readKey();
  await serves(project);
  const id = await deploy(project);
  const first = await project.call(`/v2/${id('hello')}/runsync`, { input: { name: 'Ada' } });
  t.like(first?.body, { status: 'COMPLETED', output: 'Hello, Ada!' });
  t.true((await project.tool('endpoints', 'list')).includes('http://127.0.0.1:8080/'), 'URLs are those that the caller reaches');

  await project.compose('restart');
  await serves(project);
  const kept = await project.call(`/v2/${id('hello')}/status/${String(first?.body['id'])}`);
  t.like(kept?.body, { status: 'COMPLETED', output: 'Hello, Ada!' }, 'the queue is kept');
  const second = await project.call(`/v2/${id('hello')}/runsync`, { input: { name: 'Grace' } });
  t.like(second?.body, { status: 'COMPLETED', output: 'Hello, Grace!' });
  await endsCleanly(t, project, ['scheduler', 'gateway', 'agent']);
});

/** Service of the scheduler that owns the queue, and how many schedulers stand by; undefined while none owns it. */
async function cluster(project: ComposeProject, from: string): Promise<{ owner: string; standbys: number } | undefined> {
  const text = await project.exec(from, 'capstan', 'schedulers', '--scheduler', `${from}:7070`, '--json').catch(() => '{"cells":[]}');
  const [cell] = (JSON.parse(text) as { cells: { ownerAddress: string; standbys: number }[] }).cells;
  if (cell === undefined || cell.ownerAddress === '') return undefined;
  return { owner: cell.ownerAddress.replace(/:\d+$/, ''), standbys: cell.standbys };
}

testUnless(missingForCluster, 'two schedulers on PostgreSQL: a job goes on when the container of the owner is killed', async (t) => {
  t.timeout(240_000);
  const options = ['--env-file', 'cluster.env', '--profile', 'cluster'];
  const project = await projectOf(
    t,
    options,
    (text) => `${text.replaceAll('CHANGE-ME', 'secret')}\nPOSTGRES_IMAGE=${POSTGRES}\nBLOBS_IMAGE=${BLOBS}\n`,
  );
  await project.compose('up', '--detach');
  await project.readKey();
  await serves(project);
  const id = await deploy(project);
  // Above 64 KiB a body is in the storage.
  const large = 'x'.repeat(100_000);
  const answer = await project.call(`/v2/${id('hello')}/runsync`, { input: { name: large } });
  t.is(answer?.body['output'], `Hello, ${large}!`);

  await project.exec('agent', 'mkfifo', '/tmp/pipe');
  const submitted = await project.call(`/v2/${id('gate')}/run`, { input: { pipe: '/tmp/pipe' } });
  const status = (): Promise<string> =>
    project.call(`/v2/${id('gate')}/status/${String(submitted?.body['id'])}`).then((found) => String(found?.body['status']));
  await until('the job runs', async () => (await status()) === 'IN_PROGRESS');
  const before = await until('a standby is there', async () => {
    const found = await cluster(project, 'scheduler');
    return found?.standbys === 1 ? found : undefined;
  });
  const heir = before.owner === 'scheduler' ? 'scheduler-2' : 'scheduler';
  await project.compose('kill', before.owner);
  await until(`${heir} owns the queue`, async () => (await cluster(project, heir))?.owner === heir);
  await project.exec('agent', 'sh', '-c', 'echo open >/tmp/pipe');
  await until('the job has ended', async () => (await status()) === 'COMPLETED');
  const ended = await project.call(`/v2/${id('gate')}/status/${String(submitted?.body['id'])}`);
  t.is(ended?.body['output'], 'open');

  await project.compose('up', '--detach');
  await until('the killed one stands by', async () => {
    const found = await cluster(project, heir);
    return found?.owner === heir && found.standbys === 1;
  });
  await endsCleanly(t, project, ['scheduler', 'scheduler-2', 'gateway', 'agent', 'postgres', 'blobs']);
});

/**
 * The set-up behind `npm start` and `npm test`, in a small checkout with an npm that installs nothing:
 * it writes down how it was called. (With the real npm it is the fresh clone of `.ci/run`.)
 */
import { chmod, cp, mkdir, readFile, readlink, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { gone, run, type Run, type RunOptions } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const root = join(import.meta.dirname, '../..');

/** Says how it was called, waits when told to, and lays down what a set-up looks for. */
const FAKE_NPM = `
import { appendFileSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
const { FAKE_NPM: behaviour = '' } = process.env;
appendFileSync('npm-calls', process.argv.slice(2).join(' ') + '\\n');
console.log('npm says something');
if (behaviour === 'fail') { console.error('npm error no network'); process.exit(17); }
if (behaviour === 'hang') { writeFileSync('npm-pid', String(process.pid)); console.error('hanging'); process.on('SIGINT', () => {}); process.on('SIGTERM', () => {}); await new Promise(() => setInterval(() => {}, 1e6)); }
rmSync('node_modules', { recursive: true, force: true });
const dev = !process.argv.includes('--omit=dev');
mkdirSync('node_modules/.bin', { recursive: true });
if (!existsSync('node_modules/.bin/node')) symlinkSync(process.execPath, 'node_modules/.bin/node');
if (dev) {
  mkdirSync('node_modules/ava/entrypoints', { recursive: true });
  writeFileSync('node_modules/ava/package.json', '{}');
  writeFileSync('node_modules/ava/entrypoints/cli.js', "console.log('ava', process.argv.slice(2).join(' ')); process.exitCode = Number(process.env.FAKE_EXIT ?? 0);");
}
`;

/** Stands in for the tool: `start` says so and ends when it is told to. */
const FAKE_MAIN = `
const said = ['tool', process.argv.slice(2).join(' '), process.send === undefined ? 'alone' : 'with a channel', process.env.PATH.split(':')[0]].join(' ');
if (process.env.FAKE_EXIT !== undefined) {
  console.log(said);
  process.exit(Number(process.env.FAKE_EXIT));
}
const timer = setInterval(() => undefined, 1e6);
const end = (how: string) => () => { console.log('told by', how); clearInterval(timer); process.exitCode = 0; if (process.connected) process.disconnect(); };
process.on('SIGINT', end('SIGINT'));
process.on('SIGTERM', end('SIGTERM'));
process.on('disconnect', () => clearInterval(timer));
// Last, when it can be told: whoever hears this may send a signal at once.
console.log(said);
`;

interface Checkout {
  readonly folder: string;
  setUp(args: readonly string[], options?: RunOptions): Run;
  /** Arguments of every call of npm. */
  npmCalls(): Promise<string[]>;
  stamp(): Promise<{ mode: string } | null>;
}

async function checkout(t: ExecutionContext): Promise<Checkout> {
  const folder = await folderOf(t);
  for (const file of ['tools/setup.mjs', 'cli/capstan.mjs', 'lib/lock.mjs']) await cp(join(root, file), join(folder, file));
  await writeFile(join(folder, 'cli/main.ts'), FAKE_MAIN);
  await writeFile(join(folder, 'package.json'), '{"type": "module", "devDependencies": {"ava": "*"}}');
  await writeFile(join(folder, 'package-lock.json'), '{}');
  await writeFile(join(folder, 'npm-cli.js'), FAKE_NPM);
  return {
    folder,
    setUp(args, options = {}) {
      const env = { npm_execpath: join(folder, 'npm-cli.js'), npm_node_execpath: process.execPath, ...options.env };
      const running = run([join(folder, 'tools/setup.mjs'), ...args], { cwd: folder, ...options, env });
      t.teardown(async () => {
        running.child.kill('SIGTERM');
        await running.ended;
      });
      return running;
    },
    npmCalls: async () => (await readFile(join(folder, 'npm-calls'), 'utf8').catch(() => '')).split('\n').filter((line) => line !== ''),
    stamp: async () =>
      JSON.parse(await readFile(join(folder, 'node_modules/.capstan-setup'), 'utf8').catch(() => 'null')) as { mode: string } | null,
  };
}

test('npm runs no scripts of dependencies: what is compiled comes compiled, and a host needs no compiler', async (t) => {
  const asked = run(['config', 'get', 'ignore-scripts'], { program: 'npm', cwd: root });
  t.is(await asked.ended, 0);
  t.is(asked.stdout(), 'true\n');
});

test('package.json asks for the Node that README promises, so that npm does not warn of it', async (t) => {
  const { engines } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { engines: { node: string } };
  const [, promised = ''] = /Node\.js (\d+) or newer with npm/.exec(await readFile(join(root, 'README.md'), 'utf8')) ?? [];
  t.is(engines.node, `>=${promised}`);
});

/** Process id of the npm that hangs, once it does. */
async function npmPid(folder: string): Promise<number> {
  for (;;) {
    const text = await readFile(join(folder, 'npm-pid'), 'utf8').catch(() => '');
    if (text !== '') return Number(text);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Runs a target that ends by itself; gives its exit code. */
async function ends(running: Run): Promise<number | string> {
  return running.ended;
}

const DONE = { env: { FAKE_EXIT: '0' } };
const PROD = 'ci --no-audit --no-fund --no-progress --omit=dev';
const FULL = 'ci --no-audit --no-fund --no-progress';

test('the first start installs what running needs, in one line, and links the tool', async (t) => {
  const { folder, setUp, npmCalls, stamp } = await checkout(t);
  const running = setUp(['start', '--http-port', '1'], DONE);
  t.is(await ends(running), 0);
  t.is(running.stderr(), '=> installing dependencies (runtime dependencies only)\n');
  t.is(running.stdout(), `tool start --http-port 1 with a channel ${join(folder, 'node_modules/.bin')}\n`);
  t.deepEqual(await npmCalls(), [PROD]);
  t.is((await stamp())?.mode, 'prod');
  t.is(await readlink(join(folder, 'node_modules/.bin/capstan')), '../../cli/capstan.mjs');
});

test('the second start installs nothing and says nothing', async (t) => {
  const { setUp, npmCalls } = await checkout(t);
  await ends(setUp(['start'], DONE));
  const running = setUp(['start'], DONE);
  t.is(await ends(running), 0);
  t.is(running.stderr(), '');
  t.is((await npmCalls()).length, 1);
});

test('tests need everything, and a start after them is content with that', async (t) => {
  const { setUp, npmCalls, stamp } = await checkout(t);
  await ends(setUp(['start'], DONE));
  const tests = setUp(['test', 'test/x.test.ts', '--verbose'], DONE);
  t.is(await ends(tests), 0);
  t.is(tests.stdout(), 'ava test/x.test.ts --verbose\n');
  await ends(setUp(['start'], DONE));
  t.deepEqual(await npmCalls(), [PROD, FULL]);
  t.is((await stamp())?.mode, 'full');
});

for (const file of ['package.json', 'package-lock.json']) {
  test(`another ${file} is installed anew, and a full install stays full`, async (t) => {
    const { folder, setUp, npmCalls } = await checkout(t);
    await ends(setUp(['test'], DONE));
    await writeFile(join(folder, file), '{"type": "module", "version": "2", "devDependencies": {"ava": "*"}}');
    await ends(setUp(['start'], DONE));
    t.deepEqual(await npmCalls(), [FULL, FULL]);
  });
}

test('development dependencies that were installed by hand are not taken away', async (t) => {
  const { folder, setUp, npmCalls } = await checkout(t);
  await mkdir(join(folder, 'node_modules/ava'), { recursive: true });
  await writeFile(join(folder, 'node_modules/ava/package.json'), '{}');
  await ends(setUp(['start'], DONE));
  t.deepEqual(await npmCalls(), [FULL]);
});

test('caches below node_modules stay, also when the set-up before was killed', async (t) => {
  const { folder, setUp } = await checkout(t);
  const cached = join(folder, 'node_modules/.cache/program');
  await mkdir(join(folder, 'node_modules/.cache'), { recursive: true });
  await writeFile(cached, 'made in minutes');
  await ends(setUp(['start'], { env: { FAKE_NPM: 'fail' } }));
  t.is(await readFile(cached, 'utf8'), 'made in minutes');
  await ends(setUp(['start'], DONE));
  t.is(await readFile(cached, 'utf8'), 'made in minutes');

  await mkdir(join(folder, '.setup'), { recursive: true });
  await rename(join(folder, 'node_modules/.cache'), join(folder, '.setup/cache'));
  await rm(join(folder, 'node_modules'), { recursive: true });
  await ends(setUp(['start'], DONE));
  t.is(await readFile(cached, 'utf8'), 'made in minutes');
});

test('the lock has the optional packages of every platform', async (t) => {
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>;
  };
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => packages[`${path}/node_modules/${name}`] === undefined && packages[`node_modules/${name}`] === undefined,
    ),
  );
  t.deepEqual(missing, [], 'npm ci refuses a lock without them; npm install --package-lock-only adds them');
});

test('the exit code of what is run is passed on', async (t) => {
  const { setUp } = await checkout(t);
  t.is(await ends(setUp(['test'], { env: { FAKE_EXIT: '3' } })), 3);
});

test('an install that fails shows npm’s words, leaves no stamp, and is tried again', async (t) => {
  const { setUp, stamp, npmCalls } = await checkout(t);
  const failing = setUp(['start'], { env: { FAKE_NPM: 'fail' } });
  t.is(await ends(failing), 17);
  t.regex(failing.stderr(), /npm error no network\n✗ npm ci failed\nhint: /);
  t.is(await stamp(), null);
  t.is(await ends(setUp(['start'], DONE)), 0);
  t.is((await npmCalls()).length, 2);
});

test('two set-ups at once: one installs, the other waits for it', async (t) => {
  const { setUp, npmCalls } = await checkout(t);
  const both = [setUp(['test'], DONE), setUp(['test'], DONE), setUp(['test'], DONE)];
  t.deepEqual(await Promise.all(both.map(ends)), [0, 0, 0]);
  t.deepEqual(await npmCalls(), [FULL]);
});

test('a set-up that was killed holds nobody up', async (t) => {
  const { folder, setUp } = await checkout(t);
  const killed = setUp(['start'], { env: { FAKE_NPM: 'hang' } });
  const pid = await npmPid(folder);
  killed.child.kill('SIGKILL');
  t.is(await ends(setUp(['start'], DONE)), 0);
  process.kill(pid, 'SIGKILL');
});

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  test(`${signal} while installing ends npm, however stubborn, and leaves no stamp`, async (t) => {
    const { folder, setUp, stamp } = await checkout(t);
    const running = setUp(['start'], { env: { FAKE_NPM: 'hang' } });
    const pid = await npmPid(folder);
    running.child.kill(signal);
    t.is(await ends(running), code);
    await gone(pid);
    t.is(await stamp(), null);
  });

  test(`${signal} while running is passed on; the end in order is exit code 0`, async (t) => {
    const { setUp } = await checkout(t);
    const running = setUp(['start']);
    await running.hear(/^tool start/m);
    running.child.kill(signal);
    t.is(await ends(running), 0);
    t.regex(running.stdout(), new RegExp(`told by ${signal}`));
  });
}

test('what was started ends when the set-up is killed', async (t) => {
  const { setUp } = await checkout(t);
  const running = setUp(['start']);
  await running.hear(/^tool start/m);
  running.child.kill('SIGKILL');
  // Its output ends only when nobody is left who could write to it.
  t.is(await ends(running), 'SIGKILL');
});

test('under npm, the end of its shell is a signal', async (t) => {
  const { folder, setUp } = await checkout(t);
  await ends(setUp(['start'], DONE));
  await writeFile(join(folder, 'shell.sh'), `"${process.execPath}" tools/setup.mjs start & wait\n`);
  await chmod(join(folder, 'shell.sh'), 0o755);
  const shell = run([join(folder, 'shell.sh')], { program: '/bin/sh', cwd: folder, env: { npm_lifecycle_event: 'start' } });
  await shell.hear(/^tool start/m);
  shell.child.kill('SIGKILL');
  t.is(await shell.ended, 'SIGKILL');
  t.regex(shell.stdout(), /told by SIGTERM/);
});

test('no Node that is new enough: one line, exit code 78', async (t) => {
  const { folder, setUp } = await checkout(t);
  await ends(setUp(['start'], DONE));
  await rm(join(folder, 'node_modules/.bin/node'));
  const old = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'20.20.2'}});Object.defineProperty(process,'version',{value:'v20.20.2'})`;
  const running = run(['--import', old, join(folder, 'tools/setup.mjs'), 'start'], { cwd: folder });
  t.is(await running.ended, 78);
  t.is(running.stderr(), '✗ Capstan requires Node.js 22.18 or newer, but this is v20.20.2\nhint: Install Node.js 24.\n');
});

test('a Node of the dependencies that does not run here is passed over', async (t) => {
  const { folder, setUp } = await checkout(t);
  await ends(setUp(['start'], DONE));
  await rm(join(folder, 'node_modules/.bin/node'));
  await symlink('/nowhere/node', join(folder, 'node_modules/.bin/node'));
  t.is(await ends(setUp(['start'], DONE)), 0);
});

test('a word it does not know', async (t) => {
  const { setUp } = await checkout(t);
  const running = setUp(['strat']);
  t.is(await ends(running), 2);
  t.is(running.stderr(), "✗ node tools/setup.mjs: expected start, test, bench, history, sdk, console, release, got 'strat'\n");
});

/** What `.ci/prepare` installs and what it says of the rest, with made-up apt-get and pip. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, symlink } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { Checkout, type Outcome } from './checkout.ts';

/** Programs for isolation. */
const isolation = ['bwrap', 'pasta', 'nft', 'ip', 'runsc'];
/** Shells that tests run in. */
const shells = ['zsh', 'fish'];
/** For the tests of the web console. */
const browsers = ['chromium'];
const archivers = ['minisign', 'xz'];
const engines = [
  'dockerd',
  'docker',
  'podman',
  'runc',
  'promtool',
  'nginx',
  'psql',
  'faketime',
  ...isolation,
  ...shells,
  ...browsers,
  ...archivers,
  'helm',
  'otelcol',
];
/** The only programs of this machine that the script sees. */
const tools = ['cat', 'cp', 'dirname', 'mkdir', 'mktemp', 'mv', 'rm', 'tail'];

interface Machine {
  readonly programs?: readonly string[];
  readonly user?: number;
  /** Commands of apt-get and of python3 after the call is noted. */
  readonly apt?: string;
  readonly python?: string;
  readonly npm?: string;
}

const PIP_THAT_WORKS = 'if [[ $1 == --version ]]; then echo Python 3.12.1; else mkdir -p "$8/mypy"; fi';

async function machine(
  t: ExecutionContext,
  { programs = [], user = 0, apt = '', python = PIP_THAT_WORKS, npm = 'mkdir node_modules' }: Machine,
): Promise<Checkout> {
  const checkout = await Checkout.make(t, [
    '.ci/prepare',
    '.ci/requirements.txt',
    '.ci/graphile-worker/package.json',
    '.ci/graphile-worker/package-lock.json',
  ]);
  await mkdir(join(checkout.folder, 'tools'));
  for (const name of tools) {
    const found = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, name));
    await symlink(found.find((file) => existsSync(file)) ?? t.fail(`${name} is not on the path`), join(checkout.folder, 'tools', name));
  }
  for (const name of programs) await checkout.fakeProgram(name);
  await checkout.fakeProgram('id', `echo ${user}`);
  await checkout.fakeProgram('apt-get', apt);
  await checkout.fakeProgram('python3', python);
  await checkout.fakeProgram('npm', npm);
  return checkout;
}

const prepare = (checkout: Checkout): Promise<Outcome> => checkout.run('.ci/prepare', [], join(checkout.folder, 'tools'));
const installs = async (checkout: Checkout): Promise<readonly string[]> =>
  (await checkout.calls()).filter((call) => /^apt-get .*install|pip install/.test(call));

test('each missing package is installed by itself, and one that cannot be does not stop the others', async (t) => {
  const checkout = await machine(t, {
    programs: ['dockerd', 'nginx', 'psql', 'faketime', ...isolation, ...shells, ...browsers, ...archivers],
    apt: '[[ $* != *podman ]]',
  });
  const { code, said } = await prepare(checkout);
  t.is(code, 0);
  t.deepEqual(
    (await installs(checkout)).slice(0, 3).map((call) => call.split(' ').at(-1)),
    ['podman', 'runc', 'prometheus'],
  );
  t.regex(said, /^! podman cannot be installed: the tests that need it are skipped$/m);
  t.notRegex(said, /runc cannot/);
});

test('without root the missing packages are named and none is installed', async (t) => {
  const checkout = await machine(t, {
    programs: ['podman', 'runc', 'promtool', 'nginx', 'psql', 'faketime', ...isolation, ...shells, ...browsers, ...archivers],
    user: 1000,
  });
  const { code, said } = await prepare(checkout);
  t.is(code, 0);
  t.regex(said, /^! not installed, as that needs root and apt-get: docker\.io$/m);
  t.false((await checkout.calls()).some((call) => call.startsWith('apt-get')));
});

test('programs in Go are built where there is Go, and named where they cannot be', async (t) => {
  const programs = engines.filter((name) => name !== 'helm' && name !== 'otelcol');
  const without = await prepare(await machine(t, { programs }));
  t.is(without.code, 0);
  t.regex(without.said, /^! helm is not built, as there is no Go$/m);
  t.regex(without.said, /^! no OpenTelemetry Collector is built, as there is no Go$/m);
  const checkout = await machine(t, { programs });
  await checkout.fakeProgram('go', 'exit 1');
  await checkout.fakeProgram('timeout', 'shift; "$@"');
  const { code, said } = await prepare(checkout);
  t.is(code, 0);
  t.regex(said, /^! helm cannot be built: the tests that need it are skipped$/m);
  t.regex(said, /^! the OpenTelemetry Collector cannot be built: the tests that need it are skipped$/m);
});

test('a second run finds everything there, and says and installs nothing', async (t) => {
  const checkout = await machine(t, { programs: engines });
  const first = await prepare(checkout);
  t.is(first.code, 0);
  t.true(existsSync(join(checkout.folder, 'node_modules/.cache/ci-python/mypy')));
  t.is((await installs(checkout)).length, 1);
  const second = await prepare(checkout);
  t.is(second.code, 0);
  t.is(second.said, '');
  t.is((await installs(checkout)).length, 1);
});

test('a package of npm that cannot be installed is named, leaves nothing behind and is tried again', async (t) => {
  const checkout = await machine(t, { programs: engines, npm: 'exit 1' });
  for (let run = 1; run <= 2; run++) {
    const { code, said } = await prepare(checkout);
    t.is(code, 0);
    t.regex(said, /^! graphile-worker cannot be installed: the bench compares without it$/m);
    t.deepEqual(await readdir(join(checkout.folder, 'node_modules/.cache')), ['ci-python']);
  }
});

test('other requirements are installed anew', async (t) => {
  const checkout = await machine(t, { programs: engines });
  await prepare(checkout);
  await checkout.write('.ci/requirements.txt', 'mypy==2.5.0\n');
  await prepare(checkout);
  t.is((await installs(checkout)).length, 2);
});

test('a failed installation gives its reason, leaves nothing behind and is tried again', async (t) => {
  const python = 'if [[ $1 == --version ]]; then echo Python 3.12.1; else echo "No module named pip" >&2; exit 1; fi';
  const checkout = await machine(t, { programs: engines, python });
  const { code, said } = await prepare(checkout);
  t.is(code, 0);
  t.regex(said, /^! the Python packages cannot be installed: No module named pip$/m);
  t.deepEqual(await readdir(join(checkout.folder, 'node_modules/.cache')), ['graphile-worker']);
  await prepare(checkout);
  t.is((await installs(checkout)).length, 2);
});

/** A deployment says which settings it changes that were changed elsewhere: the comparison, and the tool against a real service. */
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { changedElsewhere, linesOf, namesOf, withKept, type LastDeployment } from '../../cli/deploy/changed-elsewhere.ts';
import type { EndpointFacts } from '../../cli/deploy/difference.ts';
import { bin, KEY, MANIFEST, world } from './fakes/deploy-world.ts';
import { shared } from './fakes/run.ts';

const facts = (settings: Record<string, unknown>, envNames: string[] = []): EndpointFacts => ({
  ...{ name: 'a', kind: 'queue', routes: {}, functions: [], build: '' },
  settings,
  envNames,
});
const last = (settings: Record<string, unknown>, more: Partial<LastDeployment> = {}): LastDeployment => ({
  ...{ envNames: [], envChanged: [], keptSettings: [], keptEnv: [] },
  settings,
  ...more,
});

test('a setting counts if it is neither what the last deployment set nor what this one sets', (t) => {
  const cases: readonly (readonly [present: unknown, last: unknown, wanted: unknown, isFound: boolean])[] = [
    [5, 2, 2, true],
    [5, 2, 7, true],
    [2, 2, 7, false], // only the project changed
    [5, 2, 5, false], // both came to the same value
    [2, 2, 2, false],
  ];
  for (const [present, before, wanted, isFound] of cases) {
    const found = changedElsewhere(facts({ workersMax: present }), last({ workersMax: before }), facts({ workersMax: wanted }));
    t.deepEqual(
      found?.settings,
      isFound ? { workersMax: { from: present, to: wanted } } : undefined,
      JSON.stringify([present, before, wanted]),
    );
  }
  // Only a deployment changes these.
  t.is(changedElsewhere(facts({ gpuIds: 'T4' }), last({ gpuIds: 'L4' }), facts({ gpuIds: 'H100' })), undefined);
});

test('rate limits are compared whatever their order', (t) => {
  const [run, status] = [
    { requests: 5, concurrent: 1 },
    { requests: 9, concurrent: 0 },
  ];
  const limits = (rateLimits: object): EndpointFacts => facts({ rateLimits });
  t.is(changedElsewhere(limits({ run, status }), last({ rateLimits: {} }), limits({ status, run })), undefined);
  t.is(changedElsewhere(limits({ run, status }), last({ rateLimits: { status, run } }), limits({})), undefined);
  t.deepEqual(Object.keys(changedElsewhere(limits({ run }), last({ rateLimits: {} }), limits({}))?.settings ?? {}), ['rateLimits']);
});

test('environment values are told by name: added, changed and removed elsewhere', (t) => {
  const before = last({}, { envNames: ['GONE', 'SAME', 'TURNED', 'UNSET'], envChanged: ['TURNED'] });
  const found = changedElsewhere(facts({}, ['NEW', 'SAME', 'TURNED']), before, facts({}, ['ADDED', 'GONE', 'SAME', 'TURNED']));
  t.deepEqual(found?.env, { added: ['GONE'], changed: ['TURNED'], removed: ['NEW'] });
  t.deepEqual(found === undefined ? [] : linesOf(found), [
    'env GONE: (removed) → value of this deployment',
    'env TURNED: present value → value of this deployment',
    'env NEW: present value → (removed)',
  ]);
  t.is(found === undefined ? '' : namesOf(found), 'env GONE, env TURNED, env NEW');
});

test('what a deployment kept still counts at the next one, and is kept again', (t) => {
  const kept = last({ workersMax: 5 }, { keptSettings: ['workersMax'], envNames: ['A', 'B'], keptEnv: ['B', 'C'] });
  const wanted = facts({ workersMax: 2, scalerValue: 4 }, ['A', 'C']);
  const found = changedElsewhere(facts({ workersMax: 5, scalerValue: 4 }, ['A', 'B']), kept, wanted);
  t.like(found, { settings: { workersMax: { from: 5, to: 2 } }, env: { added: ['C'], changed: [], removed: ['B'] } });
  t.like(withKept(wanted, found), { settings: { workersMax: 5, scalerValue: 4 }, envNames: ['A', 'B'] });
});

/** Runs a program at a terminal of its own, and presses a key once it asks. */
async function atTerminal(cwd: string, env: Readonly<Record<string, string>>, key: string, args: readonly string[]): Promise<string> {
  // Python has terminals of its own; the program under test is at the other end of one.
  const program = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
heard = b""
pressed = False
while True:
    try:
        part = os.read(terminal, 1000)
    except OSError:
        break
    if not part:
        break
    heard += part
    if not pressed and b"[y/N]" in heard:
        pressed = True
        os.write(terminal, sys.argv[1].encode())
_, status = os.waitpid(pid, 0)
sys.stdout.write(heard.decode() + "\\nexit %d" % os.waitstatus_to_exitcode(status))
`;
  const child = spawn('python3', ['-c', program, key, process.execPath, ...args], {
    ...{ cwd, stdio: ['ignore', 'pipe', 'inherit'] as const },
    env: { ...shared, HOME: process.env['HOME'], NO_COLOR: '1', ...env },
  });
  let heard = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (heard += text));
  await new Promise((resolve) => child.on('close', resolve));
  return heard;
}

interface Listed {
  readonly workersMax: number;
  readonly buildDigest: string;
}

test('deploy says what was changed elsewhere before it replaces it, asks on a terminal, and keeps it on request', async (t) => {
  const { capstan, folder, url } = await world(t);
  const orders = async (): Promise<Listed | undefined> =>
    (JSON.parse((await capstan('endpoints', 'list', '--json')).stdout) as (Listed & { name: string })[]).find(
      ({ name }) => name === 'orders',
    );
  const change = async (...settings: string[]): Promise<void> => {
    const { code, stderr } = await capstan('endpoints', 'set', 'orders', ...settings);
    t.is(code, 0, stderr);
  };
  const changed = async (): Promise<unknown> => {
    const { stdout, stderr } = await capstan('deploy', folder, '--dry-run', '--json');
    return stdout === '' ? stderr : (JSON.parse(stdout) as { changedElsewhere: unknown }).changedElsewhere;
  };
  t.is((await capstan('deploy', folder)).code, 0);
  const again = await capstan('deploy', folder);
  t.notRegex(again.stderr, /changed after/);

  await change('workersMax=5', 'env.MODE=s3cret-fast', 'env.TOKEN=s3cret-new', 'rateLimits.run=100/10');
  const limits = { from: { run: { requests: 100, concurrent: 10 } }, to: {} };
  const expected = [
    {
      endpoint: 'orders',
      settings: { workersMax: { from: 5, to: 2 }, rateLimits: limits },
      env: { added: [], changed: ['TOKEN'], removed: ['MODE'] },
    },
  ];
  t.deepEqual(await changed(), expected);
  const dry = await capstan('deploy', folder, '--dry-run');
  t.regex(dry.stdout, /^ {4}changed after the last deployment: workersMax, rateLimits, env TOKEN, env MODE$/m);
  t.regex((await capstan('deploy', folder, '--dry-run', '--keep-settings')).stdout, /^= endpoint orders \(unchanged\)$/m);

  // A person who does not agree changes nothing.
  const env = { SERVICE_API_KEY: KEY, CAPSTAN_URL: url };
  const refused = await atTerminal(folder, env, 'n', [bin, 'deploy', folder, '--no-wait']);
  t.regex(refused, /orders: this deployment replaces settings that were changed after its last deployment/);
  t.regex(refused, /workersMax: 5 → 2/);
  t.regex(refused, /env MODE: present value → \(removed\)/);
  t.notRegex(refused, /deploying to|s3cret/);
  t.regex(refused, /nothing was changed[\s\S]*--keep-settings[\s\S]*exit 75/);
  t.is((await orders())?.workersMax, 5);

  // Kept by a deployment with a new build; the next one still says that it would replace them.
  await writeFile(join(folder, 'more.txt'), 'more');
  const before = await orders();
  const kept = await capstan('deploy', folder, '--keep-settings');
  t.is(kept.code, 0, kept.stderr);
  t.regex(kept.stderr, /✓ orders keeps its present workersMax, rateLimits, env TOKEN, env MODE\n/);
  t.is((await orders())?.workersMax, 5);
  t.not((await orders())?.buildDigest, before?.buildDigest);
  t.deepEqual(await changed(), expected);

  // Without a terminal it says so and goes on.
  const replaced = await capstan('deploy', folder);
  t.is(replaced.code, 0, replaced.stderr);
  t.regex(
    replaced.stderr,
    /^! orders: this deployment replaces settings[^\n]*\n {4}workersMax: 5 → 2\n[\s\S]*hint: --keep-settings keeps/m,
  );
  t.is((await orders())?.workersMax, MANIFEST.resources.orders.workersMax);
  t.deepEqual(await changed(), []);

  await change('env.TOKEN=');
  t.like(await changed(), [{ settings: {}, env: { added: ['TOKEN'], changed: [], removed: [] } }]);
  const agreed = await atTerminal(folder, env, 'y', [bin, 'deploy', folder, '--no-wait']);
  t.regex(agreed, /Replace them\? \[y\/N\] yes[\s\S]*0 created, 2 updated[\s\S]*exit 0/);
  t.deepEqual(await changed(), []);
  await change('workersMax=5');
  t.regex(await atTerminal(folder, env, 'n', [bin, 'deploy', folder, '--no-wait', '--yes']), /workersMax: 5 → 2[\s\S]*exit 0/);
});

/** What CI does with failed tests, over an npm that fails as it is told, with the events of ava. */
import { chmod, mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { Checkout } from './checkout.ts';

interface Event {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface Told {
  /** What the full run writes of its events; none: nothing. */
  readonly events?: readonly Event[];
  /** Of `.ci/unsteady.txt`. */
  readonly list?: string;
  /** Files that fail when they run by themselves too. */
  readonly again?: readonly string[];
  /** Files that crash when they run by themselves. */
  readonly crash?: readonly string[];
  readonly code?: number;
  /** The full run does not end by itself. */
  readonly hangs?: true;
}

interface Outcome {
  readonly code: number | NodeJS.Signals;
  readonly said: string;
  /** Arguments of every call of npm. */
  readonly calls: readonly string[];
}

const FAKE_NPM = `#!/usr/bin/env node
const { appendFileSync, readFileSync } = require('node:fs');
const told = JSON.parse(readFileSync('told.json', 'utf8'));
const [, , ...args] = process.argv;
appendFileSync('calls', args.join(' ') + '\\n');
const file = args[2];
const write = (events) => appendFileSync(process.env.CAPSTAN_TEST_EVENTS, events.map((event) => JSON.stringify(event) + '\\n').join(''));
const fails = told.again?.includes(file);
const crashes = told.crash?.includes(file);
if (file === undefined) write(told.events ?? []);
else write([
  { type: 'selected-test', file, title: 'one' },
  { type: fails ? 'test-failed' : 'test-passed', file, title: 'one' },
  ...(crashes ? [{ type: 'worker-failed', file, exit: 3 }] : []),
  { type: 'end' },
]);
console.error('npm error Test failed.  See above for more details.');
if (told.hangs) setInterval(() => undefined, 1_000);
process.exitCode = file === undefined || fails || crashes ? (told.code ?? 1) : 0;
`;

const selected = (file: string, title = 'one'): Event => ({ type: 'selected-test', file, title });
const passed = (file: string, title = 'one'): readonly Event[] => [
  selected(file, title),
  { type: 'test-passed', file, title, duration: 3 },
];
const failed = (file: string, title = 'one'): readonly Event[] => [
  selected(file, title),
  { type: 'test-failed', file, title, duration: 3 },
];
const skipped = (file: string, title = 'one'): Event => ({ ...selected(file, title), skipped: true });
const end: Event = { type: 'end' };

async function afterRun(t: ExecutionContext, told: Told): Promise<Outcome> {
  const checkout = await Checkout.make(t, ['.ci/tests', '.ci/tests.mjs', '.ci/verdict.mjs', '.ci/unsteady.txt']);
  if (told.list !== undefined) await checkout.write('.ci/unsteady.txt', told.list);
  await checkout.write('told.json', JSON.stringify(told));
  for (const name of ['a', 'b']) await checkout.write(`test/${name}.test.ts`, '');
  await checkout.write('bin/npm', FAKE_NPM);
  await chmod(join(checkout.folder, 'bin/npm'), 0o755);
  const { code, said } = await checkout.run('.ci/tests', [], undefined, told.hangs === true ? { CAPSTAN_TEST_SILENCE_MS: '1000' } : {});
  return { code, said, calls: await checkout.calls() };
}

const A = 'test/a.test.ts';
const B = 'test/b.test.ts';

test('what passes is run once', async (t) => {
  const { code, calls, said } = await afterRun(t, { events: [...passed(A), ...passed(B), ...passed(B, 'two'), end], code: 0 });
  t.is(code, 0);
  t.deepEqual(calls, ['test']);
  t.notRegex(said, /unsteady|once more/);
  t.regex(said, /\n3 passed, 0 failed, 0 skipped\n$/);
});

test('a file that passes by itself is named as unsteady, and lets the change through', async (t) => {
  const { code, calls, said } = await afterRun(t, {
    events: [...failed(A, 'is quick'), ...passed(A, 'is right'), ...failed(B), skipped(B, 'on a GPU'), end],
  });
  t.is(code, 0);
  t.deepEqual(calls, ['test', 'test -- test/a.test.ts', 'test -- test/b.test.ts']);
  t.regex(said, /^! unsteady: test\/a\.test\.ts\n! unsteady: test\/b\.test\.ts$/m);
  t.regex(said, /^ {2}failed once: test\/a\.test\.ts › is quick \(not in \.ci\/unsteady\.txt\)$/m);
  t.regex(said, /\n3 passed, 0 failed, 1 skipped\n$/);
});

test('one that fails again keeps it out, and the others are named all the same', async (t) => {
  const { code, said } = await afterRun(t, { events: [...failed(A), ...failed(B), end], again: [A] });
  t.is(code, 1);
  t.notRegex(said, /unsteady: test\/a/);
  t.regex(said, /^! unsteady: test\/b\.test\.ts$/m);
  t.regex(said, /^✗ failed: test\/a\.test\.ts › one$/m);
  t.regex(said, /\n1 passed, 1 failed, 0 skipped\n$/);
});

test('a file with several failed tests is run again once', async (t) => {
  const { calls } = await afterRun(t, { events: [...failed(A), ...failed(A, 'two'), end] });
  t.deepEqual(calls, ['test', 'test -- test/a.test.ts']);
});

test('a run that hangs is ended, and red, whatever passed', async (t) => {
  const { code, calls, said } = await afterRun(t, { events: [...passed(A), end], code: 0, hangs: true });
  t.not(code, 0);
  t.deepEqual(calls, ['test']);
  t.regex(said, /no event for 1 s: the run was ended/);
});

test('a file that crashes by itself keeps it out', async (t) => {
  const { code, said } = await afterRun(t, { events: [...failed(A), end], crash: [A], code: 7 });
  t.is(code, 7);
  t.notRegex(said, /! unsteady/);
  t.regex(said, /worker failed: test\/a\.test\.ts: exit 3/);
});

const beyond: Record<string, Told> = {
  'a failed hook': { events: [...failed(A), { type: 'hook-failed', file: B, title: 'before hook' }, end] },
  'a time-out': { events: [...failed(A), { type: 'timeout', pending: ['test/b.test.ts › one'] }, end] },
  'an exception outside of a test': { events: [...failed(A), { type: 'uncaught-exception', file: B, message: 'no' }, end] },
  'a rejection that nobody handles': { events: [...failed(A), { type: 'unhandled-rejection', file: B, message: 'no' }, end] },
  'a file that crashed': { events: [...failed(A), { type: 'worker-failed', file: B, exit: 3 }, end] },
  'a file that ends its process': { events: [...failed(A), { type: 'process-exit', file: B }, end] },
  'a file without tests': { events: [...failed(A), { type: 'missing-ava-import', file: B }, end] },
  'a fault of the test runner': { events: [...failed(A), { type: 'internal-error', message: 'no' }, end] },
  'an event that nobody knows': { events: [...failed(A), { type: 'machine-on-fire' }, end] },
  'a test without an outcome': { events: [...failed(A), selected(B), end] },
  'a run without an end': { events: failed(A) },
  'a run without events': {},
  'a failure without a failed test': { events: [...passed(A), end] },
};
for (const [what, told] of Object.entries(beyond))
  test(`${what} stays red, with no second run`, async (t) => {
    const { code, calls, said } = await afterRun(t, { ...told, code: 7 });
    t.is(code, 7);
    t.deepEqual(calls, ['test']);
    t.notRegex(said, /unsteady/);
    t.regex(said, /^✗ not run again, as more failed than tests:\n\S/m);
  });

for (const what of ['a failed hook', 'a run without an end', 'a run without events'])
  test(`${what} is red whatever the exit code is`, async (t) => {
    const { code } = await afterRun(t, { ...beyond[what], code: 0 });
    t.is(code, 1);
  });

test('a known unsteady test is named with its date', async (t) => {
  const list = '# comment\n\n2026-11-22 test/a.test.ts › is quick › at all\n';
  const { code, said } = await afterRun(t, { events: [...failed(A, 'is quick › at all'), end], list });
  t.is(code, 0);
  t.regex(said, /^ {2}failed once: test\/a\.test\.ts › is quick › at all \(known since 2026-11-22\)$/m);
});

test('a known unsteady test that fails by itself, too, is red', async (t) => {
  const { code } = await afterRun(t, { events: [...failed(A), end], again: [A], list: '2026-11-22 test/a.test.ts › one\n' });
  t.is(code, 1);
});

const wrongLines: Record<string, RegExp> = {
  'test/a.test.ts › one': /line 1: expected '<YYYY-MM-DD> <file> › <title>'/,
  '2026-11-32 test/a.test.ts › one': /line 1: expected '<YYYY-MM-DD> <file> › <title>'/,
  '2026-11-22 test/gone.test.ts › one': /line 1: there is no test\/gone\.test\.ts/,
  '2026-11-22 test/a.test.ts › one\n2026-11-23 test/a.test.ts › one': /line 2: test\/a\.test\.ts › one is there twice/,
};
for (const [list, says] of Object.entries(wrongLines))
  test(`the list of unsteady tests is refused before any test runs: ${list.replaceAll('\n', '; ')}`, async (t) => {
    const { code, calls, said } = await afterRun(t, { list, events: [...passed(A), end], code: 0 });
    t.is(code, 1);
    t.deepEqual(calls, []);
    t.regex(said, says);
  });

/** A checkout whose `npm test` is the real ava, with this test file and one of a set. */
async function withRealAva(t: ExecutionContext, body: string, args: readonly string[] = []): Promise<Outcome> {
  const root = join(import.meta.dirname, '../..');
  const checkout = await Checkout.make(t, ['.ci', 'ava.config.mjs']);
  await checkout.write('package.json', JSON.stringify({ type: 'module' }));
  await checkout.write('test/a.test.ts', `import test from 'ava';\nimport { existsSync, writeFileSync } from 'node:fs';\n${body}`);
  await checkout.write(
    'test/fault/heavy.test.ts',
    `import test from 'ava';\ntest('heavy', (t) => t.is(process.env['SIM_SEEDS'], '2000'));`,
  );
  await mkdir(join(checkout.folder, 'node_modules'));
  await symlink(join(root, 'node_modules/ava'), join(checkout.folder, 'node_modules/ava'));
  await checkout.fakeProgram('npm', `shift; [[ \${1-} == -- ]] && shift; exec node '${root}/node_modules/ava/entrypoints/cli.js' "$@"`);
  const { code, said } = await checkout.run('.ci/tests', args);
  return { code, said, calls: await checkout.calls() };
}

test('ava tells of tests that pass, fail twice and are left out', async (t) => {
  const body = `test('right', (t) => t.pass());
    test('wrong', (t) => t.fail());
    test.skip('left out', (t) => t.pass());
    test.failing('known to fail', (t) => t.fail());`;
  const { code, said, calls } = await withRealAva(t, body);
  t.is(code, 1);
  t.is(calls.length, 2);
  t.regex(said, /✗ failed: test\/a\.test\.ts › wrong\n\n2 passed, 1 failed, 1 skipped\n$/);
});

test('ava tells of a test that fails once', async (t) => {
  const { code, said } = await withRealAva(
    t,
    `test('at times', (t) => { const found = existsSync('mark'); writeFileSync('mark', ''); t.true(found); });`,
  );
  t.is(code, 0);
  t.regex(said, /\n! unsteady: test\/a\.test\.ts\n\n1 passed, 0 failed, 0 skipped\n$/);
});

test('ava runs a file of a set when it is named, and only then', async (t) => {
  const body = `test('light', (t) => t.is(process.env['SIM_SEEDS'], '100'));`;
  const without = await withRealAva(t, body);
  t.is(without.code, 0);
  t.regex(without.said, /\n1 passed, 0 failed, 0 skipped\n$/);
  const named = await withRealAva(t, body, ['test/fault/*.test.ts']);
  t.is(named.code, 0);
  t.regex(named.said, /✔ heavy[^]*\n1 passed, 0 failed, 0 skipped\n$/);
});

const badly: Record<string, readonly [body: string, says: RegExp, ...args: string[]]> = {
  'a hook that fails': [
    `test('right', (t) => t.pass()); test.after('tidies up', () => { throw new Error('no'); });`,
    /hook failed: test\/a\.test\.ts › tidies up/,
  ],
  'an exception outside of a test': [
    `test('right', async (t) => { setImmediate(() => { throw new Error('out of reach'); }); await new Promise(setImmediate); t.pass(); });`,
    /uncaught exception: test\/a\.test\.ts: out of reach/,
  ],
  'a rejection that nobody handles': [
    `test('right', (t) => { void Promise.reject(new Error('unheard')); t.pass(); });`,
    /unhandled rejection: test\/a\.test\.ts: unheard/,
  ],
  'a process that is ended': [`test('ends all', () => process.exit(3));`, /process exit: test\/a\.test\.ts/],
  'a file that does not load': [`throw new Error('not loaded');`, /uncaught exception: test\/a\.test\.ts: not loaded/],
  'a file that never ends': [`await new Promise(() => setInterval(() => 0, 1e6));`, /^timeout$/m, '--timeout=1s'],
};
for (const [what, [body, says, ...args]] of Object.entries(badly))
  test(`ava tells of ${what}`, async (t) => {
    const { code, said, calls } = await withRealAva(t, body, args);
    t.is(code, 1);
    t.is(calls.length, 1);
    t.regex(said, says);
  });

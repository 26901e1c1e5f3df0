/** What CI does with failed tests, over an npm that fails as it is told, with the words of ava. */
import { chmod, cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const script = join(import.meta.dirname, '../../.ci/tests');

interface Told {
  /** What the full run prints below the last rule. */
  readonly summary: string;
  /** Above it. */
  readonly lines?: string;
  /** Files of the list that ava leaves; none: it left no list. */
  readonly failed?: readonly string[];
  /** Files that fail when they run by themselves too. */
  readonly again?: readonly string[];
  readonly code?: number;
}

interface Outcome {
  readonly code: number | NodeJS.Signals;
  readonly said: string;
  /** Arguments of every call of npm. */
  readonly calls: readonly string[];
}

const fakeNpm = `#!/usr/bin/env node
const { appendFileSync, mkdirSync, readFileSync, writeFileSync } = require('node:fs');
const told = JSON.parse(readFileSync('told.json', 'utf8'));
const [, , ...args] = process.argv;
appendFileSync('calls', args.join(' ') + '\\n');
const file = args[2];
if (file === undefined) {
  if (told.failed !== undefined) {
    mkdirSync('node_modules/.cache/ava', { recursive: true });
    writeFileSync('node_modules/.cache/ava/failing-tests.json', JSON.stringify(told.failed.map((name) => process.cwd() + '/' + name)));
  }
  console.log((told.lines ?? '') + '\\n  ─\\n\\n' + told.summary + '\\n');
  console.error('npm error Test failed.  See above for more details.');
}
process.exitCode = file === undefined || told.again?.includes(file) ? (told.code ?? 1) : 0;
`;

async function afterRun(t: ExecutionContext, told: Told): Promise<Outcome> {
  const folder = await folderOf(t);
  await mkdir(join(folder, '.ci'));
  await cp(script, join(folder, '.ci/tests'));
  await writeFile(join(folder, 'told.json'), JSON.stringify(told));
  await writeFile(join(folder, 'npm'), fakeNpm);
  await chmod(join(folder, 'npm'), 0o755);
  const path = [folder, dirname(process.execPath), process.env['PATH']].join(':');
  const running = run([join(folder, '.ci/tests')], { program: 'bash', cwd: folder, env: { PATH: path } });
  const code = await running.ended;
  const calls = (await readFile(join(folder, 'calls'), 'utf8')).trimEnd().split('\n');
  return { code, said: running.stdout(), calls };
}

test('what passes is run once', async (t) => {
  const { code, calls, said } = await afterRun(t, { summary: '  3 tests passed', failed: [], code: 0 });
  t.is(code, 0);
  t.deepEqual(calls, ['test']);
  t.notRegex(said, /unsteady|once more/);
});

test('a file that passes by itself is named as unsteady, and lets the change through', async (t) => {
  const { code, calls, said } = await afterRun(t, {
    lines: '  ✘ [fail]: b › is quick\n  ─\n\n  b › is quick\n\n  Difference:\n',
    summary: '  1 test failed\n  2 tests skipped',
    failed: ['test/a.test.ts', 'test/b.test.ts'],
  });
  t.is(code, 0);
  t.deepEqual(calls, ['test', 'test -- test/a.test.ts', 'test -- test/b.test.ts']);
  t.regex(said, /^! unsteady: test\/a\.test\.ts\n! unsteady: test\/b\.test\.ts$/m);
});

test('one that fails again keeps it out, and the others are named all the same', async (t) => {
  const { code, said } = await afterRun(t, {
    summary: '  2 tests failed',
    failed: ['test/a.test.ts', 'test/b.test.ts'],
    again: ['test/a.test.ts'],
  });
  t.is(code, 1);
  t.notRegex(said, /unsteady: test\/a/);
  t.regex(said, /^! unsteady: test\/b\.test\.ts$/m);
});

const beyond: Record<string, Told> = {
  'a failed hook': { summary: '  1 hook failed\n  1 test failed', failed: ['test/a.test.ts'] },
  'a time-out': { summary: '  1 test failed\n  4 tests remained pending after a timeout', failed: ['test/a.test.ts'] },
  'an exception outside of a test': { summary: '  1 test failed\n  1 uncaught exception', failed: ['test/a.test.ts'] },
  'a file that crashed': {
    lines: '  ✘ test/b.test.ts exited with a non-zero exit code: 3',
    summary: '  1 test failed',
    failed: ['test/a.test.ts'],
  },
  'a run without a list': { summary: '  1 test failed' },
  'an empty list': { summary: '  1 uncaught exception', failed: [] },
};
for (const [what, told] of Object.entries(beyond))
  test(`${what} stays red, with no second run`, async (t) => {
    const { code, calls, said } = await afterRun(t, { ...told, code: 7 });
    t.is(code, 7);
    t.deepEqual(calls, ['test']);
    t.notRegex(said, /unsteady/);
  });

/** No test is left out by `.ci/run`: each runs in the check `tests` or in one set, and each may be named. */
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { filesFor, levelFor, sets } from '../../.ci/sets.mjs';
import { Checkout, PROGRAMS } from './checkout.ts';

const root = join(import.meta.dirname, '../..');
const all = globSync('test/**/*.test.ts', { cwd: root }).filter((file) => !file.includes('node_modules'));

const runs = (patterns: readonly string[], file: string): boolean =>
  patterns.some((each) => !each.startsWith('!') && matchesGlob(file, each)) &&
  !patterns.some((each) => each.startsWith('!') && matchesGlob(file, each.slice(1)));

test('each test file runs in exactly one check', (t) => {
  t.true(all.length > 200, `only ${all.length} test files were found`);
  for (const file of all) {
    const checks = Object.entries(sets).filter(([, patterns]) => runs(patterns, file));
    t.is(checks.length + (runs(filesFor([]), file) ? 1 : 0), 1, file);
  }
});

test('each pattern of a set has test files, and is read alike by ava, Node and .ci/sets.mjs', (t) => {
  for (const pattern of Object.values(sets).flat()) {
    t.true(
      all.some((file) => matchesGlob(file, pattern)),
      pattern,
    );
    // `[!n]*` is another class for ava: a set once ran one file of eleven.
    t.regex(pattern, /^[\w./-]+(?:\*[\w./-]*)?$/);
  }
});

test('sets of what users run are tested at the level of isolation that the machine has, all others without one', (t) => {
  t.is(levelFor([]), 'none');
  t.is(levelFor(['--verbose', 'test/clients/*.test.ts']), 'auto');
  t.is(levelFor(['./test/apps/run.test.ts', 'test/sdk/stack.test.ts']), 'auto');
  t.is(levelFor(['test/apps/run.test.ts', 'test/agent/config.test.ts']), 'none');
});

test('a test file may be named whether it is in a set or not', (t) => {
  for (const file of all) t.true(runs(filesFor(['--verbose', file]), file), file);
});

test('the sets are printed for .ci/run, and an unknown one is refused', async (t) => {
  const printed = async (...args: readonly string[]): Promise<string> =>
    (await promisify(execFile)(process.execPath, ['.ci/sets.mjs', ...args], { cwd: root })).stdout;
  t.deepEqual((await printed()).trim().split('\n'), Object.keys(sets));
  t.is(await printed('faults'), sets.faults.map((pattern) => `${pattern}\n`).join(''));
  await t.throwsAsync(printed('nothing'), { message: /there is no set nothing; there are: runtimes/ });
});

test('each set is a check of .ci/run', async (t) => {
  const checkout = await Checkout.make(t, PROGRAMS);
  await checkout.writeProgram('.ci/prepare', '#!/bin/sh\n');
  await checkout.writeProgram('.ci/tests', `#!/bin/sh\necho "$*" >>'${checkout.folder}/calls'\n`);
  await checkout.fakeProgram('npm');
  const { code, said } = await checkout.run('.ci/run', Object.keys(sets));
  t.is(code, 0);
  for (const name of Object.keys(sets)) t.regex(said, new RegExp(`^✓ ${name} `, 'm'));
  t.deepEqual(
    (await checkout.calls()).toSorted(),
    Object.values(sets)
      .map((patterns) => patterns.join(' '))
      .toSorted(),
  );
});

test('without the sets .ci/run fails', async (t) => {
  const checkout = await Checkout.make(
    t,
    PROGRAMS.filter((file) => file !== '.ci/sets.mjs'),
  );
  await checkout.writeProgram('.ci/prepare', '#!/bin/sh\n');
  const { code, said } = await checkout.run('.ci/run', ['readme']);
  t.is(code, 1);
  t.regex(said, /✗ failed: .*sets/);
});

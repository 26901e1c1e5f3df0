/** Checks that run two at a time: which run together, how their output reads, and that a signal ends both. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { run, type Run } from '../cli/fakes/run.ts';
import { Checkout } from './checkout.ts';

interface Check {
  readonly name: string;
  readonly alone?: boolean;
  readonly waits?: boolean;
  readonly calm?: boolean;
  /** Commands of bash, in the checkout; `await FILE` waits until it is there. */
  readonly commands: string;
}

const AWAIT = 'await() { until [[ -e $1 ]]; do sleep 0.02; done; }';

/** Each of `checks` by bash, two at a time. */
async function start(t: ExecutionContext, checks: readonly Check[]): Promise<{ readonly running: Run; readonly checkout: Checkout }> {
  const checkout = await Checkout.make(t, ['.ci/lanes.mjs']);
  const made = checks.map(({ commands, ...check }) => ({ ...check, command: ['bash', '-c', `${AWAIT}; ${commands}`] }));
  await checkout.write(
    'main.mjs',
    `import { runChecks } from './.ci/lanes.mjs';
process.exitCode = await runChecks(${JSON.stringify(made)}, { only: [], wrong: [] });\n`,
  );
  const running = run([join(checkout.folder, 'main.mjs')], { cwd: checkout.folder });
  t.teardown(() => running.child.kill('SIGKILL'));
  return { running, checkout };
}

/** The lines of the checks themselves, without what says of them how they went. */
const linesOf = (said: string): readonly string[] => said.split('\n').filter((line) => /^[a-z]+ says/.test(line));

test('two checks run at a time, and the output of each is printed whole', async (t) => {
  const { running } = await start(t, [
    { name: 'first', commands: 'echo first says 1; >first; await second; echo first says 2 >&2' },
    { name: 'second', commands: 'await first; echo second says 1; >second; echo second says 2' },
    { name: 'third', commands: 'echo third says 1' },
  ]);
  t.is(await running.ended, 0);
  t.deepEqual(linesOf(running.stdout()), ['first says 1', 'first says 2', 'second says 1', 'second says 2', 'third says 1']);
  t.regex(running.stdout(), /^✓ first \(\d+ s, \d+ s of processor time\)\n\n=> second: /m);
});

test('a check that wants to be alone is overtaken by the others, and runs when they have ended', async (t) => {
  const { running } = await start(t, [
    { name: 'first', commands: '>first; await both; rm first' },
    { name: 'measure', alone: true, commands: 'ls first measure 2>/dev/null; >measure; echo measure says 1; rm measure' },
    { name: 'second', commands: 'await first; ls measure 2>/dev/null; >both' },
    { name: 'compare', alone: true, commands: 'ls first measure 2>/dev/null; echo compare says 1' },
  ]);
  t.is(await running.ended, 0);
  t.regex(
    running.stdout(),
    /=> second: .*\n✓ second .*\n\n=> measure: .*\nmeasure says 1\n✓ measure .*\n\n=> compare: .*\ncompare says 1\n/,
  );
  t.notRegex(running.stdout(), /^(?:first|measure)$/m);
});

test('a check that mostly waits goes beside one that computes, and one that wants calm beside no other', async (t) => {
  const { running } = await start(t, [
    { name: 'first', commands: '>first; await history; rm first' },
    { name: 'page', calm: true, commands: '>page; while [[ -e history ]]; do sleep 0.02; done; ls first second 2>/dev/null; rm page' },
    { name: 'second', commands: '>second; ls page 2>/dev/null; rm second' },
    { name: 'history', waits: true, commands: '>history; await page; rm history' },
  ]);
  t.is(await running.ended, 0);
  t.deepEqual(
    [...running.stdout().matchAll(/^=> (\w+)/gm)].map(([, name]) => name),
    ['first', 'history', 'page', 'second'],
  );
  t.notRegex(running.stdout(), /^(?:first|second|page)$/m);
});

test('those that failed are named in the order of the list, whichever ended first', async (t) => {
  const { running } = await start(t, [
    { name: 'first', commands: 'await second; exit 3' },
    { name: 'second', commands: '>second; exit 4' },
  ]);
  t.is(await running.ended, 1);
  t.regex(running.stdout(), /^✗ first failed with exit code 3 \(.*\n\n=> second: .*\n✗ second failed with exit code 4/m);
  t.regex(running.stdout(), /\n✗ failed: first second\n$/);
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  test(`${signal} ends both checks, and no other begins`, async (t) => {
    const caught = (name: string): string => `trap '>${name}.ended; exit 7' INT TERM; >${name}; await first; await second;`;
    const { running, checkout } = await start(t, [
      { name: 'first', commands: `${caught('first')} echo ready; await never` },
      { name: 'second', commands: `${caught('second')} await never` },
      { name: 'third', commands: '>third' },
    ]);
    await running.hear(/^ready$/m);
    running.child.kill(signal);
    t.is(await running.ended, signal === 'SIGINT' ? 130 : 143);
    t.regex(running.stdout(), new RegExp(`✗ failed: first second\n\n✗ ended by ${signal} after \\d+ s\n$`));
    for (const name of ['first.ended', 'second.ended']) await t.notThrowsAsync(access(join(checkout.folder, name)), name);
    await t.throwsAsync(access(join(checkout.folder, 'third')), { code: 'ENOENT' });
  });
}

test('both checks end when nobody reads the output any more, and no other begins', async (t) => {
  const caught = (name: string): string => `trap '>${name}.ended; exit 7' TERM; >${name}; await first; await second;`;
  const { running, checkout } = await start(t, [
    { name: 'first', commands: `${caught('first')} while :; do echo first says more; sleep 0.02; done` },
    { name: 'second', commands: `${caught('second')} await never` },
    { name: 'third', commands: '>third' },
  ]);
  await running.hear(/^first says more$/m);
  running.child.stdout?.destroy();
  t.is(await running.ended, 143);
  for (const name of ['first.ended', 'second.ended']) await t.notThrowsAsync(access(join(checkout.folder, name)), name);
  await t.throwsAsync(access(join(checkout.folder, 'third')), { code: 'ENOENT' });
});

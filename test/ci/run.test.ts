/** The order of `.ci/run` and what it reports, with made-up programs for the checks themselves. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { Checkout, PROGRAMS } from './checkout.ts';

async function checkoutWithFakes(t: ExecutionContext, { npm = '', python = 'exit 0' } = {}): Promise<Checkout> {
  const checkout = await Checkout.make(t, PROGRAMS);
  await checkout.write('README.md', 'Run `npm test`.\n');
  await checkout.fakeProgram('npm', npm);
  await checkout.fakeProgram('python3', python);
  for (const name of ['prepare', 'tests'])
    await checkout.writeProgram(`.ci/${name}`, `#!/bin/bash\nprintf '%s\\n' "${name} $*" >>'${checkout.folder}/calls'\n`);
  return checkout;
}

test('everything is installed by .ci/prepare, before the first check', async (t) => {
  const checkout = await checkoutWithFakes(t);
  const { code, said } = await checkout.run('.ci/run');
  const calls = await checkout.calls();
  t.is(code, 0);
  t.is(calls[0], 'prepare ');
  t.is(calls.filter((call) => call.startsWith('prepare')).length, 1);
  t.regex(said, /✓ all checks passed in \d+ s\n$/);
  t.notRegex(await readFile(join(checkout.folder, '.ci/run'), 'utf8'), /apt-get|pip install|npm (install|ci)\b/);
});

test('every check runs though one fails, and the failed one is named', async (t) => {
  const checkout = await checkoutWithFakes(t, { npm: '[[ $* == *" types" ]] && exit 3; exit 0' });
  const { code, said } = await checkout.run('.ci/run');
  t.is(code, 1);
  t.regex(said, /✗ types failed with exit code 3/);
  t.regex(said, /✓ format/);
  t.regex(said, /\n✗ failed: types\n$/);
});

test('a check whose program is not there is skipped with its reason, and named at the end', async (t) => {
  const checkout = await checkoutWithFakes(t, { python: 'exit 1' });
  const { code, said } = await checkout.run('.ci/run');
  t.is(code, 0);
  t.regex(said, /^- python-types skipped: mypy is not there/m);
  t.regex(said, /^- skipped: history-cluster python-types$/m);
});

test('mypy is told to be strict about the Python package', async (t) => {
  const checkout = await checkoutWithFakes(t);
  await checkout.run('.ci/run', ['python-types']);
  const call = (await checkout.calls()).at(-1) ?? '';
  t.regex(call, /^python3 -m mypy --strict --python-version 3\.10 .*sdk\/python\/capstan$/);
});

test('a mypy error fails the check', async (t) => {
  const checkout = await checkoutWithFakes(t, { python: '[[ $* == *--version ]]' });
  const { code, said } = await checkout.run('.ci/run', ['python-types']);
  t.is(code, 1);
  t.regex(said, /\n✗ failed: python-types\n$/);
});

test('named checks run alone, and an unknown name fails with the names there are', async (t) => {
  const checkout = await checkoutWithFakes(t);
  const one = await checkout.run('.ci/run', ['lint']);
  t.is(one.code, 0);
  t.deepEqual(
    (await checkout.calls()).filter((call) => call.startsWith('npm')),
    ['npm run --silent lint'],
  );
  const none = await checkout.run('.ci/run', ['lnit']);
  t.is(none.code, 1);
  t.regex(none.said, /there is no check lnit; there are: readme .*lint/);
});

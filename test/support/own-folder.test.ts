/** What a killed run of the tests left behind goes with the next run, and nothing else does. */
import { once } from 'node:events';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import test from 'ava';

import { ownFolder } from './own-folder.ts';
import { smallDisk, whyNoSmallDisk } from './small-disk.ts';

const root = join(import.meta.dirname, '../..');
const withMount = whyNoSmallDisk === '' ? test : test.skip;

test('folders of the dead are taken away, those of the living and of engines are not', async (t) => {
  // Of its own: other test files sweep the common one.
  const temporary = mkdtempSync(join(tmpdir(), `capstan-temporary-${process.pid}-`));
  process.env['TMPDIR'] = temporary;
  t.teardown(() => rmSync(temporary, { recursive: true }));
  const child = spawn(process.execPath, ['--version'], { stdio: 'ignore' });
  await once(child, 'exit');
  const dead = child.pid ?? 0;
  const names = [
    `capstan-left-${dead}-aBcD12`,
    `capstan-docker-${dead}-aBcD12`,
    `capstan-left-${process.pid}-aBcD12`,
    `capstan-left-aBcD12`,
  ];
  for (const name of names) mkdirSync(join(temporary, name, 'inside'), { recursive: true });
  const own = await ownFolder('capstan-own');
  t.true(own.startsWith(join(temporary, `capstan-own-${process.pid}-`)), own);
  t.deepEqual(
    names.map((name) => existsSync(join(temporary, name))),
    [false, true, true, true],
  );
});

withMount(`a folder that cannot be removed is named and left${whyNoSmallDisk}`, async (t) => {
  const temporary = mkdtempSync(join(tmpdir(), `capstan-temporary-${process.pid}-`));
  t.teardown(() => rmSync(temporary, { recursive: true }));
  const dead = spawnSync(process.execPath, ['--version']).pid;
  const [isMounted = '', hasMount = '', plain = ''] = ['mounted', 'mount', 'plain'].map((name) =>
    join(temporary, `capstan-${name}-${dead}-aBcD12`),
  );
  for (const each of [isMounted, join(hasMount, 'inside'), plain]) mkdirSync(each, { recursive: true });
  for (const each of [isMounted, join(hasMount, 'inside')]) await smallDisk(t, '64k', each);
  const program = `import { ownFolder } from './test/support/own-folder.ts'; console.log(await ownFolder('capstan-own'));`;
  const env = { ...process.env, TMPDIR: temporary };
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: root,
    env,
    encoding: 'utf8',
  });
  t.is(status, 0, stderr);
  t.true(stdout.startsWith(join(temporary, 'capstan-own-')), stdout);
  t.deepEqual(
    [isMounted, hasMount, plain].map((each) => existsSync(each)),
    [true, true, false],
  );
  for (const each of [isMounted, hasMount]) t.true(stderr.includes(`! ${each} of a killed test is left: `), stderr);
});

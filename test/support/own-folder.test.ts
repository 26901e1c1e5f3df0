/** What a killed run of the tests left behind goes with the next run, and nothing else does. */
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import test from 'ava';

import { ownFolder } from './own-folder.ts';

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

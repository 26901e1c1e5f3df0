/** Lock files of programs other than npm are named. */
import test from 'ava';

import { unusedLockWarning } from '../../cli/build/node-packages.ts';
import { folderOf } from '../support/folder.ts';

for (const name of ['pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'bun.lockb'])
  test(`${name} is named, unless npm has its own lock`, async (t) => {
    const alone = await unusedLockWarning(await folderOf(t, { 'package.json': '{}', [name]: '' }));
    t.true(alone?.startsWith(`${name} is not used: `));
    t.is(await unusedLockWarning(await folderOf(t, { 'package.json': '{}', [name]: '', 'package-lock.json': '{}' })), undefined);
  });

test('a project without a lock file gets no warning', async (t) => {
  t.is(await unusedLockWarning(await folderOf(t, { 'package.json': '{}' })), undefined);
});

/** Lock files that their program cannot use, because a dependency is a path, are named. */
import test from 'ava';

import { unusedLockWarning } from '../../compiler/build/node-packages.ts';
import { folderOf } from '../support/folder.ts';

const WITH_PATH = { 'package.json': '{"dependencies": {"own": "file:./own"}}', 'own/package.json': '{"name": "own", "version": "1.0.0"}' };

for (const name of ['pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'bun.lockb'])
  test(`${name} is named where a dependency is a path, unless npm has its own lock`, async (t) => {
    const alone = await unusedLockWarning(await folderOf(t, { ...WITH_PATH, [name]: '' }));
    t.true(alone?.startsWith(`${name} is not used, because `), alone);
    t.is(await unusedLockWarning(await folderOf(t, { ...WITH_PATH, [name]: '', 'package-lock.json': '{}' })), undefined);
    const used = await folderOf(t, { 'package.json': '{"dependencies": {"is-odd": "1"}}', [name]: '' });
    t.is(await unusedLockWarning(used), undefined, 'its program installs');
  });

test('a project without a lock file gets no warning', async (t) => {
  t.is(await unusedLockWarning(await folderOf(t, { 'package.json': '{}' })), undefined);
});

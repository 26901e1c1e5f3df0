/** Where the hosts' own programs lie, and what is in them; that they run is the runtimes' common tests. */
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import test from 'ava';

import { stageBootstrap } from '../../agent/runtimes/bootstrap.ts';
import { folderOf } from '../support/folder.ts';

test('the bootstrap is JavaScript and Python, and any user may read it', async (t) => {
  const folder = await folderOf(t);
  const staged = await stageBootstrap(join(folder, 'own'), [join(folder, 'shared')]);
  t.is(dirname(staged), join(folder, 'shared'));
  const files = await readdir(staged, { recursive: true });
  t.deepEqual(
    files.filter((file) => !file.startsWith('node_modules') && file.endsWith('.ts')),
    [],
  );
  for (const program of ['thread/host/main.js', 'process/node/main.js', 'container/init/init.js', 'process/python/start.py'])
    t.is((await stat(join(staged, 'agent/runtimes', program))).mode & 0o444, 0o444);
  const program = await readFile(join(staged, 'agent/runtimes/thread/host/main.js'), 'utf8');
  t.notRegex(program, /from '[^']*\.ts'/);
  t.deepEqual(await readdir(folder), ['shared']);
});

test('agents that start together, and those that come later, have the same one', async (t) => {
  const folder = await folderOf(t);
  const shared = join(folder, 'shared');
  const stage = (): Promise<string> => stageBootstrap(join(folder, 'own'), [shared]);
  const [first, second] = await Promise.all([stage(), stage()]);
  t.is(first, second);
  const { ino } = await stat(first);
  t.is(await stage(), first);
  t.is((await stat(first)).ino, ino);
  t.deepEqual(await readdir(shared), [basename(first)]);
});

test('where the installation cannot be written to it lies with the agent, and an older one goes', async (t) => {
  const folder = await folderOf(t);
  await writeFile(join(folder, 'file'), '');
  const own = join(folder, 'own');
  await mkdir(join(own, 'an-older-one'), { recursive: true });
  const staged = await stageBootstrap(own, [join(folder, 'file/shared')]);
  t.is(dirname(staged), own);
  t.deepEqual(await readdir(own), [basename(staged)]);
  await t.throwsAsync(stageBootstrap(join(folder, 'file/own'), [join(folder, 'file/shared')]), { code: 'ENOTDIR' });
});

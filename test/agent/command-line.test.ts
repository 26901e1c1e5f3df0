/** What a program of the user's own gets: the values of its arguments, and the packages of its build. */
import { chmod, mkdir, readlink, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { expandedCommand, withBuild } from '../../agent/runtimes/command-line.ts';
import { folderOf } from '../support/folder.ts';

test('the worker’s own variables are replaced in a command, and nothing else is', (t) => {
  const env = { PORT: '4000', PORT_HEALTH: '4001', CAPSTAN_HOST: '127.0.0.1', HOME: '/root', CAPSTAN_A: '$PORT' };
  t.deepEqual(
    expandedCommand(
      ['server', '--port', '$PORT', '${CAPSTAN_HOST}:$PORT/', '$PORT_HEALTH', '$PORTS', '$HOME', '$CAPSTAN_NONE', '$(id)', '$CAPSTAN_A'],
      env,
    ),
    // What a value contains is not replaced again.
    ['server', '--port', '4000', '127.0.0.1:4000/', '4001', '$PORTS', '$HOME', '$CAPSTAN_NONE', '$(id)', '$PORT'],
  );
  t.deepEqual(expandedCommand(['sh', '-c', 'echo $PORT'], env), ['sh', '-c', 'echo 4000']);
});

test('a command finds the console scripts and modules of its build first, and the Node of the agent', async (t) => {
  const folder = await folderOf(t);
  const workFolder = await folderOf(t);
  await mkdir(join(folder, 'python_packages/bin'), { recursive: true });
  await mkdir(join(folder, 'node_modules/.bin'), { recursive: true });
  const env = withBuild({ PATH: '/usr/bin', PYTHONPATH: '/own', OTHER: 'x' }, { folder, workFolder });
  t.deepEqual(env, {
    OTHER: 'x',
    PATH: [join(folder, 'python_packages/bin'), join(folder, 'node_modules/.bin'), join(workFolder, '.capstan-bin'), '/usr/bin'].join(':'),
    PYTHONPATH: [folder, join(folder, 'python_packages'), '/own'].join(':'),
  });
  t.is(await readlink(join(workFolder, '.capstan-bin/node')), process.execPath);
});

test('a build without packages adds no folders, and none at all changes nothing', async (t) => {
  const folder = await folderOf(t);
  t.deepEqual(withBuild({ PATH: '/usr/bin' }, { folder, workFolder: '' }), { PATH: '/usr/bin' });
  t.deepEqual(withBuild({ PATH: '/usr/bin' }, { folder: '', workFolder: folder }), { PATH: '/usr/bin' });
});

test('nothing is written through a link of the build', async (t) => {
  const folder = await folderOf(t);
  const workFolder = await folderOf(t);
  await mkdir(join(folder, '.capstan-bin'));
  await symlink(join(folder, '.capstan-bin'), join(workFolder, '.capstan-bin'));
  await writeFile(join(folder, '.capstan-bin/mine'), '');
  await chmod(join(folder, '.capstan-bin'), 0o500);
  t.deepEqual(withBuild({ PATH: '/usr/bin' }, { folder, workFolder }), { PATH: '/usr/bin' });
});

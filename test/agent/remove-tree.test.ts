/** Removing what a worker could write into: a link in the place of a folder never leads the agent elsewhere. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, lstat, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { removeTree } from '../../agent/runtimes/remove-tree.ts';
import { folderOf } from '../support/folder.ts';

const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

test('a folder, a file, a link and nothing are removed', async (t) => {
  const folder = await folderOf(t, { 'full/deep/file': '', file: '', '-rf': '', 'kept/file': '' });
  await mkdir(join(folder, 'empty'));
  await symlink('kept', join(folder, 'link'));
  for (const name of ['full', 'empty', 'file', 'link', '-rf', 'missing']) {
    await removeTree(join(folder, name));
    t.false(await isThere(join(folder, name)), name);
  }
  t.deepEqual(await readdir(join(folder, 'kept')), ['file']);
});

test('a relative path is refused', async (t) => {
  await t.throwsAsync(removeTree('work'), { message: 'cannot remove work: the path is relative' });
});

test('what a link names is kept', async (t) => {
  const folder = await folderOf(t, { 'victim/file': '', 'work/inner/file': '' });
  await symlink(join(folder, 'victim'), join(folder, 'work/inner/link'));
  await removeTree(join(folder, 'work'));
  t.deepEqual(await readdir(join(folder, 'victim')), ['file']);
});

test('a folder without permissions is removed', async (t) => {
  const folder = await folderOf(t, { 'work/closed/file': '' });
  await chmod(join(folder, 'work/closed'), 0);
  await removeTree(join(folder, 'work'));
  t.deepEqual(await readdir(folder), []);
});

/** Longer than PATH_MAX: only a program that works by open folders reaches its end, and such a one follows no link. */
test('a tree deeper than any path is removed', async (t) => {
  const folder = await folderOf(t);
  const work = join(folder, 'work');
  await mkdir(work);
  const line = 'for i in $(seq 40); do mkdir "$1" && cd -P "$1" || exit 1; done; : >file';
  t.is(spawnSync('/bin/bash', ['-c', line, 'bash', 'x'.repeat(200)], { cwd: work, stdio: 'ignore' }).status, 0);
  await removeTree(work);
  t.deepEqual(await readdir(folder), []);
});

/** Exchanges folder and link in one step, as fast as it can, until its input closes. */
const SWAP = `
import ctypes, sys, threading, os
libc = ctypes.CDLL(None, use_errno=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
first, second = (os.fsencode(path) for path in sys.argv[1:])
print("swapping", flush=True)
while True:
    libc.renameat2(-100, first, -100, second, 2)
`;
const ROUNDS = 6;
const FILES = 100;

test('a folder that is swapped for a link while it is removed costs nobody a file', async (t) => {
  const names = Array.from({ length: FILES }, (_, each) => `file-${each}`);
  const folder = await folderOf(t, Object.fromEntries(names.map((name) => [`victim/${name}`, ''])));
  const work = join(folder, 'work');
  for (let round = 0; round < ROUNDS; round += 1) {
    await mkdir(join(work, 'inner'), { recursive: true });
    await symlink(join(folder, 'victim'), join(folder, 'aside'));
    await Promise.all(names.map((name) => writeFile(join(work, 'inner', name), '')));
    const swapper = spawn('python3', ['-c', SWAP, join(work, 'inner'), join(folder, 'aside')], { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = once(swapper, 'exit');
    await once(swapper.stdout, 'data');
    // The swapper may put a folder back behind the removal's back, which is a failure and no danger.
    await removeTree(work).catch(() => undefined);
    swapper.stdin.end();
    await ended;
    await removeTree(work);
    await removeTree(join(folder, 'aside'));
    t.is((await readdir(join(folder, 'victim'))).length, FILES, `round ${round}`);
  }
});

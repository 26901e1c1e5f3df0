/** The tool's cache of installed packages: complete or absent, made once, bounded. */
import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { z } from 'zod';

import { cachedFolder, type CacheSpec } from '../../compiler/build/cached-folders.ts';
import { folderOf } from '../support/folder.ts';

const order = (root: string, key: unknown, more: Partial<CacheSpec<string>> = {}): CacheSpec<string> => ({
  root,
  key,
  refresh: false,
  notes: z.string(),
  limits: { folders: 10, bytes: 1000 },
  waiting: () => undefined,
  make: async (folder) => {
    await writeFile(join(folder, 'file'), JSON.stringify(key));
    return { bytes: 1, notes: 'made' };
  },
  ...more,
});
const visible = async (root: string): Promise<string[]> => (await readdir(root)).filter((name) => !name.startsWith('.'));

test('what several need at once is made once, and what fails leaves nothing', async (t) => {
  const root = join(await folderOf(t), 'cache');
  let made = 0;
  const gate = Promise.withResolvers<void>();
  const waiting = Promise.withResolvers<number>();
  const slow = order(root, 'a', {
    waiting: waiting.resolve,
    make: async () => {
      made += 1;
      await gate.promise;
      return { bytes: 1, notes: 'made' };
    },
  });
  const both = [cachedFolder(slow), cachedFolder(slow)];
  t.is(await waiting.promise, process.pid);
  gate.resolve();
  const results = await Promise.all(both);
  t.is(made, 1);
  t.is(results.filter(({ isNew }) => isNew).length, 1);
  t.is(results[0]?.folder, results[1]?.folder);
  const failing = order(root, 'b', { make: async () => Promise.reject(new Error('no network')) });
  await t.throwsAsync(cachedFolder(failing), { message: 'no network' });
  t.is((await readdir(root)).length, 1, 'no lock and no half of a folder stay');
});

test('a refresh replaces what is there by one rename, a failed one keeps it', async (t) => {
  const root = join(await folderOf(t), 'cache');
  const { folder } = await cachedFolder(order(root, 'a'));
  await t.throwsAsync(cachedFolder(order(root, 'a', { refresh: true, make: async () => Promise.reject(new Error('no network')) })));
  t.is(await readFile(join(folder, 'file'), 'utf8'), '"a"');
  const replaced = await cachedFolder(
    order(root, 'a', {
      refresh: true,
      make: async (made) => {
        t.is(await readFile(join(folder, 'file'), 'utf8'), '"a"', 'others still read the former');
        await writeFile(join(made, 'file'), 'new');
        return { bytes: 1, notes: 'again' };
      },
    }),
  );
  t.like(replaced, { folder, notes: 'again', isNew: true });
  t.is(await readFile(join(folder, 'file'), 'utf8'), 'new');
  t.deepEqual(await readdir(root), await visible(root));
});

test('the least recently used folders go, by number and by bytes, and leftovers of killed builds', async (t) => {
  const root = join(await folderOf(t), 'cache');
  const at = async (folder: string, seconds: number): Promise<void> => utimes(folder, seconds, seconds);
  const [a, b] = [await cachedFolder(order(root, 'a')), await cachedFolder(order(root, 'b'))];
  await at(a.folder, 1000);
  await at(b.folder, 500);
  // Its use makes it the most recent.
  await cachedFolder(order(root, 'b'));
  await cachedFolder(order(root, 'c', { limits: { folders: 2, bytes: 1000 } }));
  t.deepEqual((await visible(root)).length, 2);
  await t.throwsAsync(stat(a.folder), { code: 'ENOENT' });
  const large = await cachedFolder(order(root, 'd', { make: async () => Promise.resolve({ bytes: 5000, notes: 'large' }) }));
  t.deepEqual(await visible(root), [large.folder.slice(root.length + 1)], 'one that is too large by itself stays, as it is in use');
  const left = join(root, '.new-killed');
  const recent = join(root, '.new-running');
  await Promise.all([mkdir(left), mkdir(recent)]);
  await at(left, 1000);
  await cachedFolder(order(root, 'e'));
  await t.throwsAsync(stat(left), { code: 'ENOENT' });
  t.true((await stat(recent)).isDirectory());
});

/** `capstan cache`, and the bound of uv's downloads. */
import { existsSync } from 'node:fs';
import { link, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { bytesBelow } from '../../compiler/build/cache-contents.ts';
import { boundUvCache } from '../../compiler/build/uv-cache.ts';
import { folderOf } from '../support/folder.ts';
import { run } from './fakes/run.ts';

const TOOL = join(import.meta.dirname, '../../cli/main.ts');

interface Ran {
  readonly code: number | NodeJS.Signals;
  readonly out: string;
  readonly err: string;
}

async function runTool(home: string, args: readonly string[], variables: Readonly<Record<string, string>>): Promise<Ran> {
  const ran = run([TOOL, ...args], { cwd: home, env: { HOME: home, ...variables } });
  return { code: await ran.ended, out: ran.stdout(), err: ran.stderr() };
}

const KILOBYTES = 'x'.repeat(64_000);
const DAY_MS = 86_400_000;

test('the cache is shown by contents, and deleted as a whole or in part', async (t) => {
  const home = await folderOf(t, { 'cache/layers/a/file': KILOBYTES, 'cache/uv/b/file': KILOBYTES, 'cache/other/file': 'kept' });
  const env = { CAPSTAN_CACHE_DIR: join(home, 'cache') };
  const rows = JSON.parse((await runTool(home, ['cache', 'list', '--json'], env)).out) as { kind: string; bytes: number }[];
  t.deepEqual(
    rows.filter(({ bytes }) => bytes >= KILOBYTES.length).map(({ kind }) => kind),
    ['packages', 'downloads'],
  );
  t.regex((await runTool(home, ['cache', 'list'], env)).out, /downloads +\d+\.\d kB +.*\/cache\/uv/);
  const wrong = await runTool(home, ['cache', 'clear', 'everything'], env);
  t.is(wrong.code, 2);
  t.regex(wrong.err, /^✗ contents: "everything" must be one of packages, python-environments, /m);
  t.regex((await runTool(home, ['cache', 'clear', 'downloads'], env)).err, /^✓ Deleted \d+\.\d kB from /m);
  t.deepEqual([existsSync(join(home, 'cache/uv')), existsSync(join(home, 'cache/layers/a/file'))], [false, true]);
  t.is((await runTool(home, ['cache', 'clear'], env)).code, 0);
  t.deepEqual([existsSync(join(home, 'cache/layers')), existsSync(join(home, 'cache/other/file'))], [false, true]);
  t.is((await runTool(home, ['cache', 'clear'], env)).code, 0);
});

test('a file with several names is counted once, and a folder that is not there is empty', async (t) => {
  const folder = await folderOf(t, { 'a/file': KILOBYTES });
  await link(join(folder, 'a/file'), join(folder, 'a/again'));
  const bytes = await bytesBelow(folder);
  t.true(bytes >= KILOBYTES.length && bytes < 2 * KILOBYTES.length, String(bytes));
  t.is(await bytesBelow(join(folder, 'none')), 0);
});

test('downloads beyond the limit are deleted, and counted once a day', async (t) => {
  const folder = await folderOf(t, { 'uv/file': KILOBYTES });
  const file = join(folder, 'uv/file');
  const now = Date.now();
  await boundUvCache(join(folder, 'uv'), 1_000_000, now);
  t.true(existsSync(file));
  await boundUvCache(join(folder, 'uv'), 1_000, now + DAY_MS - 1_000);
  t.true(existsSync(file), 'it was checked less than a day ago');
  await boundUvCache(join(folder, 'uv'), 1_000, now + DAY_MS + 1_000);
  t.false(existsSync(file));
  await writeFile(file, KILOBYTES);
  await utimes(file, new Date(0), new Date(0));
  await boundUvCache(join(folder, 'uv'), 1_000, now + DAY_MS + 2_000);
  t.true(existsSync(file));
});

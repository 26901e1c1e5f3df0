/** A lock names its living holder; a dead one holds nothing. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { acquireLock } from '../../lib/lock.mjs';
import { folderOf } from '../support/folder.ts';

const lockModule = join(import.meta.dirname, '../../lib/lock.mjs');

async function lockPath(t: ExecutionContext): Promise<string> {
  const folder = await folderOf(t);
  return join(folder, 'lock');
}

/** A process that tries the lock, says what it got, and keeps it until it is killed. */
function contender(path: string) {
  const program = `const { acquireLock } = await import(${JSON.stringify(lockModule)});
    process.stdin.once('data', () => { const lock = acquireLock(${JSON.stringify(path)}); console.log('heldBy' in lock ? 'held' : 'got'); });
    setInterval(() => undefined, 1e6); console.log('here');`;
  return spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
}

async function says(process: ReturnType<typeof contender>): Promise<string> {
  const [chunk] = (await once(process.stdout, 'data')) as [Buffer];
  return chunk.toString().trim();
}

test('held once, free again after its release, and nothing else is left in the folder', async (t) => {
  const path = await lockPath(t);
  const lock = acquireLock(path);
  t.true('release' in lock);
  t.deepEqual(acquireLock(path), { heldBy: process.pid });
  if ('release' in lock) lock.release();
  t.true('release' in acquireLock(path));
  t.deepEqual(await readdir(join(path, '..')), ['lock']);
});

test('the lock of a dead process is taken over', async (t) => {
  const path = await lockPath(t);
  const holder = contender(path);
  t.is(await says(holder), 'here');
  holder.stdin.write('\n');
  t.is(await says(holder), 'got');
  t.deepEqual(acquireLock(path), { heldBy: holder.pid });
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  t.true('release' in acquireLock(path));
});

test('a process that was given the id of a dead holder is not the holder', async (t) => {
  const path = await lockPath(t);
  await writeFile(path, JSON.stringify({ pid: process.pid, started: 'an earlier boot:1' }));
  t.true('release' in acquireLock(path));
});

test('a file that is no lock holds nothing', async (t) => {
  const path = await lockPath(t);
  await writeFile(path, 'half a li');
  t.true('release' in acquireLock(path));
  t.is((JSON.parse(await readFile(path, 'utf8')) as { pid: number }).pid, process.pid);
});

test('of many that find a dead holder at once, one gets the lock', async (t) => {
  const path = await lockPath(t);
  await writeFile(path, JSON.stringify({ pid: 2 ** 22 + 1, started: null }));
  const contenders = Array.from({ length: 6 }, () => contender(path));
  t.teardown(() => contenders.forEach((each) => each.kill('SIGKILL')));
  await Promise.all(contenders.map(says));
  const answers = contenders.map(says);
  for (const each of contenders) each.stdin.write('\n');
  t.deepEqual((await Promise.all(answers)).sort(), ['got', 'held', 'held', 'held', 'held', 'held']);
});

/** Readers of accounts: what stalls or ends one is felt by the workers of its account only. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { AccountReaders } from '../../agent/runtimes/reading/account-readers.ts';
import { bootstrap, shared, threadRuntime } from '../conformance/runtime/hosts.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import { isRunning } from '../conformance/runtime/running.ts';
import { folderOf } from '../support/folder.ts';

const MEBIBYTE = 1024 * 1024;
/** Of a reader after some jobs. */
const MAX_BUSY_BYTES = 12 * MEBIBYTE;
/** After so many jobs that compilers have what they need; with Maglev it is 15 MiB. */
const MAX_COMPILED_BYTES = 13 * MEBIBYTE;
/** Of a reader with its first worker, and what of it is more than an empty process has. */
const MAX_BYTES = 10_000_000;
const MAX_OWN_BYTES = 800_000;
const SOURCE = `
import { writeSync } from 'node:fs';
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
function frame(header, length, body) {
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(4 + header.length + length, 0);
  prefix.writeUInt32LE(header.length, 4);
  return Buffer.concat([prefix, Buffer.from(header), body]);
}
export async function f({ say = '', endless = false, unfinished = '' }) {
  if (endless) return new Promise(() => undefined);
  if (unfinished) {
    const bytes = frame('{"t":"returned","key":"' + unfinished + '","ms":1}', 20 << 20, Buffer.alloc(19 << 20, '1'));
    for (let at = 0; at < bytes.length; ) {
      try {
        at += writeSync(3, bytes, at);
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        await wait(5);
      }
    }
    return new Promise(() => undefined);
  }
  return say;
}
`;

const runtime = shared(threadRuntime());

async function folder(t: ExecutionContext): Promise<string> {
  const made = await folderOf(t);
  await writeFile(join(made, 'main.js'), SOURCE);
  return made;
}

function readersOf(t: ExecutionContext, stallMs?: number): AccountReaders {
  const readers = new AccountReaders({ bootstrap, ...(stallMs === undefined ? {} : { stallMs }) });
  t.teardown(() => readers.close());
  return readers;
}

async function loaded(t: ExecutionContext, readers: AccountReaders, account: string): Promise<TestWorker> {
  const worker = startWorkerOf(runtime(), await folder(t), 'f', { reading: readers.of(account) });
  t.teardown(() => worker.worker.end(true));
  await worker.hear('loaded');
  return worker;
}

function pidOf(readers: AccountReaders, account: string): number {
  const pid = readers.pidOf(account);
  if (pid === undefined) throw new Error(`${account} has no reader`);
  return pid;
}

test('a reader that dies takes the workers of its account along, with a reason, and no others', async (t) => {
  const readers = readersOf(t);
  const [first, second, other] = await Promise.all(['a', 'a', 'b'].map((account) => loaded(t, readers, account)));
  if (first === undefined || second === undefined || other === undefined) throw new Error('no workers');
  other.run('long', { endless: true });
  await other.hear('entered');
  const pid = pidOf(readers, 'a');
  process.kill(pid, 'SIGKILL');
  for (const each of [first, second]) {
    const { detail, hardStop, isUnread } = await each.hear('exited');
    t.regex(detail, /^the process that reads the output of this account's workers ended: it was killed by SIGKILL$/);
    t.false(hardStop);
    t.true(isUnread);
  }
  t.deepEqual((await other.call('k', { say: 'on' })).value, 'on');
  // The account has another reader with its next worker.
  const next = await loaded(t, readers, 'a');
  t.deepEqual((await next.call('k', { say: 'again' })).value, 'again');
  t.not(pidOf(readers, 'a'), pid);
});

test('a reader that its tenant stalls leaves the workers of others alone, and is ended', async (t) => {
  const readers = readersOf(t, 300);
  const [stalled, other] = await Promise.all(['a', 'b'].map((account) => loaded(t, readers, account)));
  if (stalled === undefined || other === undefined) throw new Error('no workers');
  process.kill(pidOf(readers, 'a'), 'SIGSTOP');
  stalled.run('k', { say: 'unheard' });
  for (let n = 0; n < 200; n += 1) t.is((await other.call(`k${n}`, { say: n })).value, n);
  const { detail, isUnread } = await stalled.hear('exited');
  t.regex(detail, /it did not respond for 0.3 s$/);
  t.true(isUnread);
});

test('unfinished frames of many workers take no more memory than an account has for them', async (t) => {
  const readers = readersOf(t);
  const workers = await Promise.all(Array.from({ length: 4 }, () => loaded(t, readers, 'a')));
  const before = await privateBytes(pidOf(readers, 'a'));
  for (const [at, worker] of workers.entries()) worker.run(`u${at}`, { unfinished: `u${at}` });
  await Promise.all(workers.map((worker, at) => worker.hear('entered', ({ key }) => key === `u${at}`)));
  // A frame that nobody finishes is refused once others wait for it; 4 of 19 MiB would be 76 MiB.
  const ended = Promise.race(workers.map((worker) => worker.hear('violation')));
  let peak = 0;
  const look = (): Promise<unknown> => Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 20))]);
  while ((await look()) === undefined) peak = Math.max(peak, (await privateBytes(pidOf(readers, 'a'))) - before);
  t.regex((await ended).detail, /left a frame unfinished/);
  t.true(peak < 70 * MEBIBYTE, `the reader grew by ${peak} bytes`);
});

test('a reader costs its account little memory, and ends with the agent', async (t) => {
  const readers = readersOf(t);
  const worker = await loaded(t, readers, 'a');
  const pid = pidOf(readers, 'a');
  const check = async (jobs: readonly [from: number, to: number], most: number): Promise<void> => {
    for (let n = jobs[0]; n < jobs[1]; n += 1) await worker.call(`k${n}`, { say: n });
    const bytes = await privateBytes(pid);
    t.log(`${Math.round(bytes / 1024 / 102.4) / 10} MiB after ${jobs[1]} jobs`);
    t.true(bytes < most, `${bytes} bytes`);
  };
  await check([0, 50], MAX_BUSY_BYTES);
  await check([50, 1_500], MAX_COMPILED_BYTES);
  await readers.close();
  t.false(await isRunning(pid));
});

test('a reader with its first worker takes at most 10 MB, and 0.8 MB more than an empty Node process', async (t) => {
  const readers = readersOf(t);
  const worker = await loaded(t, readers, 'a');
  t.is((await worker.call('k', { say: 'on' })).value, 'on');
  const reader = pidOf(readers, 'a');
  const args = (await readFile(`/proc/${reader}/cmdline`, 'utf8')).split('\0').filter((arg) => arg.startsWith('--'));
  const env = { MALLOC_ARENA_MAX: '1' };
  const program = 'process.send(1); process.on("message", () => undefined);';
  const empty = spawn(process.execPath, [...args, '-e', program], { env, stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  t.teardown(() => empty.kill('SIGKILL'));
  await once(empty, 'message');
  const [bytes, emptyBytes] = [await privateBytes(reader), await privateBytes(empty.pid ?? 0)];
  t.log(`${bytes / 1e6} MB, an empty process ${emptyBytes / 1e6} MB`);
  t.true(bytes < MAX_BYTES, `${bytes} bytes`);
  t.true(bytes - emptyBytes < MAX_OWN_BYTES, `${bytes} bytes, an empty process ${emptyBytes}`);
});

async function privateBytes(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Private_Dirty:\s+(\d+) kB/m.exec(text)?.[1]) * 1024;
}

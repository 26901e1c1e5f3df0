/** Parts of a supervisor that was killed: they are waited for, and killed only when they are known to be these parts. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { formerPartsEnded, PartsFile } from '../../supervisor/former-parts.ts';
import { identityOf, type ProcessIdentity } from '../../lib/lock.mjs';
import { folderOf } from '../support/folder.ts';

const STUBBORN = `process.on('SIGTERM', () => undefined); setInterval(() => undefined, 1e6); console.log('here');`;
const hasIdentities = identityOf(process.pid).started !== null;

/** A process that ends by SIGKILL only. */
async function stubborn(t: ExecutionContext): Promise<ChildProcess & { readonly pid: number }> {
  const child = spawn(process.execPath, ['-e', STUBBORN], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  await once(child.stdout, 'data');
  return child as ChildProcess & { readonly pid: number };
}

/** Waits for these parts, with hardly any grace; what was said meanwhile. */
async function wait(t: ExecutionContext, parts: Readonly<Record<string, ProcessIdentity>>): Promise<string[]> {
  const folder = await folderOf(t);
  await writeFile(join(folder, 'parts.json'), JSON.stringify(parts));
  const said: string[] = [];
  await formerPartsEnded(folder, {
    graceMs: 50,
    waiting: (names) => said.push(`waiting ${names.join(' ')}`),
    killing: (names) => said.push(`killing ${names.join(' ')}`),
    leaving: (names) => said.push(`leaving ${names.join(' ')}`),
  });
  return said;
}

const whereKnown = hasIdentities ? test : test.skip;
if (!hasIdentities) console.log('former-parts.test.ts: the system tells no start times of processes: skipped what is about them');

whereKnown('a stubborn part whose identity is known is killed after the grace', async (t) => {
  const child = await stubborn(t);
  const exit = once(child, 'exit');
  t.deepEqual(await wait(t, { scheduler: identityOf(child.pid) }), ['killing scheduler']);
  t.deepEqual(await exit, [null, 'SIGKILL']);
});

test('a process without a known identity is waited for, and left alone', async (t) => {
  const child = await stubborn(t);
  t.deepEqual(await wait(t, { agent: { pid: child.pid, started: null } }), ['leaving agent']);
  t.true(child.exitCode === null && child.signalCode === null);
  t.true(child.kill(0), 'it runs');
});

whereKnown('of two, the known one is killed and waited for', async (t) => {
  const [known, unknown] = await Promise.all([stubborn(t), stubborn(t)]);
  const exit = once(known, 'exit');
  const said = await wait(t, { gateway: { pid: unknown.pid, started: null }, agent: identityOf(known.pid) });
  t.deepEqual(said, ['leaving gateway', 'killing agent']);
  t.deepEqual(await exit, [null, 'SIGKILL']);
  t.true(unknown.kill(0), 'it runs');
});

test('a process that is gone is not waited for, with or without an identity', async (t) => {
  const child = await stubborn(t);
  const { pid, started } = identityOf(child.pid);
  child.kill('SIGKILL');
  await once(child, 'exit');
  t.deepEqual(await wait(t, { agent: { pid, started }, gateway: { pid, started: null } }), []);
});

whereKnown('another process with the id of a part is neither waited for nor killed', async (t) => {
  const child = await stubborn(t);
  t.deepEqual(await wait(t, { agent: { pid: child.pid, started: 'another boot:1' } }), []);
  t.true(child.kill(0), 'it runs');
});

test('what a supervisor writes down is what the next one reads', async (t) => {
  const folder = await folderOf(t);
  const child = await stubborn(t);
  const file = new PartsFile(folder, (text) => t.fail(text));
  file.started('agent', child.pid);
  file.started('gateway', process.pid);
  file.ended('gateway');
  const said: string[] = [];
  const over = formerPartsEnded(folder, {
    graceMs: 60_000,
    waiting: (names) => {
      said.push(...names);
      child.kill('SIGKILL');
    },
    killing: () => t.fail(),
    leaving: () => t.fail(),
  });
  await over;
  t.deepEqual(said, ['agent']);
  file.remove();
});

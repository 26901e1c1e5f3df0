/** Which processes an agent may signal: with a container engine of root, an agent of another user sees processes that it may not end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

import test from 'ava';

import { maySignal } from '../../agent/runtimes/process-group.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

test('a process of the own user, and one that is gone, may be signalled', async (t) => {
  t.true(maySignal(process.pid));
  const child = spawn('true', { stdio: 'ignore' });
  await once(child, 'exit');
  t.true(maySignal(child.pid ?? 0));
});

test('a process of another user may not be, unless as root', async (t) => {
  if (!isRoot) {
    t.false(maySignal(1));
    return;
  }
  t.true(maySignal(1));
  // Its sources, because the files of a checkout need not be readable for others.
  const asked = `const isErrno = (error, code) => error.code === code; ${String(maySignal)}; console.log(maySignal(1), maySignal(process.pid))`;
  const child = spawn(process.execPath, ['-e', asked], { uid: NOBODY, gid: NOBODY, cwd: '/', stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  child.once('error', (error) => t.log(error.message));
  await once(child, 'close');
  t.is(said.trim(), 'false true');
});

/** What a stopped attempt started ends with it; what the module or a finished attempt started stays. In every runtime and level. */
import { randomUUID } from 'node:crypto';

import test, { type ExecutionContext } from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { folderOf } from '../../support/folder.ts';
import { processesOf } from '../../support/processes.ts';
import { until } from '../../support/until.ts';
import { startWorkerOf } from './worker-under-test.ts';

/** A child, one in a session of its own, and one whose parent is gone. Images may lack setsid. */
const LEAVES = 'S=$(command -v setsid); ($S sleep 302 &) ; $S sleep 303 & exec sleep 304';

const PYTHON = `
import asyncio, subprocess
subprocess.Popen(["sleep", "301"])
def start(stays):
    child = subprocess.Popen(["sh", "-c", "${LEAVES}"], start_new_session=True)
    if not stays: child.wait()
async def start_async(stays):
    child = await asyncio.create_subprocess_shell("${LEAVES}")
    if not stays: await child.wait()
`;

const JAVASCRIPT = `
import { spawn } from 'node:child_process';
spawn('sleep', ['301']);
async function run(stays, signal) {
  const child = spawn('sh', ['-c', '${LEAVES}'], { detached: true });
  if (stays) return;
  await new Promise((resolve, reject) => {
    child.once('exit', resolve);
    signal?.addEventListener('abort', () => reject(signal.reason));
  });
}
export const start = (stays, ctx) => run(stays, ctx.signal);
export const deaf = (stays, ctx) => run(stays);
`;

export const leavesProcesses = { javascript: { 'main.js': JAVASCRIPT }, python: { 'main.py': PYTHON } } as const;

export interface LeavingFunction {
  readonly build: Readonly<Record<string, string>>;
  readonly fn: string;
}

export function attemptProcessesConformance(
  name: string,
  makeRuntime: (t: ExecutionContext) => Runtime | Promise<Runtime>,
  { build, fn }: LeavingFunction,
): void {
  test(`${name}: the processes of a stopped attempt end with it`, async (t) => {
    const mark = randomUUID();
    const made = await makeRuntime(t);
    t.teardown(() => made.close());
    const env = { CAPSTAN_TEST_MARK: mark };
    const worker = startWorkerOf(made, await folderOf(t, build), fn, { env, workFolder: await folderOf(t) });
    const sleeping = (): string[] =>
      processesOf(`CAPSTAN_TEST_MARK=${mark}`)
        .map(({ command }) => /^sleep (\d+)/.exec(command)?.[1] ?? '')
        .filter((seconds) => seconds !== '')
        .sort();
    const all = ['301', '302', '303', '304'];
    await worker.hear('loaded');
    await until('the daemon of the module runs', () => sleeping().includes('301'));
    worker.run('1', { stays: false });
    await until('the attempt has started its processes', () => sleeping().length === all.length);
    const daemon = processesOf(`CAPSTAN_TEST_MARK=${mark}`).find(({ command }) => command.startsWith('sleep 301'))?.pid;
    worker.worker.cancel('1');
    const over = await worker.said.next(({ say }) => say === 'ended' || say === 'reloading');
    // A module that is loaded again starts its daemon again.
    if (over.say === 'reloading') await worker.hear('loaded', undefined, worker.said.items.indexOf(over));
    t.deepEqual([...new Set(sleeping())], ['301']);
    t.true(
      processesOf(`CAPSTAN_TEST_MARK=${mark}`).some(({ pid }) => pid === daemon),
      'the daemon of the module goes on',
    );
    await worker.call('2', { stays: true });
    await until('the second attempt has started its processes', () => new Set(sleeping()).size === all.length);
    worker.run('3', { stays: false });
    await until('the third attempt has started its processes', () => sleeping().filter((seconds) => seconds === '304').length === 2);
    worker.worker.cancel('3');
    await worker.said.next((said) => (said.say === 'ended' && said.key === '3') || said.say === 'reloading', worker.said.items.length);
    t.deepEqual([...new Set(sleeping())], all, 'what a finished attempt started belongs to the worker');
    t.is(sleeping().filter((seconds) => seconds === '304').length, 1);
  });
}

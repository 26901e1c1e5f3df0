/** A worker whose process ends says which of its tasks or requests ended it, wherever its host can know. In every runtime. */
import test, { type ExecutionContext } from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { folderOf } from '../../support/folder.ts';
import { startWorkerOf } from './worker-under-test.ts';

const PYTHON = `
import asyncio, os, signal, sys, threading
def leave(how):
    if how == "sys.exit": sys.exit(3)
    if how == "os._exit": os._exit(3)
    if how == "os.abort": os.abort()
    if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
async def child(how):
    await asyncio.sleep(0.01)
    leave(how)
async def main(how):
    if how == "wait": await asyncio.sleep(3600)
    if how.startswith("task "):
        task = asyncio.create_task(child(how[5:]))
        await asyncio.sleep(3600)
    await asyncio.sleep(0.01)
    leave(how)
def blocking(how):
    if how == "wait": threading.Event().wait()
    leave(how)
`;

const JAVASCRIPT = `
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export async function main(how) {
  if (how === 'wait') await sleep(3_600_000);
  await sleep(10);
  if (how === 'process.exit') process.exit(3);
  if (how === 'kill') process.kill(process.pid, 'SIGKILL');
  if (how === 'timer') setTimeout(() => { throw new Error('stray'); }, 5);
  if (how === 'rejection') void Promise.reject(new Error('stray'));
  await sleep(3_600_000);
}
`;

export interface EndingFunction {
  readonly build: Readonly<Record<string, string>>;
  readonly fn: string;
  /** Ways to end the process that tell who it was. */
  readonly known: readonly string[];
}

const exits = ['sys.exit', 'os._exit', 'os.abort'];

export const ending = {
  javascript: { build: { 'main.js': JAVASCRIPT }, fn: 'main', known: ['process.exit', 'timer', 'rejection'] },
  coroutine: { build: { 'main.py': PYTHON }, fn: 'main', known: [...exits, 'task sys.exit', 'task os._exit'] },
  thread: { build: { 'main.py': PYTHON }, fn: 'blocking', known: exits },
} as const satisfies Readonly<Record<string, EndingFunction>>;

export function culpritConformance(
  name: string,
  makeRuntime: (t: ExecutionContext) => Runtime | Promise<Runtime>,
  { build, fn, known }: EndingFunction,
): void {
  const endedBy = async (t: ExecutionContext, how: string): Promise<string | undefined> => {
    const made = await makeRuntime(t);
    const worker = startWorkerOf(made, await folderOf(t, build), fn, { maxConcurrency: 3 });
    await worker.hear('loaded');
    for (const key of ['1', '2', '3']) worker.run(key, { how: key === '2' ? how : 'wait' });
    const { culprit, hardStop } = await worker.hear('exited');
    t.false(hardStop);
    await made.close();
    return culprit;
  };
  test(`${name}: the task whose code ends the process is its culprit`, async (t) => {
    for (const how of known) t.is(await endedBy(t, how), '2', how);
  });

  test(`${name}: a process that is killed has no known culprit`, async (t) => {
    t.is(await endedBy(t, 'kill'), undefined);
  });
}

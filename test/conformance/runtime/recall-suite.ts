/** A task that its host has not entered is returned on request, also while a handler blocks what would run it. In every runtime. */
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';

import test, { type ExecutionContext } from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { folderOf } from '../../support/folder.ts';
import { startWorkerOf } from './worker-under-test.ts';

const PYTHON = `
import os, time
GATE = os.path.join(os.path.dirname(__file__), "gate")
async def main(waits):
    while waits and not os.path.exists(GATE): time.sleep(0.01)
    return waits
`;
/** Native code that does not release the interpreter: no thread of the process runs. */
const HELD = `
import ctypes, os
GATE = os.path.join(os.path.dirname(__file__), "gate")
async def main(waits):
    if waits: ctypes.PyDLL(None).open(GATE.encode(), 0)
    return waits
`;
const JAVASCRIPT = `
import { existsSync } from 'node:fs';
export async function main(waits) {
  while (waits && !existsSync(import.meta.dirname + '/gate')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  return waits;
}
`;

export interface BlockingFunction {
  readonly name: string;
  readonly build: Readonly<Record<string, string>>;
  /** The gate is a FIFO, which the handler opens. */
  readonly isFifo: boolean;
}

export const blocking = {
  javascript: [{ name: 'a busy thread', build: { 'main.js': JAVASCRIPT }, isFifo: false }],
  python: [
    { name: 'a blocked event loop', build: { 'main.py': PYTHON }, isFifo: false },
    { name: 'native code in the event loop', build: { 'main.py': HELD }, isFifo: true },
    { name: 'native code in a thread', build: { 'main.py': HELD.replace('async ', '') }, isFifo: true },
  ],
} as const satisfies Readonly<Record<string, readonly BlockingFunction[]>>;

export function recallConformance(
  runtimeName: string,
  makeRuntime: (t: ExecutionContext) => Runtime | Promise<Runtime>,
  functions: readonly BlockingFunction[],
): void {
  for (const { name, build, isFifo } of functions) {
    test(`${runtimeName}: a task behind ${name} is returned, and does not run later`, async (t) => {
      const made = await makeRuntime(t);
      t.teardown(() => made.close());
      const folder = await folderOf(t, build);
      const gate = `${folder}/gate`;
      if (isFifo) execFileSync('mkfifo', [gate]);
      const worker = startWorkerOf(made, folder, 'main', { maxConcurrency: 3 });
      await worker.hear('loaded');
      worker.run('1', { waits: true });
      await worker.hear('entered', ({ key }) => key === '1');
      worker.run('2', { waits: false });
      worker.run('3', { waits: false });
      for (const key of ['1', '2']) worker.worker.recall?.(key);
      t.is((await worker.ended('2')).result.kind, 'stopped');
      await writeFile(gate, '');
      t.is((await worker.ended('1')).result.kind, 'returned', 'a task that was entered goes on');
      t.is((await worker.ended('3')).result.kind, 'returned');
      t.false(worker.said.items.some((said) => said.say === 'entered' && said.key === '2'));
      t.is(worker.said.items.filter((said) => said.say === 'ended' && said.key === '2').length, 1);
    });
  }
}

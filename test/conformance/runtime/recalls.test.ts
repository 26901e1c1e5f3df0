/** A task that its host has not entered is returned on request, also while a handler blocks the thread that would run it. */
import { writeFile } from 'node:fs/promises';

import test from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { folderOf } from '../../support/folder.ts';
import { processRuntime, shared, threadRuntime } from './hosts.ts';
import { startWorkerOf } from './worker-under-test.ts';

const PYTHON = `
import asyncio, os, time
async def main(gate):
    while gate and not os.path.exists(gate): time.sleep(0.01)
    return gate
`;
const JAVASCRIPT = `
import { existsSync } from 'node:fs';
export async function main(gate) {
  while (gate !== '' && !existsSync(gate)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  return gate;
}
`;

interface Case {
  readonly name: string;
  readonly runtime: () => Runtime;
  readonly build: Readonly<Record<string, string>>;
}

const cases: readonly Case[] = [
  { name: 'thread', runtime: shared(threadRuntime()), build: { 'main.js': JAVASCRIPT } },
  { name: 'process/python', runtime: shared(processRuntime()), build: { 'main.py': PYTHON } },
];

for (const { name, runtime, build } of cases) {
  test(`${name}: a task behind one that blocks is returned, and does not run later`, async (t) => {
    const made = runtime();
    t.teardown(() => made.close());
    const folder = await folderOf(t, build);
    const worker = startWorkerOf(made, folder, 'main', { maxConcurrency: 3 });
    await worker.hear('loaded');
    worker.run('1', { gate: `${folder}/gate` });
    await worker.hear('entered', ({ key }) => key === '1');
    worker.run('2', { gate: '' });
    worker.run('3', { gate: '' });
    for (const key of ['1', '2']) worker.worker.recall?.(key);
    t.is((await worker.ended('2')).result.kind, 'stopped');
    await writeFile(`${folder}/gate`, '');
    t.is((await worker.ended('1')).result.kind, 'returned', 'a task that was entered goes on');
    t.is((await worker.ended('3')).result.kind, 'returned');
    t.false(worker.said.items.some((said) => said.say === 'entered' && said.key === '2'));
    t.is(worker.said.items.filter((said) => said.say === 'ended' && said.key === '2').length, 1);
  });
}

/** A worker, or an agent, that gets no processor for a while is not taken for one that does not obey (invariant 5). */
import test, { type ExecutionContext } from 'ava';

import { processRuntime, threadRuntime } from '../conformance/runtime/hosts.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import { folderOf } from '../support/folder.ts';

const SOURCE = `
export async function serve(waits: boolean, ctx: any) {
  if (waits) await new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(new Error('told to stop'))));
  return process.pid;
}
`;
/** Longer than any grace. */
const STARVED_MS = 3_500;

async function workerIn(t: ExecutionContext, kind: 'process' | 'thread'): Promise<TestWorker> {
  const runtime = kind === 'thread' ? threadRuntime() : processRuntime();
  t.teardown(() => runtime.close());
  const worker = startWorkerOf(runtime, await folderOf(t, { 'main.ts': SOURCE }), 'serve', { maxConcurrency: 2 });
  await worker.hear('loaded');
  return worker;
}

async function isUnharmed(t: ExecutionContext, worker: TestWorker): Promise<void> {
  const next = worker.call('next', { waits: false }).then(() => 'served');
  const end = worker.said.next(({ say }) => say === 'reloading' || say === 'exited').then(({ say }) => say);
  t.is(await Promise.race([next, end]), 'served');
  end.catch(() => undefined);
}

test.serial('a host that is held back while a job is stopped obeys as soon as it can', async (t) => {
  const worker = await workerIn(t, 'process');
  const pid = (await worker.call('pid', { waits: false })).value as number;
  process.kill(pid, 'SIGSTOP');
  worker.run('1', { waits: true });
  worker.worker.cancel('1');
  // The time is the input here: far more than the grace has passed when the host may run again.
  await new Promise((resolve) => setTimeout(resolve, STARVED_MS));
  process.kill(pid, 'SIGCONT');
  t.is((await worker.ended('1')).result.kind, 'stopped');
  await isUnharmed(t, worker);
});

for (const kind of ['process', 'thread'] as const) {
  test.serial(`an agent that was stalled hears what has come before it takes to force: ${kind}`, async (t) => {
    const worker = await workerIn(t, kind);
    worker.run('1', { waits: true });
    await worker.hear('entered');
    worker.worker.cancel('1');
    // What was said leaves with this turn; then nothing of this process moves.
    await new Promise((resolve) => setImmediate(resolve));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STARVED_MS);
    t.is((await worker.ended('1')).result.kind, 'stopped');
    await isUnharmed(t, worker);
  });
}

/** A worker, or an agent, that gets no processor for a while is not taken for one that does not obey (invariant 5). */
import test, { type ExecutionContext } from 'ava';

import type { Host } from '../../agent/runtimes/hosted/host.ts';
import type { HostListener } from '../../agent/runtimes/hosted/host-listener.ts';
import { HostWorker } from '../../agent/runtimes/hosted/host-worker.ts';
import type { WorkerEvents } from '../../agent/runtimes/runtime.ts';
import { processRuntime, readers, threadRuntime } from '../conformance/runtime/hosts.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import type { FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
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

test.serial('a reader that is held back while a job is stopped says first what has come', async (t) => {
  const worker = await workerIn(t, 'process');
  worker.run('1', { waits: true });
  await worker.hear('entered');
  const reader = readers.pidOf('account-1');
  if (reader === undefined) throw new Error('the account has no reader');
  process.kill(reader, 'SIGSTOP');
  worker.worker.cancel('1');
  // As above.
  await new Promise((resolve) => setTimeout(resolve, STARVED_MS));
  process.kill(reader, 'SIGCONT');
  t.is((await worker.ended('1')).result.kind, 'stopped');
  await isUnharmed(t, worker);
});

/** A host that does nothing: `forced` resolves when it is to end. */
function idleHost(): { host: Host; forced: Promise<void>; listener: () => HostListener } {
  const { promise: forced, resolve } = Promise.withResolvers<void>();
  let listener: HostListener | undefined;
  const nothing = (): void => undefined;
  const host: Host = {
    pid: undefined,
    processScope: 'own',
    listen: (each) => (listener = each),
    readWithin: nothing,
    catchUp: () => Promise.resolve(),
    send: nothing,
    recall: nothing,
    kill: () => resolve(),
    refuse: (why) => {
      throw new Error(why);
    },
    terminate: () => resolve(),
  };
  return {
    host,
    forced,
    listener: () => {
      if (listener === undefined) throw new Error('the host has no worker');
      return listener;
    },
  };
}

test.serial('a host that ends what a stopped job left behind has more time than one that does nothing', async (t) => {
  const [clears, deaf] = [idleHost(), idleHost()];
  const events = { entered: () => undefined, ended: () => undefined, log: () => undefined } as unknown as WorkerEvents;
  const fn: FunctionSpec = { name: 'f', module: 'main', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' };
  const spec = {
    ...{ workerId: 'w', endpointId: 'e', folder: '', workFolder: '', functions: [fn], env: {}, deviceUuids: [] },
    ...{ maxConcurrency: 1, memoryBytes: 0, cpuMillis: 0, image: '', command: [] },
  };
  let isForced = false;
  void clears.forced.then(() => (isForced = true));
  const ended = Promise.withResolvers<void>();
  const workers = [clears, deaf].map(({ host }) => {
    const worker = new HostWorker(
      host,
      { spec, fn, env: {}, stopTimes: { terminateMs: 100, killMs: 200 } },
      { ...events, ended: () => ended.resolve() },
      () => undefined,
    );
    worker.run({ key: 'k', jobId: 'j', attempt: 1, input: Buffer.from('1'), s3Config: undefined });
    worker.cancel('k');
    return worker;
  });
  t.is(workers.length, 2);
  clears.listener().frame({ t: 'clearing', key: 'k' }, Buffer.alloc(0));
  await deaf.forced;
  t.false(isForced);
  clears.listener().frame({ t: 'stopped', key: 'k', ms: 1, entered: true }, Buffer.alloc(0));
  await ended.promise;
  t.false(isForced);
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

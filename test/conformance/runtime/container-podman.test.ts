/** Podman's service in the place of Docker's. */
import test from 'ava';

import { noPodman, startPodman, type PrivatePodman } from '../../support/container/private-podman.ts';
import { containerRuntime } from './container-under-test.ts';
import { python } from './languages.ts';
import { runtimeConformance } from './suite.ts';
import { startWorkerOf } from './worker-under-test.ts';
import { folderOf } from '../../support/folder.ts';

let engine: PrivatePodman;
/** Its bridge would be one of the machine's own interfaces, and stay. */
const NETWORK = 'none';
const whole = process.env['CAPSTAN_TEST_WHOLE'] === '1';

if (noPodman === undefined) {
  test.before(async () => {
    engine = await startPodman(['capstan/base-python', 'capstan/base-python-cuda']);
  });
  test.after.always(() => engine.stop());

  test.serial('a worker runs with its limits and rights, and is gone with its container', async (t) => {
    const runtime = await containerRuntime(t, engine.socket, { network: NETWORK });
    const build = await folderOf(t, {
      'main.py': `
import os, socket
def look(): return [open("/proc/self/status").read(), open("/proc/mounts").read(), os.environ["TOKEN"], os.listdir("."), socket.gethostbyname(socket.gethostname())]`,
    });
    const limits = { memoryBytes: 128 * 1024 * 1024, cpuMillis: 500, env: { TOKEN: 'a-secret-value' } };
    const worker = startWorkerOf(runtime, build, 'look', limits);
    await worker.hear('loaded');
    const { value } = await worker.call('1');
    const [status, mounts, token, files, address] = value as [string, string, string, string[], string];
    t.regex(status, /CapEff:\t0+\n/);
    t.regex(status, /NoNewPrivs:\t1/);
    t.regex(mounts, /^overlay \/ overlay ro,/m);
    t.is(token, 'a-secret-value');
    t.true(files.includes('main.py'));
    t.is(address, '127.0.0.1', 'the host name of a container without a network resolves');
    const found = await engine.podman('inspect', await engine.podman('ps', '--quiet'));
    const [{ HostConfig }] = JSON.parse(found) as [{ HostConfig: Record<string, unknown> }];
    t.like(HostConfig, { Memory: limits.memoryBytes, MemorySwap: limits.memoryBytes, NanoCpus: 500_000_000, PidsLimit: 512 });
    t.false(found.includes('a-secret-value'));
    worker.worker.end(false);
    t.is((await worker.hear('exited')).detail, 'the worker was stopped');
    await runtime.close();
    t.is(await engine.podman('ps', '--all', '--quiet'), '');
  });

  test.serial('a device that Podman does not know is refused in its words, never left out', async (t) => {
    const rules = { gpus: 'cdi', pids: 512, tmpBytes: 1_048_576, shmBytes: 1_048_576 } as const;
    const runtime = await containerRuntime(t, engine.socket, { rules, network: NETWORK });
    const worker = startWorkerOf(runtime, await folderOf(t, { 'main.py': 'def fn(): pass' }), 'fn', { deviceUuids: ['GPU-1'] });
    t.regex((await worker.hear('exited')).detail, /nvidia\.com\/gpu=GPU-1/);
  });

  if (whole)
    runtimeConformance('podman/python', (t) => containerRuntime(t, engine.socket, { network: NETWORK }), python, {
      atOnce: 2,
      withoutHost: true,
    });
} else {
  test.skip(`podman: skipped, a Podman of its own ${noPodman}`, (t) => t.pass());
}

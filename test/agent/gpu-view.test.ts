/** What the look from inside of a container makes of nvidia-smi, and when workers are looked at. */
import { spawnSync } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import type { Worker } from '../../agent/core/state.ts';
import { GpuViews, saysLost } from '../../agent/engine/gpu-views.ts';
import { GpuView, LOST, SCRIPT } from '../../agent/runtimes/gpu-view.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';

const answers: readonly (readonly [string, number, number])[] = [
  ['GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)', 0, 0],
  ['Failed to initialize NVML: Unknown Error', 255, LOST],
  ['Failed to initialize NVML: Insufficient Permissions', 255, LOST],
  ['Failed to initialize NVML: Driver Not Loaded', 9, LOST],
  ['No devices were found', 6, LOST],
  ["NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12, 0],
  ['Failed to initialize NVML: Driver/library version mismatch', 18, 0],
];

for (const [said, code, expected] of answers)
  test(`nvidia-smi says: ${said}`, async (t) => {
    const folder = await folderOf(t);
    const program = join(folder, 'nvidia-smi');
    await writeFile(program, `#!/bin/sh\necho "${said}"\nexit ${code}\n`);
    await chmod(program, 0o755);
    const { status, stdout } = spawnSync('/bin/sh', ['-c', SCRIPT], { env: { PATH: folder }, encoding: 'utf8' });
    t.is(status, expected, stdout);
    if (expected === LOST) t.is(stdout.trim(), said);
  });

test('only what NVML or torch says of NVML triggers a look', (t) => {
  t.true(saysLost('Failed to initialize NVML: Unknown Error'));
  t.true(saysLost("UserWarning: Can't initialize NVML"));
  t.false(saysLost('NVML was loaded'));
  t.false(saysLost(''));
});

test('files that are named must be there, and others do not count', (t) => {
  const look = (...args: readonly string[]) =>
    spawnSync('/bin/sh', ['-c', SCRIPT, 'sh', ...args], { env: { PATH: '/nowhere' }, encoding: 'utf8' });
  t.is(look('nvidia-smi', '/dev/null').status, 0);
  t.like(look('nvidia-smi', '/dev/null', '/dev/nvidia77'), { status: LOST, stdout: '/dev/nvidia77 is missing\n' });
});

test('an image without nvidia-smi and without devices has lost nothing', (t) => {
  t.is(spawnSync('/bin/sh', ['-c', SCRIPT], { env: { PATH: '/nowhere' } }).status, 0);
});

test('a look that cannot be made says nothing, and one that hangs is not repeated', async (t) => {
  const view = new GpuView();
  let looks = 0;
  const hanging = Promise.withResolvers<undefined>();
  view.keep('w', {
    look: () => {
      looks += 1;
      return hanging.promise;
    },
    exited: new Promise(() => undefined),
  });
  const first = view.problemOf('w');
  t.is(await view.problemOf('w'), undefined);
  t.is(looks, 1);
  hanging.resolve(undefined);
  t.is(await first, undefined);
  const ended = Promise.withResolvers<void>();
  view.keep('v', { look: async () => ({ exitCode: LOST, output: 'Failed\r\nmore' }), exited: ended.promise });
  t.is(await view.problemOf('v'), 'its GPU cannot be opened from inside: Failed');
  ended.resolve();
  await ended.promise;
  t.is(await view.problemOf('v'), undefined);
});

test('ready workers with GPUs are looked at, others not; a failed job triggers a look at once', async (t) => {
  const worker = (id: string, more: Partial<Worker> = {}): Worker =>
    ({ id, start: 3, runtime: 'container', deviceUuids: ['GPU-a'], phase: 'ready', draining: false, viewProblem: '', ...more }) as Worker;
  const workers = [
    worker('lost'),
    worker('well'),
    worker('cpu', { deviceUuids: [] }),
    worker('starts', { phase: 'starting' }),
    worker('drains', { draining: true }),
    worker('known', { viewProblem: 'lost' }),
    worker('thread', { runtime: 'thread' }),
  ];
  const looked: string[] = [];
  const lost: unknown[] = [];
  const gpuProblem = async (id: string): Promise<string | undefined> => {
    looked.push(id);
    if (id === 'well') throw new Error('the engine is away');
    return 'lost';
  };
  const runtimes = new Map([
    ['container', { gpuProblem }],
    ['thread', {}],
  ]);
  const views = new GpuViews({ everyMs: 20, workers: () => workers, runtimes, onLost: (each) => lost.push(each) });
  t.teardown(() => views.close());
  await until('both were looked at', () => looked.includes('well') && lost.length > 0);
  views.close();
  t.deepEqual([...new Set(looked)].sort(), ['lost', 'well']);
  t.deepEqual(lost[0], { workerId: 'lost', start: 3, detail: 'lost' });
  const rare = new GpuViews({ everyMs: 3_600_000, workers: () => workers, runtimes, onLost: () => undefined });
  t.teardown(() => rare.close());
  looked.length = 0;
  for (let i = 0; i < 5; i += 1) rare.soon(worker('failing'));
  t.deepEqual(looked, ['failing']);
});

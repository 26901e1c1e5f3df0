/** Workers that are processes and cannot use their GPUs any more, over the real parts: each is seen from its own place, and alone is drained. */
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { ProcessGpuViews } from '../../agent/runtimes/hosted/process-gpu-views.ts';
import type { WorkerLauncher, WorkerProcess } from '../../agent/sandbox/launcher.ts';
import { PlainLauncher } from '../../agent/sandbox/plain-launcher.ts';
import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { folderOf } from '../support/folder.ts';
import { openTestSandbox, sandboxForFile } from '../support/sandbox.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const { reason } = await sandboxForFile();
const sandbox = reason === '' ? test.serial : test.serial.skip;
if (reason !== '') console.log(`skipped: no sandbox here: ${reason}`);

const GPUS = [0, 1].map((n) => ({ uuid: `GPU-0a0b0c0d-0000-0000-0000-00000000000${n}`, name: 'NVIDIA RTX A5000', memoryMiB: 24_564 }));
const SAID = 'Failed to initialize NVML: Unknown Error';
/** Below /tmp, which each sandbox has of its own. */
const LOST = `/tmp/capstan-lost-${randomUUID()}`;
const HANDLERS = `
import { writeFileSync } from 'node:fs';
import { endpoint } from '@capstan/sdk';

export const lose = endpoint({ name: 'lose', gpu: 'ANY', workers: [2, 2] }, () => {
  writeFileSync('${LOST}', '');
  console.log('${SAID}');
  return process.env['CUDA_VISIBLE_DEVICES'] ?? '';
});
`;

interface WorkerRow {
  readonly id: string;
  readonly state: string;
  readonly failures: number;
  readonly devices: readonly string[];
}

/** The agent's own look at nvidia-smi's list fails where the file is. */
async function fakeSmi(folder: string): Promise<string> {
  const inner = await writeFakeSmi(join(folder, 'inner'), { gpus: GPUS });
  const path = join(folder, 'nvidia-smi');
  await writeFile(path, `#!/bin/sh\n[ "$*" = -L ] && [ -e ${LOST} ] && { echo '${SAID}'; exit 255; }\nexec ${inner} "$@"\n`);
  await chmod(path, 0o755);
  return path;
}

async function started(t: ExecutionContext, level: 'none' | 'sandbox'): Promise<Stack> {
  const stack = await Stack.start({ CAPSTAN_ISOLATION: level, CAPSTAN_GPU_VIEW_MS: '3600000' }, async (folder) => {
    const smi = join(folder, 'smi');
    await mkdir(smi);
    return { CAPSTAN_NVIDIA_SMI: await fakeSmi(smi), CAPSTAN_SANDBOX_PATHS: smi };
  });
  t.teardown(async () => {
    await stack.close();
    await rm(LOST, { force: true });
  });
  return stack;
}

async function workersOf(stack: Stack): Promise<WorkerRow[]> {
  return JSON.parse(await stack.tool('workers', 'list', '--json')) as WorkerRow[];
}

async function deployed(t: ExecutionContext, stack: Stack): Promise<{ lose: string; before: readonly WorkerRow[] }> {
  const folder = await folderOf(t);
  await writeFile(join(folder, 'handlers.ts'), HANDLERS);
  const lose = (await stack.deploy(folder)).get('lose') ?? '';
  const before = await until('both workers are ready', async () => {
    const rows = await workersOf(stack);
    return rows.length === 2 && rows.every(({ state }) => ['READY', 'IDLE'].includes(state)) ? rows : null;
  });
  return { lose, before };
}

for (const level of ['none', 'sandbox'] as const)
  (level === 'none' ? test.serial : sandbox)(
    `a worker that says NVML fails is replaced with the reason, the other one stays: ${level}`,
    async (t) => {
      t.timeout(120_000);
      const stack = await started(t, level);
      const { lose, before } = await deployed(t, stack);
      const { output } = await stack.ended(lose, await stack.run(lose, {}));
      const [lost, other] = [true, false].map((isLost) => before.find(({ devices }) => devices.includes(String(output)) === isLost));
      const after = await until('the worker is replaced', async () => {
        const rows = await workersOf(stack);
        const isBack = rows.some(({ id, failures }) => id === lost?.id && failures === 1);
        return isBack && rows.every(({ state }) => state === 'IDLE') ? rows : null;
      });
      t.like(
        after.find(({ id }) => id === other?.id),
        { failures: 0 },
      );
      t.regex(await stack.tool('logs', 'lose'), new RegExp(`its GPU cannot be opened from inside: ${SAID}`));
    },
  );

/** Device files of two GPUs; links, since not everybody can make devices. */
async function deviceFiles(folder: string): Promise<{ readonly views: ProcessGpuViews; readonly files: readonly string[] }> {
  const files = ['nvidia0', 'nvidia1'].map((name) => join(folder, name));
  for (const file of files) await symlink('/dev/null', file);
  const devices = (uuids: readonly string[]): readonly string[] => files.filter((_, index) => uuids.includes(`GPU-${index}`));
  return { views: new ProcessGpuViews({ program: join(folder, 'absent'), paths: [folder], devices }), files };
}

function launched(t: ExecutionContext, launcher: WorkerLauncher, uuid: string): WorkerProcess {
  const assignment = { workerId: uuid, folder: '', workFolder: '', deviceUuids: [uuid], memoryBytes: 0, cpuMillis: 0 };
  const env = launcher.environmentOf({ PATH: '/usr/bin:/bin' });
  const order = {
    kind: 'host',
    command: '/bin/sh',
    args: ['-c', 'sleep 60'],
    env,
    pipes: 0,
    lifeline: false,
    reads: [],
    assignment,
  } as const;
  const process = launcher.launch(order);
  t.teardown(async () => {
    process.kill();
    await process.gone;
  });
  return process;
}

for (const level of ['none', 'sandbox'] as const)
  (level === 'none' ? test.serial : sandbox)(
    `a device file that vanishes, or that the worker may not open, is a problem of its worker alone: ${level}`,
    async (t) => {
      const folder = await folderOf(t);
      await chmod(folder, 0o755);
      const { views, files } = await deviceFiles(folder);
      const { launcher = new PlainLauncher() } = level === 'none' ? {} : await openTestSandbox(await folderOf(t), { paths: [folder] });
      t.teardown(() => launcher.close());
      for (const uuid of ['GPU-0', 'GPU-1']) {
        const process = launched(t, launcher, uuid);
        await process.started;
        await until('its process is known', () => process.pid !== undefined);
        views.keep(
          { workerId: uuid, deviceUuids: [uuid] },
          process,
          process.gone.then(() => undefined),
        );
      }
      t.is(await views.problemOf('GPU-0'), undefined);
      const [own = '', other = ''] = files;
      await rm(own);
      t.is(await views.problemOf('GPU-0'), `its GPU cannot be opened from inside: ${own} is missing`);
      t.is(await views.problemOf('GPU-1'), undefined);
      if (level === 'none' || process.getuid?.() !== 0) return;
      await rm(other);
      execFileSync('mknod', ['-m', '600', other, 'c', '1', '3']);
      t.is(await views.problemOf('GPU-1'), `its GPU cannot be opened from inside: ${other} cannot be opened`);
    },
  );

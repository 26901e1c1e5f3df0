/** GPUs that are lost while they serve, over the real parts: their workers are retired, jobs go to healthy GPUs, and back when the driver works again. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { writeFakeSmi, type FakeBehaviour } from '../agent/fake-nvidia-smi.ts';
import { folderOf } from '../support/folder.ts';
import { canFindProcesses } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const linux = canFindProcesses ? test : test.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

const MISMATCH = 'Failed to initialize NVML: Driver/library version mismatch';
const GPUS = [0, 1].map((n) => ({ uuid: `GPU-0a0b0c0d-0000-0000-0000-00000000000${n}`, name: 'NVIDIA RTX A5000', memoryMiB: 24_564 }));

interface WorkerRow {
  readonly state: string;
  readonly devices: readonly string[];
}

linux('a worker leaves a lost GPU, a failed driver stops new work with its reason, and a healthy host serves again', async (t) => {
  t.timeout(120_000);
  const folder = await folderOf(t);
  const behave = (behaviour: FakeBehaviour): Promise<string> => writeFakeSmi(join(folder, 'smi'), behaviour);
  const stack = await Stack.start({ CAPSTAN_NVIDIA_SMI: await behave({ gpus: GPUS }), CAPSTAN_INVENTORY_MS: '200' });
  t.teardown(() => stack.close());
  const hold = (await stack.deploy(join(import.meta.dirname, 'fleet-app'))).get('hold') ?? '';
  const workers = async (): Promise<WorkerRow[]> => JSON.parse(await stack.tool('workers', 'list', '--json')) as WorkerRow[];
  const open = async (name: string): Promise<void> => writeFile(join(folder, name), '');
  const run = (name: string): Promise<string> => stack.run(hold, { gate: join(folder, name) });

  const first = await run('first');
  await until('the first job runs', async () => (await stack.status(hold, first)).status === 'IN_PROGRESS');
  const [lost = ''] = (await workers()).flatMap(({ devices }) => devices);
  await behave({ gpus: GPUS.filter(({ uuid }) => uuid !== lost) });
  await until('the worker on the lost GPU is retired', async () =>
    (await workers()).some(({ state, devices }) => state === 'DRAINING' && devices.includes(lost)),
  );
  await open('second');
  const second = await stack.ended(hold, await run('second'));
  t.is(second.status, 'COMPLETED');
  t.not((second.output as { devices: string }).devices, lost, 'the free GPU serves');
  t.is((await stack.status(hold, first)).status, 'IN_PROGRESS', 'what ran goes on');
  await open('first');
  t.like(await stack.ended(hold, first), { status: 'COMPLETED', output: { devices: lost } });

  await behave({ fails: { code: 18, stdout: `${MISMATCH}\nNVML library version: 550.54` } });
  await until('the host says what its driver lacks', async () => (await stack.tool('node', 'list')).includes(MISMATCH));
  const third = await run('third');
  const waiting = await until('the job waits for a GPU', async () => {
    const document = (await stack.status(hold, third)) as { queueReason?: string };
    return document.queueReason === 'NO_CAPACITY' ? document : null;
  });
  t.is((waiting as { status?: string }).status, 'IN_QUEUE');
  t.true((await stack.tool('endpoints', 'get', 'hold', '--json')).includes(MISMATCH), 'with the words of the driver');
  await behave({ gpus: GPUS });
  await open('third');
  t.is((await stack.ended(hold, third)).status, 'COMPLETED');
});

/** What is wrong with a GPU is told where its operator looks: `capstan node list` and `capstan doctor`. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import information from 'systeminformation';

import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { shared } from '../cli/fakes/run.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { folderOf } from '../support/folder.ts';

const tool = join(import.meta.dirname, '../../cli/main.ts');

interface Row {
  readonly hardware: {
    readonly cpuCores: number | null;
    readonly disks: readonly unknown[];
    readonly networkInterfaces: readonly unknown[];
  } | null;
  readonly devices: readonly { readonly uuid: string; readonly healthy: boolean }[];
}

test('an ill GPU is shown with its reason, and its neighbour is not', async (t) => {
  const folder = await folderOf(t);
  const ecc = '<volatile><dram_correctable>3</dram_correctable><dram_uncorrectable>1</dram_uncorrectable></volatile>';
  const nvidiaSmi = await writeFakeSmi(folder, {
    gpus: [
      { uuid: 'GPU-a', name: 'NVIDIA Ill', recovery: 'GPU Reset', pciBusId: '00000000:3B:00.0', ecc },
      { uuid: 'GPU-b', name: 'NVIDIA Well' },
    ],
  });
  const stack = await Stack.start({ CAPSTAN_NVIDIA_SMI: nvidiaSmi });
  t.teardown(() => stack.close());
  const capstan = (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
    promisify(execFile)(process.execPath, [tool, ...args, '--data-dir', stack.dataDir], {
      env: { ...shared, NO_COLOR: '1' },
    });
  const row = await until('the node tells its devices', async () => {
    const [node] = JSON.parse((await capstan('node', 'list', '--json')).stdout) as Row[];
    return node?.devices.length === 2 ? node : null;
  });
  t.like(row.devices[0], {
    healthy: false,
    problem: 'recovery action needed: GPU Reset',
    recoveryAction: 'GPU Reset',
    eccCorrected: 3,
    eccUncorrected: 1,
    pciBusId: '0000:3b:00',
    xids: [],
  });
  t.like(row.devices[1], { healthy: true, problem: '' });
  const { cpuCores, disks, networkInterfaces } = row.hardware ?? {};
  const [cpu, here] = await Promise.all([information.cpu(), information.networkInterfaces()]);
  t.is(cpuCores, cpu.physicalCores, 'from systeminformation, since the node joined');
  t.true(Array.isArray(disks));
  t.is(networkInterfaces?.length, [here].flat().filter(({ internal, iface }) => !internal && !iface.startsWith('veth')).length);
  const shown = (await capstan('node', 'list')).stdout;
  t.regex(shown, /NVIDIA Ill \(recovery action needed: GPU Reset\), NVIDIA Well/);
  t.regex(shown, / 0\/1 GPU/, 'an ill one is not there to be given');
  const { stderr } = await capstan('doctor');
  t.regex(stderr, /^! GPU of .*: NVIDIA Ill: recovery action needed: GPU Reset$/m);
  t.notRegex(stderr, /NVIDIA Well:/);
});

/** What nvidia-smi prints when something is wrong with one GPU or with all: a GPU is given out only when it can be named and reports no error. */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { afterFullProbe, afterLightProbe, NO_DEVICES, type DeviceSet } from '../../agent/inventory/devices.ts';
import { NvidiaProbe } from '../../agent/inventory/nvidia-probe.ts';
import { isGpuUuid, isSliceUuid } from '../../agent/inventory/nvidia-text.ts';
import { folderOf } from '../support/folder.ts';
import { writeFakeSmi, type FakeBehaviour } from './fake-nvidia-smi.ts';

// Each full probe starts a process of Node; without the cache it compiles its library anew.
const env = { PATH: '/usr/local/bin:/usr/bin:/bin', NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '' };
const BUS_A = '00000000:3B:00.0';
const BUS_B = '00000000:AF:00.0';
const A = { uuid: 'GPU-a', pciBusId: BUS_A };
const B = { uuid: 'GPU-b', pciBusId: BUS_B };

interface Host {
  behave(behaviour: FakeBehaviour): Promise<string>;
  full(before?: DeviceSet): Promise<DeviceSet>;
  light(before: DeviceSet): Promise<DeviceSet>;
}

async function hostWith(t: ExecutionContext, behaviour: FakeBehaviour): Promise<Host> {
  const folder = await folderOf(t);
  const behave = (next: FakeBehaviour): Promise<string> => writeFakeSmi(join(folder, 'bin'), next);
  const probe = new NvidiaProbe({ program: await behave(behaviour), timeoutMs: 20_000, folder: join(folder, 'probe'), env });
  return {
    behave,
    full: async (before = NO_DEVICES) => afterFullProbe(before, await probe.full()),
    light: async (before) => afterLightProbe(before, await probe.light()),
  };
}

type Shape = (readonly [string, boolean, string])[];

function shape({ devices }: DeviceSet): Shape {
  return devices.map(({ uuid, healthy, problem }) => [uuid, healthy, problem] as const).sort(([a], [b]) => (a < b ? -1 : 1));
}

test('only a UUID names a device', (t) => {
  for (const good of ['GPU-19d6d965-2acc-f646-00f8-4c76979aabb4', 'GPU-a']) t.true(isGpuUuid(good), good);
  for (const good of ['MIG-77aaf9b0-0000-5555-8888-0123456789ab', 'MIG-GPU-19d6d965-2acc-f646-00f8-4c76979aabb4/7/0'])
    t.true(isSliceUuid(good), good);
  const bad = [
    '',
    'Unknown Error',
    '[Unknown Error]',
    '[GPU requires reset]',
    '[Insufficient Permissions]',
    'N/A',
    'ERR!',
    'GPU-',
    'GPU-a,GPU-b',
    '0',
  ];
  for (const text of bad) {
    t.false(isGpuUuid(text), text);
    t.false(isSliceUuid(text), text);
  }
});

for (const text of ['Unknown Error', '[GPU requires reset]', '[Insufficient Permissions]', 'N/A', 'GPU-a GPU-b']) {
  test(`${text} in the place of a UUID is an unhealthy device, and never a name for CUDA`, async (t) => {
    const host = await hostWith(t, { gpus: [A, B] });
    const before = await host.full();
    const problem = `nvidia-smi reports ${text} instead of its UUID`;
    await host.behave({ gpus: [{ ...A, uuidText: text }, B] });
    // The GPU on that bus was known: it is the one that is ill.
    const known: Shape = [
      ['GPU-a', false, problem],
      ['GPU-b', true, ''],
    ];
    t.deepEqual(shape(await host.light(before)), known);
    const ill = await host.full(before);
    t.deepEqual(shape(ill), known);
    // One that was never seen well has no UUID to be called by.
    const fresh = await host.full();
    t.deepEqual(shape(fresh), [
      ['GPU-b', true, ''],
      ['unidentified at 0000:3b:00', false, problem],
    ]);
    await host.behave({ gpus: [A, B] });
    for (const set of [ill, fresh]) {
      const well: Shape = [
        ['GPU-a', true, ''],
        ['GPU-b', true, ''],
      ];
      t.deepEqual(shape(await host.full(set)), well);
    }
  });
}

test('a GPU without UUID and bus is not there, and the host says so', async (t) => {
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a', uuidText: 'Unknown Error' }, B] });
  const set = await host.full();
  t.deepEqual(shape(set), [['GPU-b', true, '']]);
  t.is(set.problem, 'nvidia-smi reports 1 GPU(s) without a UUID');
});

test('an error in the place of any value is told by both probes', async (t) => {
  const errors = [
    { fan: 'ERR!' },
    { power: '[Unknown Error]' },
    { power: '[GPU requires reset]' },
    { usedMemory: '[GPU is lost]' },
    { temperature: 'ERR!' },
    { recovery: 'Unknown Error' },
  ];
  for (const error of errors) {
    const host = await hostWith(t, { gpus: [A, B] });
    const before = await host.full();
    await host.behave({ gpus: [{ ...A, ...error }, B] });
    const sets = 'recovery' in error ? [await host.full(before)] : [await host.full(before), await host.light(before)];
    for (const set of sets) {
      const [a, b] = shape(set);
      t.deepEqual([a?.[1], b], [false, ['GPU-b', true, '']], JSON.stringify(error));
      t.regex(a?.[2] ?? '', /^nvidia-smi reports .*(ERR!|Unknown Error|requires reset|is lost)/, JSON.stringify(error));
    }
  }
  // What a card cannot say, or may not, is no error.
  const silent = await hostWith(t, { gpus: [{ ...A, fan: '[N/A]', power: '[Insufficient Permissions]', temperature: '[Not Supported]' }] });
  t.deepEqual(shape(await silent.full()), [['GPU-a', true, '']]);
});

test('numbers that no device has are not taken, and end nothing', async (t) => {
  const many = '9'.repeat(400);
  const ecc = `<volatile><dram_correctable>${many}</dram_correctable><dram_uncorrectable>-1</dram_uncorrectable></volatile>`;
  const host = await hostWith(t, {
    gpus: [
      { ...A, temperature: many, usedMemory: many, ecc },
      { ...B, temperature: '-5', usedMemory: '-1' },
    ],
  });
  for (const set of [await host.full(), await host.light(await host.full())]) {
    for (const device of set.devices) {
      t.true(device.healthy);
      t.is(device.temperatureCelsius, undefined);
      t.is(device.memoryUsedBytes, 0n);
      t.is(device.eccCorrected, undefined);
      t.is(device.eccUncorrected, undefined);
    }
  }
});

test('two GPUs with one UUID cannot be told apart, so neither is given out', async (t) => {
  const host = await hostWith(t, { gpus: [A, { ...A, pciBusId: BUS_B }] });
  const set = await host.full();
  t.deepEqual(shape(set), [['GPU-a', false, 'nvidia-smi lists its UUID more than once']]);
  t.deepEqual(shape(await host.light(set)), shape(set));
});

test('an answer for fewer devices than are attached says so, and the missing one is lost', async (t) => {
  const host = await hostWith(t, { gpus: [A, B] });
  const before = await host.full();
  await host.behave({ gpus: [B], attached: 2 });
  const set = await host.full(before);
  t.is(set.problem, 'nvidia-smi lists 1 of 2 attached GPUs');
  t.deepEqual(shape(set), [
    ['GPU-a', false, 'nvidia-smi no longer lists it'],
    ['GPU-b', true, ''],
  ]);
});

test('a call that fails for one lost GPU leaves the others healthy, and its message with the lost one', async (t) => {
  const host = await hostWith(t, { gpus: [A, B] });
  const before = await host.full();
  const message = 'Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU';
  await host.behave({ gpus: [B], tableEnd: { code: 15, stdout: message } });
  t.deepEqual(shape(await host.light(before)), [
    ['GPU-a', false, `nvidia-smi: ${message}`],
    ['GPU-b', true, ''],
  ]);
});

test('an output that breaks off tells of whole rows only', async (t) => {
  const host = await hostWith(t, { gpus: [A, B] });
  const before = await host.full();
  await host.behave({ gpus: [B], tableEnd: { code: 139, stdout: 'GPU-a0, NVIDIA Te' } });
  t.deepEqual(shape(await host.light(before)), [
    ['GPU-a', false, 'nvidia-smi no longer lists it'],
    ['GPU-b', true, ''],
  ]);
});

test('slices keep their names while the list of them cannot be had', async (t) => {
  const slices = [{ uuid: 'MIG-1', profile: '1g.10gb', memoryMiB: 9_728 }];
  const host = await hostWith(t, { gpus: [{ ...A, slices }] });
  const before = await host.full();
  await host.behave({ gpus: [{ ...A, slices }], listFails: true });
  t.deepEqual(shape(await host.full(before)), [['MIG-1', true, '']]);
});

test("the driver's own words are shown, wherever nvidia-smi prints them", async (t) => {
  const messages = [
    [18, 'Failed to initialize NVML: Driver/library version mismatch'],
    [
      9,
      "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
    ],
    [6, 'No devices were found'],
    [15, 'Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU'],
    [255, 'Failed to initialize NVML: Unknown Error'],
  ] as const;
  const host = await hostWith(t, { gpus: [A] });
  const before = await host.full();
  for (const [code, message] of messages) {
    for (const where of ['stdout', 'stderr'] as const) {
      await host.behave({ fails: { code, [where]: `${message}\n\nNVML library version: 535.161` } });
      for (const set of [await host.full(before), await host.light(before), await host.full()]) {
        t.is(set.problem, `nvidia-smi: ${message}`, where);
        t.true(set.devices.every(({ healthy, problem }) => !healthy && problem === set.problem));
      }
    }
  }
});

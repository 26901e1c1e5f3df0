/** Devices as nvidia-smi tells of them, however it behaves. */
import { existsSync } from 'node:fs';
import { appendFile, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { afterFullProbe, afterLightProbe, NO_DEVICES, type DeviceSet } from '../../agent/inventory/devices.ts';
import { NvidiaProbe } from '../../agent/inventory/nvidia-probe.ts';
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';
import { writeFakeSmi, type FakeBehaviour } from './fake-nvidia-smi.ts';
import { startAgent, startScheduler } from './fixtures.ts';
import { folderOf } from '../support/folder.ts';

const MEBIBYTE = 1024n * 1024n;
// Each full probe starts a process of Node; without the cache it compiles its library anew.
const env = { PATH: '/usr/local/bin:/usr/bin:/bin', NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '' };

interface Host {
  readonly probe: NvidiaProbe;
  behave(behaviour: FakeBehaviour): Promise<string>;
  full(before?: DeviceSet): Promise<DeviceSet>;
  light(before: DeviceSet): Promise<DeviceSet>;
}

async function hostWith(t: ExecutionContext, behaviour: FakeBehaviour, timeoutMs = 10_000): Promise<Host> {
  const folder = await folderOf(t);
  const behave = (next: FakeBehaviour): Promise<string> => writeFakeSmi(join(folder, 'bin'), next);
  const probe = new NvidiaProbe({ program: await behave(behaviour), timeoutMs, folder: join(folder, 'probe'), env });
  return {
    probe,
    behave,
    full: async (before = NO_DEVICES) => afterFullProbe(before, await probe.full()),
    light: async (before) => afterLightProbe(before, await probe.light()),
  };
}

function only(set: DeviceSet): Device {
  const [device] = set.devices;
  if (device === undefined || set.devices.length !== 1) throw new Error(`${set.devices.length} devices`);
  return device;
}

test('no nvidia-smi is a host without GPUs: no devices, no problem', async (t) => {
  for (const program of ['/nonexistent/nvidia-smi', 'no-such-nvidia-smi']) {
    const probe = new NvidiaProbe({ program, timeoutMs: 1_000, folder: await folderOf(t), env });
    t.deepEqual(await probe.full(), { kind: 'none' });
    t.deepEqual(await probe.light(), { kind: 'none' });
  }
  t.deepEqual(afterFullProbe(NO_DEVICES, { kind: 'none' }), NO_DEVICES);
});

test('one GPU and several read alike', async (t) => {
  const one = await hostWith(t, { gpus: [{ uuid: 'GPU-a', name: 'NVIDIA A100', memoryMiB: 81_920 }] });
  t.like(only(await one.full()), {
    uuid: 'GPU-a',
    model: 'NVIDIA A100',
    memoryBytes: 81_920n * MEBIBYTE,
    memoryUsedBytes: 12n * MEBIBYTE,
    driverVersion: '550.1',
    cudaVersion: '12.4',
    computeCapability: '8.0',
    utilizationPercent: 7,
    temperatureCelsius: 40,
    powerMilliwatts: 67_030,
    throttleReasons: 1n,
    parentUuid: '',
    healthy: true,
    problem: '',
  });
  const two = await hostWith(t, { gpus: [{ uuid: 'GPU-a' }, { uuid: 'GPU-b' }] });
  t.deepEqual(
    (await two.full()).devices.map(({ uuid, healthy }) => [uuid, healthy]),
    [
      ['GPU-a', true],
      ['GPU-b', true],
    ],
  );
  const none = await hostWith(t, { gpus: [] });
  t.deepEqual(await none.full(), { devices: [], problem: '' });
});

test('MIG slices are devices of their own, by their UUIDs; their GPU is none', async (t) => {
  const slices = [
    { uuid: 'MIG-1', profile: '1g.10gb', memoryMiB: 9_728 },
    { uuid: 'MIG-2', profile: '2g.20gb', memoryMiB: 19_968 },
  ];
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a', name: 'NVIDIA A100', slices }, { uuid: 'GPU-b' }] });
  const set = await host.full();
  t.deepEqual(
    set.devices.map(({ uuid, model, memoryBytes, parentUuid, computeCapability }) => [
      uuid,
      model,
      memoryBytes / MEBIBYTE,
      parentUuid,
      computeCapability,
    ]),
    [
      ['MIG-1', 'NVIDIA A100 MIG 1g.10gb', 9_728n, 'GPU-a', '8.0'],
      ['MIG-2', 'NVIDIA A100 MIG 2g.20gb', 19_968n, 'GPU-a', '8.0'],
      ['GPU-b', 'NVIDIA Test', 1_024n, '', '8.0'],
    ],
  );
  t.is(set.devices[0]?.utilizationPercent, undefined);
  const light = await host.light(set);
  t.deepEqual(
    light.devices.map(({ uuid, healthy }) => [uuid, healthy]),
    [
      ['GPU-b', true],
      ['MIG-1', true],
      ['MIG-2', true],
    ],
  );
  await host.behave({ gpus: [{ uuid: 'GPU-a', slices: [] }] });
  const bare = await host.full();
  t.like(only(bare), { uuid: 'GPU-a', healthy: false, problem: 'MIG is enabled, but no MIG device exists' });
});

test('a new cut of a GPU replaces the old one; a lost GPU stays, unhealthy, until it is back', async (t) => {
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a' }, { uuid: 'GPU-b' }] });
  const before = await host.full();
  await host.behave({ gpus: [{ uuid: 'GPU-b', slices: [{ uuid: 'MIG-1', profile: '1g.10gb', memoryMiB: 100 }] }] });
  const after = await host.full(before);
  t.deepEqual(
    after.devices.map(({ uuid, healthy, problem }) => [uuid, healthy, problem]),
    [
      ['MIG-1', true, ''],
      ['GPU-a', false, 'nvidia-smi no longer lists it'],
    ],
  );
  await host.behave({ gpus: [{ uuid: 'GPU-a' }, { uuid: 'GPU-b' }] });
  t.true((await host.full(after)).devices.every(({ healthy }) => healthy));
});

test('words on stderr beside a good answer do no harm', async (t) => {
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a' }], warns: 'WARNING: infoROM is corrupted at gpu 0000:01:00.0' });
  t.like(only(await host.full()), { uuid: 'GPU-a', healthy: true, cudaVersion: '12.4' });
});

test('a failing nvidia-smi leaves its devices unhealthy with its words, until it works again', async (t) => {
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a' }] });
  const before = await host.full();
  await host.behave({ fails: { code: 9, stderr: 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.' } });
  for (const after of [await host.full(before), await host.light(before)]) {
    t.regex(after.problem, /^nvidia-smi: NVIDIA-SMI has failed/);
    t.like(only(after), { uuid: 'GPU-a', model: 'NVIDIA Test', healthy: false, problem: after.problem });
  }
  const never = await hostWith(t, { fails: { code: 9, stderr: 'no driver' } });
  t.deepEqual(await never.full(), { devices: [], problem: 'nvidia-smi: no driver' });
  await host.behave({ gpus: [{ uuid: 'GPU-a' }] });
  t.like(only(await host.light(before)), { healthy: true, problem: '' });
});

test('a hanging nvidia-smi is killed, and its devices say why they cannot be used', async (t) => {
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a' }] }, 300);
  const before = await hostWith(t, { gpus: [{ uuid: 'GPU-a' }] }).then((good) => good.full());
  await host.behave({ hangs: 'all' });
  const after = await host.full(before);
  t.is(after.problem, 'nvidia-smi did not respond within 300 ms');
  t.like(only(after), { healthy: false, problem: after.problem });
});

test('an agent that ends does not wait for a hanging nvidia-smi', async (t) => {
  const host = await hostWith(t, { hangs: 'all' }, 600_000);
  const asked = [host.probe.full(), host.probe.light()];
  host.probe.close();
  t.deepEqual(
    (await Promise.all(asked)).map(({ kind }) => kind),
    ['failed', 'failed'],
  );
});

test('a report that hangs leaves the table to tell of the devices', async (t) => {
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a', memoryMiB: 2_048 }], hangs: 'report' }, 2_500);
  const set = await host.full();
  t.is(set.problem, 'nvidia-smi did not respond within 2500 ms');
  t.like(only(set), { uuid: 'GPU-a', memoryBytes: 2_048n * MEBIBYTE, healthy: true });
});

test('a report of another schema is a problem, not a crash', async (t) => {
  for (const report of ['<other_log><gpu/></other_log>', 'this is no XML', '']) {
    const host = await hostWith(t, { gpus: [], report });
    const set = await host.full();
    t.deepEqual(set.devices, []);
    t.not(set.problem, '');
  }
  const odd = await hostWith(t, {
    gpus: [],
    report: '<nvidia_smi_log><gpu><uuid>GPU-a</uuid></gpu><gpu><name>no uuid</name></gpu></nvidia_smi_log>',
  });
  const set = await odd.full();
  t.like(only(set), { uuid: 'GPU-a', healthy: true, memoryBytes: 0n });
  t.is(set.problem, 'nvidia-smi reports 1 GPU(s) without a UUID');
});

test('a card that reports trouble inside of its values is unhealthy', async (t) => {
  const hot = await hostWith(t, { gpus: [{ uuid: 'GPU-a', temperature: '[Unknown Error]' }, { uuid: 'GPU-b' }] });
  const set = await hot.full();
  t.deepEqual(
    set.devices.map(({ healthy }) => healthy),
    [false, true],
  );
  t.regex(set.devices[0]?.problem ?? '', /Unknown Error/);
  const reset = await hostWith(t, { gpus: [{ uuid: 'GPU-a', recovery: 'Reset' }] });
  t.like(only(await reset.full()), { healthy: false, problem: 'recovery action needed: Reset', recoveryAction: 'Reset' });
  const before = await reset.full();
  await reset.behave({ gpus: [{ uuid: 'GPU-a' }] });
  t.like(only(await reset.full(before)), { healthy: true, recoveryAction: '' });
});

test('memory errors, the bus and what the driver asks for are told, in the words of each schema', async (t) => {
  const schemas = [
    [
      '<volatile><sram_correctable>1</sram_correctable><sram_uncorrectable>2</sram_uncorrectable><dram_correctable>3</dram_correctable><dram_uncorrectable>4</dram_uncorrectable></volatile>',
      4n,
      6n,
    ],
    [
      '<volatile><sram_correctable>0</sram_correctable><sram_uncorrectable_parity>1</sram_uncorrectable_parity><sram_uncorrectable_secded>1</sram_uncorrectable_secded></volatile>',
      0n,
      2n,
    ],
    ['<volatile><single_bit><total>5</total></single_bit><double_bit><total>6</total></double_bit></volatile>', 5n, 6n],
    ['<volatile><sram_correctable>N/A</sram_correctable></volatile>', undefined, undefined],
    ['N/A', undefined, undefined],
  ] as const;
  for (const [ecc, eccCorrected, eccUncorrected] of schemas) {
    const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a', ecc, pciBusId: '00000000:3B:00.0' }] });
    const set = await host.full();
    t.like(only(set), { healthy: true, eccCorrected, eccUncorrected, pciBusId: '0000:3b:00', recoveryAction: '' }, ecc);
    // The frequent probe does not ask for them: what is known stays.
    t.like(only(await host.light(set)), { eccUncorrected, pciBusId: '0000:3b:00' });
  }
  const rows = '<remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>';
  const pending = await hostWith(t, { gpus: [{ uuid: 'GPU-a', rows }] });
  t.like(only(await pending.full()), { healthy: false, problem: 'memory rows will be remapped at the next reset' });
});

test('an old driver is asked for fewer columns', async (t) => {
  const host = await hostWith(t, { gpus: [{ uuid: 'GPU-a' }], old: true });
  const light = await host.probe.light();
  t.like(light, { kind: 'devices', devices: [{ uuid: 'GPU-a', memoryBytes: 1024 * 1024 * 1024 }] });
});

const captures = join(import.meta.dirname, '../../../shared/fixtures/nvidia-smi');
const hasCaptures = existsSync(captures);
const withCaptures = hasCaptures ? test : test.skip;

withCaptures(`the captures of real machines${hasCaptures ? '' : ' (skipped: ../shared/fixtures/nvidia-smi is not here)'}`, async (t) => {
  const names = await readdir(captures);
  t.true(names.length > 0);
  for (const name of names.filter((file) => file.endsWith('.xml'))) {
    const host = await hostWith(t, { gpus: [], report: await readFile(join(captures, name), 'utf8') });
    const set = await host.full();
    t.true(set.devices.length > 0, name);
    for (const device of set.devices) {
      t.true(device.memoryBytes > 1_000n * MEBIBYTE, name);
      t.regex(device.model, /\w+/, name);
      t.regex(device.driverVersion, /^\d+\.\d+/, name);
      t.regex(device.cudaVersion, /^\d+\.\d+$/, name);
      t.true(device.healthy, `${name}: ${device.problem}`);
    }
    const isMig = name.startsWith('a100');
    t.is(set.devices.length, isMig ? 4 : 1, name);
    t.true(
      set.devices.every(({ uuid, parentUuid }) =>
        isMig ? uuid.startsWith('MIG-') && parentUuid.startsWith('GPU-') : uuid.startsWith('GPU-'),
      ),
      name,
    );
    if (!isMig) t.true((set.devices[0]?.temperatureCelsius ?? 0) > 0, name);
  }
});

test("the driver's errors in the kernel's log are told, and a fatal one holds its GPU back, but no other", async (t) => {
  const scheduler = await startScheduler(t);
  const folder = await folderOf(t);
  const gpus = [
    { uuid: 'GPU-a', pciBusId: '00000000:3B:00.0' },
    { uuid: 'GPU-b', pciBusId: '00000000:AF:00.0' },
  ];
  const kernelLog = join(folder, 'kmsg');
  const micros = Math.round(Number((await readFile('/proc/uptime', 'utf8')).split(' ')[0]) * 1e6);
  const say = (text: string): Promise<void> => appendFile(kernelLog, `4,1,${micros},-;${text}\n SUBSYSTEM=pci\n`);
  await say('NVRM: Xid (PCI:0000:af:00): 31, pid=7, name=python3, MMU Fault');
  await startAgent(t, scheduler, { nvidiaSmi: await writeFakeSmi(folder, { gpus }), kernelLog, inventoryMs: 20 });
  const deviceOf = (set: { devices: readonly Device[] } | undefined, uuid: string) => set?.devices.find((device) => device.uuid === uuid);
  await scheduler.heard.next((event) => {
    const inventory = event.$case === 'hello' ? event.value.inventory : event.$case === 'inventory' ? event.value : undefined;
    const device = deviceOf(inventory, 'GPU-b');
    return device?.healthy === true && device.xids[0]?.code === 31;
  });
  await say('NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.');
  const ill = await scheduler.hear('inventory', ({ devices }) => devices.some(({ healthy }) => !healthy));
  t.like(deviceOf(ill, 'GPU-a'), { healthy: false, problem: 'Xid 79: the GPU has fallen off the bus' });
  t.like(deviceOf(ill, 'GPU-a')?.xids[0], { code: 79, text: 'pid=1, GPU has fallen off the bus.' });
  t.true(deviceOf(ill, 'GPU-b')?.healthy);
});

test('the scheduler hears of devices, and at once when one falls ill', async (t) => {
  const scheduler = await startScheduler(t);
  const folder = await folderOf(t);
  const nvidiaSmi = await writeFakeSmi(folder, { gpus: [{ uuid: 'GPU-a' }] });
  await startAgent(t, scheduler, { nvidiaSmi, inventoryMs: 20 });
  // A Hello does not wait for a probe that takes its time.
  await scheduler.heard.next((event) => {
    const inventory = event.$case === 'hello' ? event.value.inventory : event.$case === 'inventory' ? event.value : undefined;
    return inventory?.devices[0]?.uuid === 'GPU-a';
  });
  await writeFakeSmi(folder, { fails: { code: 15, stderr: 'GPU is lost' } });
  const ill = await scheduler.hear('inventory', ({ devices }) => devices[0]?.healthy === false);
  t.is(ill.deviceProblem, 'nvidia-smi: GPU is lost');
  await rm(nvidiaSmi);
  await writeFakeSmi(folder, { gpus: [{ uuid: 'GPU-a' }] });
  await scheduler.hear('inventory', ({ devices }) => devices[0]?.healthy === true, scheduler.now);
  t.pass();
});

/** What the NVIDIA driver's errors in the kernel's log mean for a GPU, and how it comes back. */
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { KernelLog } from '../../agent/inventory/kernel-log.ts';
import { busIdOf } from '../../agent/inventory/nvidia-text.ts';
import { faultOf, parseXid } from '../../agent/inventory/xid.ts';
import { XidWatch } from '../../agent/inventory/xid-watch.ts';
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';

const MINUTE = 60_000;
const BUS = '0000:3b:00';

function device(more: Partial<Device> = {}): Device {
  return {
    uuid: 'GPU-a',
    model: 'NVIDIA Test',
    memoryBytes: 1n,
    memoryUsedBytes: 0n,
    computeCapability: '8.0',
    driverVersion: '550.1',
    cudaVersion: '12.4',
    utilizationPercent: undefined,
    temperatureCelsius: undefined,
    parentUuid: '',
    healthy: true,
    problem: '',
    pciBusId: BUS,
    eccCorrected: undefined,
    eccUncorrected: undefined,
    recoveryAction: '',
    xids: [],
    ...more,
  };
}

const isHealthy = (watch: XidWatch, now: number, more: Partial<Device> = {}): boolean | undefined =>
  watch.mark([device(more)], now, (at) => at)[0]?.healthy;

test('a line of the kernel names the GPU by its bus, as nvidia-smi does', (t) => {
  t.deepEqual(parseXid('NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.', 5), {
    pciBusId: BUS,
    code: 79,
    text: 'pid=1234, name=python3, GPU has fallen off the bus.',
    at: 5,
  });
  t.like(parseXid('NVRM: Xid (PCI:0000:af:00.0): 13', 0), { pciBusId: '0000:af:00', code: 13, text: '' });
  for (const other of ['usb 1-1: new device', 'NVRM: GPU at PCI:0000:3b:00: GPU-1', 'NVRM: Xid (PCI:garbage): 79, x']) {
    t.is(parseXid(other, 0), undefined);
  }
  t.is(busIdOf('00000000:3B:00.0'), BUS);
  t.is(busIdOf('N/A'), undefined);
});

test("a program's own error leaves the GPU in use; one of the hardware does not", (t) => {
  for (const code of [13, 31, 43, 45, 63, 94, 999]) t.is(faultOf({ code, text: '' }), undefined, String(code));
  for (const code of [48, 62, 64, 74, 79, 95, 119, 120]) t.regex(faultOf({ code, text: '' }) ?? '', new RegExp(`^Xid ${code}: `));
  const changed = (to: string): string => `GPU recovery action changed from 0x0 (None) to ${to}`;
  t.regex(faultOf({ code: 154, text: changed('0x1 (GPU Reset Required)') }) ?? '', /^Xid 154: .*Reset Required/);
  t.is(faultOf({ code: 154, text: changed('0x0 (None)') }), undefined);
});

test('a GPU is held back for a minute after its last fatal error, and comes back by itself', (t) => {
  const watch = new XidWatch();
  t.true(isHealthy(watch, 0));
  watch.add({ pciBusId: BUS, code: 79, text: 'fallen', at: 0 });
  watch.add({ pciBusId: BUS, code: 79, text: 'fallen', at: MINUTE / 2 });
  t.false(isHealthy(watch, MINUTE));
  t.true(isHealthy(watch, 1.5 * MINUTE));
  t.true(isHealthy(watch, 0, { pciBusId: '0000:af:00' }));
  t.true(isHealthy(watch, 0, { pciBusId: '' }));
});

test('one that falls ill again and again is held back longer each time, until a good day has passed', (t) => {
  const watch = new XidWatch();
  let now = 0;
  for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60]) {
    watch.add({ pciBusId: BUS, code: 48, text: '', at: now });
    t.false(isHealthy(watch, now + minutes * MINUTE - 1), String(minutes));
    t.true(isHealthy(watch, now + minutes * MINUTE), String(minutes));
    now += minutes * MINUTE;
  }
  now += 25 * 60 * MINUTE;
  watch.add({ pciBusId: BUS, code: 48, text: '', at: now });
  t.true(isHealthy(watch, now + MINUTE));
});

test('what nvidia-smi says is wrong stands before an old error, and outlasts it', (t) => {
  const watch = new XidWatch();
  watch.add({ pciBusId: BUS, code: 79, text: '', at: 0 });
  const ill = { healthy: false, problem: 'recovery action needed: Reset' };
  t.like(watch.mark([device(ill)], 1, (at) => at)[0], ill);
  t.like(watch.mark([device(ill)], 2 * MINUTE, (at) => at)[0], ill);
});

test('the last eight errors are kept, with the time of the wall clock', (t) => {
  const watch = new XidWatch();
  for (let code = 100; code < 112; code += 1) watch.add({ pciBusId: BUS, code, text: `error ${code}`, at: code });
  const [marked] = watch.mark([device()], 0, (at) => at + 1_000);
  t.deepEqual(
    marked?.xids.map(({ code }) => code),
    [104, 105, 106, 107, 108, 109, 110, 111],
  );
  t.like(marked?.xids[0], { text: 'error 104', atMs: 1_104n });
});

test("the kernel's log is read once, then what is new; where it cannot be read there is nothing", async (t) => {
  const path = join(await folderOf(t), 'kmsg');
  t.deepEqual(await new KernelLog(path).read(), []);
  await appendFile(path, '6,1,1000000,-;first\n SUBSYSTEM=pci\n4,2,2000000,c;second; with ä\n');
  const log = new KernelLog(path);
  t.teardown(() => log.close());
  const [first, second, ...none] = await log.read();
  t.deepEqual([first?.text, second?.text, none], ['first', 'second; with ä', []]);
  t.is(Math.round((second?.at ?? 0) - (first?.at ?? 0)), 1_000);
  t.deepEqual(await log.read(), []);
  await appendFile(path, '6,3,3000000,-;third\n');
  t.deepEqual(
    (await log.read()).map(({ text }) => text),
    ['third'],
  );
});

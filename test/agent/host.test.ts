/** What a host says of itself: system, processors, and which packages of the base images its Python has, without importing one. */
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import { pino } from 'pino';
import information, { type Systeminformation } from 'systeminformation';

import { HardwareReader } from '../../agent/inventory/hardware.ts';
import { readingOf, type HardwareReading } from '../../agent/inventory/hardware-facts.ts';
import { CpuLoad, quickIdentity, readGauges, readIdentityOfHost } from '../../agent/inventory/host-facts.ts';
import { readHostPython } from '../../agent/inventory/host-python.ts';
import { readStat } from '../../agent/runtimes/process-stat.ts';
import { InventoryKeeper } from '../../agent/inventory/inventory.ts';
import type { KernelLog } from '../../agent/inventory/kernel-log.ts';
import type { ProbeResult } from '../../agent/inventory/probe.ts';
import { until } from '../support/until.ts';
import { HostHardware, type Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import { messageOf } from '../../lib/to-error.ts';
import { folderOf } from '../support/folder.ts';

const PATH = '/usr/local/bin:/usr/bin:/bin';

test('versions are read from what the installer wrote; nothing is imported', async (t) => {
  const folder = await folderOf(t);
  for (const [name, version] of [
    ['torch', '2.4.1+cu124'],
    ['numpy', '2.1.0'],
    ['requests', '2.32.0'],
  ] as const) {
    const info = join(folder, `${name}-${version}.dist-info`);
    await mkdir(info);
    await writeFile(join(info, 'METADATA'), `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`);
    await writeFile(join(folder, `${name}.py`), 'raise SystemExit("imported")');
  }
  const { version, packages } = await readHostPython({ PATH, PYTHONPATH: folder });
  t.regex(version, /^3\.\d+\.\d+/);
  t.like(packages, { torch: '2.4.1+cu124', numpy: '2.1.0' });
  t.false('requests' in packages);
});

test('a host without Python has none', async (t) => {
  t.deepEqual(await readHostPython({ PATH: '/nonexistent' }), { version: '', packages: {} });
});

test('packages are found in an archive on the path, too', async (t) => {
  const archive = join(await folderOf(t), 'packages.zip');
  const write = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("triton-3.0.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: triton\\nVersion: 3.0.0\\n")`;
  await promisify(execFile)('python3', ['-c', write, archive], { env: { PATH } });
  t.like((await readHostPython({ PATH, PYTHONPATH: archive })).packages, { triton: '3.0.0' });
});

test('systeminformation supplies the facts of a Linux host: system, processors, memory, disks and network', async (t) => {
  const { os, cpuModel, memoryBytes, hardware } = await readIdentityOfHost(() => new HardwareReader().read());
  const [system, cpu, memory, devices, interfaces] = await Promise.all([
    information.osInfo(),
    information.cpu(),
    information.mem(),
    information.blockDevices(),
    information.networkInterfaces(),
  ]);
  t.is(os, `${system.distro} ${system.release} ${system.kernel}`.replaceAll(/ +/g, ' ').trim());
  t.is(cpuModel, [cpu.manufacturer, cpu.brand].filter((word) => word !== '').join(' '));
  t.is(memoryBytes, BigInt(memory.total));
  t.like(hardware, { cpuCores: cpu.physicalCores, cpuSockets: cpu.processors, swapBytes: BigInt(memory.swaptotal) });
  t.deepEqual(
    hardware?.disks.map(({ name, sizeBytes }) => [name, Number(sizeBytes)]),
    devices.filter(({ type, size }) => type === 'disk' && size > 0).map(({ name, size }) => [name, size]),
  );
  const shown = [interfaces].flat().filter(({ internal, iface }) => !internal && !iface.startsWith('veth'));
  t.deepEqual(hardware?.networkInterfaces.map(({ name }) => name).sort(), shown.map(({ iface }) => iface).sort());
});

test('numbers that no message takes do not come from the host: fractions, none at all, and larger ones', async (t) => {
  const [system, osInfo, cpu, memory, [device], interfaces] = await Promise.all([
    information.system(),
    information.osInfo(),
    information.cpu(),
    information.mem(),
    information.blockDevices(),
    information.networkInterfaces(),
  ]);
  const [some] = [interfaces].flat();
  const named = { ...(some as Systeminformation.NetworkInterfacesData), internal: false };
  const disk = { ...(device as Systeminformation.BlockDevicesData), type: 'disk' };
  const { memoryBytes, hardware } = readingOf({
    system,
    osInfo,
    cpu: { ...cpu, physicalCores: NaN, processors: undefined as unknown as number },
    memory: { ...memory, total: NaN, swaptotal: Infinity },
    devices: [{ ...disk, size: 2.5 }],
    interfaces: [
      { ...named, iface: 'wlan0', speed: 866.7, mtu: 1_500 },
      { ...named, iface: 'gone0', speed: NaN, mtu: NaN, ip4: undefined as unknown as string, ip6: '' },
      { ...named, iface: 'fast0', speed: 1e10, mtu: -1 },
    ],
  });
  t.is(memoryBytes, 0n);
  t.like(hardware, { cpuCores: 0, cpuSockets: 0, swapBytes: 0n });
  t.deepEqual(
    hardware.disks.map(({ sizeBytes }) => sizeBytes),
    [2n],
  );
  t.deepEqual(
    hardware.networkInterfaces.map(({ name, speedMbps, mtu }) => [name, speedMbps, mtu]),
    [
      ['wlan0', 867, 1_500],
      ['gone0', 0, 0],
      ['fast0', 4_294_967_295, 0],
    ],
  );
  t.deepEqual(hardware.networkInterfaces[1]?.addresses, []);
  t.deepEqual(HostHardware.decode(HostHardware.encode(hardware).finish()), hardware);
});

test('a fact that the host does not say keeps the value that Node has', async (t) => {
  const quick = { ...quickIdentity(), os: 'Some Linux', cpuModel: 'Some CPU' };
  const reading = await new HardwareReader().read();
  const read = (): Promise<HardwareReading> => Promise.resolve({ ...reading, os: '', cpuModel: '', memoryBytes: 0n });
  t.like(await readIdentityOfHost(read, quick), { os: 'Some Linux', cpuModel: 'Some CPU', memoryBytes: quick.memoryBytes });
});

test('a reading that takes too long ends with the program that it waits for, and there is one at a time', async (t) => {
  const folder = await folderOf(t);
  const hanging = join(folder, 'hanging.mjs');
  await writeFile(
    hanging,
    `import { execSync } from 'node:child_process'; execSync('echo $$ >${join(folder, 'pid')}; exec sleep 300; :', { stdio: 'ignore' });`,
  );
  const reader = new HardwareReader({ program: hanging, limitMs: 3_600_000 });
  const reading = t.throwsAsync(reader.read(), { message: 'the agent is stopping' });
  await t.throwsAsync(reader.read(), { message: 'the last reading of systeminformation has not ended yet' });
  const pid = await until('the program runs', async () => Number(await readFile(join(folder, 'pid'), 'utf8').catch(() => '')));
  reader.close();
  await reading;
  await until('the program is gone', () => (readStat(pid)?.state ?? 'Z') === 'Z');
  const soon = new HardwareReader({ program: hanging, limitMs: 0 });
  await t.throwsAsync(soon.read(), { message: 'systeminformation did not respond within 0 ms' });
  await until('it may be read again', async () => {
    const why = await soon.read().then(() => '', messageOf);
    return why.includes('did not respond');
  });
});

test('a reading whose process ends without a result says how it ended', async (t) => {
  const failing = join(await folderOf(t), 'failing.mjs');
  await writeFile(failing, 'process.exit(3);');
  const reader = new HardwareReader({ program: failing });
  await t.throwsAsync(reader.read(), { message: 'systeminformation failed: its process exited with code 3' });
});

test('hardware that cannot be read does not hold up the devices, and is told when it has been', async (t) => {
  const folder = await folderOf(t);
  const real = await new HardwareReader().read();
  const reading = Promise.withResolvers<HardwareReading>();
  const told: Inventory[] = [];
  let probes = 0;
  const probe = async (): Promise<ProbeResult> => {
    probes += 1;
    return probes < 3 ? { kind: 'none' } : { kind: 'failed', problem: 'no driver' };
  };
  const keeper = new InventoryKeeper({
    probe: { full: probe, light: probe, close: () => undefined },
    kernelLog: { read: async () => [], close: async () => undefined } as unknown as KernelLog,
    hardware: { read: () => reading.promise, close: () => undefined },
    runtimes: [],
    isolation: { processes: 'none', networks: [], defaultNetworks: { usual: 'host', closed: 'host' }, missing: [] },
    builds: () => [],
    folder,
    python: { hasChanged: async () => false, read: async () => readHostPython({ PATH }) },
    lightMs: 5,
    fullMs: 3_600_000,
    log: pino({ level: 'silent' }),
    onChange: (inventory) => told.push(inventory),
  });
  const started = keeper.start();
  await until('the devices are reported', () => told.some(({ deviceProblem }) => deviceProblem === 'no driver'));
  t.is(told.at(-1)?.hardware, undefined);
  reading.resolve(real);
  await started;
  t.deepEqual(told.at(-1)?.hardware, real.hardware);
  await keeper.close();
});

test('the load is that between two looks', async (t) => {
  const looks = [
    { busy: 100, idle: 900 },
    { busy: 150, idle: 1_050 },
    { busy: 150, idle: 1_050 },
    { busy: 160, idle: 1_050 },
  ];
  const load = new CpuLoad(() => looks.shift() ?? { busy: 0, idle: 0 });
  t.deepEqual([load.percent(), load.percent(), load.percent()], [25, 0, 100]);
  const { memoryAvailableBytes, diskBytes, diskAvailableBytes, cpuPercent } = await readGauges(await folderOf(t), new CpuLoad());
  t.true(memoryAvailableBytes > 0n && diskBytes > diskAvailableBytes && diskAvailableBytes > 0n);
  t.true(cpuPercent >= 0 && cpuPercent <= 100);
});

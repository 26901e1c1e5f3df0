/** What a host says of itself: system, processors, and which packages of the base images its Python has, without importing one. */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { release } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { CpuLoad, quickIdentity, readGauges, readIdentityOfHost } from '../../agent/inventory/host-facts.ts';
import { readHostPython } from '../../agent/inventory/host-python.ts';
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

test('a system is named by its os-release; what the host does not say is asked for', async (t) => {
  const folder = await folderOf(t);
  const file = join(folder, 'os-release');
  await writeFile(file, 'PRETTY_NAME="x"\nNAME="Some Linux"\nVERSION_ID=12\n');
  const quick = { ...quickIdentity(), cpuModel: 'Some CPU' };
  t.like(await readIdentityOfHost(quick, file), { os: `Some Linux 12 ${release()}`, cpuModel: 'Some CPU' });
  const asked = await readIdentityOfHost({ ...quick, cpuModel: 'unknown' }, join(folder, 'none'));
  t.true(asked.os.includes(release()), asked.os);
  t.not(asked.cpuModel, 'Some CPU');
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

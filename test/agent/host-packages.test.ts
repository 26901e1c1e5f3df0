/** Which packages of the base images a host's Python has, without importing one. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { readHostPackages } from '../../agent/inventory/host-packages.ts';
import { temporaryFolder } from './fixtures.ts';

const PATH = '/usr/local/bin:/usr/bin:/bin';

test('versions are read from what the installer wrote; nothing is imported', async (t) => {
  const folder = await temporaryFolder(t);
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
  const found = await readHostPackages({ PATH, PYTHONPATH: folder });
  t.like(found, { torch: '2.4.1+cu124', numpy: '2.1.0' });
  t.false('requests' in found);
});

test('a host without Python has none', async (t) => {
  t.deepEqual(await readHostPackages({ PATH: '/nonexistent' }), {});
});

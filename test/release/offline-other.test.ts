/** The offline bundle for the architecture that this machine does not have: made here, and not installed here. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { verifyInstallation } from '../../lib/installation.ts';
import { folderOf } from '../support/folder.ts';

const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
const other = process.arch === 'arm64' ? 'x64' : 'arm64';
/** e_machine of its programs (elf(5)). */
const MACHINE = { x64: 62, arm64: 183 }[other];
const MACHINE_AT = 18;
/** Of an offline bundle, bytes. */
const MAX_BYTES = 50_000_000;

test(`the bundle for ${other} is small and signed, has programs of that architecture alone, and says that this machine is another one`, async (t) => {
  t.timeout(400_000);
  const release = await folderOf(t);
  const args = [join(root, 'release/main.ts'), release, '--offline', other, '--key', join(release, 'secret')];
  await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', ...args]);
  const bundle = join(release, `capstan-offline-linux-${other}.tar.xz`);
  t.true((await stat(bundle)).size <= MAX_BYTES);

  const place = await folderOf(t);
  execFileSync('tar', ['-xJf', bundle, '-C', place]);
  const folder = join(place, `capstan-offline-${version}-linux-${other}`);
  const trusted = await readFile(join(release, 'capstan-release.pub'), 'utf8');
  t.deepEqual((await verifyInstallation(folder, trusted)).problems, []);
  const programs = (await readdir(folder, { recursive: true })).filter((file) =>
    /(?<!Containerfile)\.node$|\/node-linux-\w+\/bin\/node$/.test(file),
  );
  t.true(programs.length > 2, programs.join());
  for (const file of programs) t.is((await readFile(join(folder, file))).readUInt16LE(MACHINE_AT), MACHINE, file);
  const install = [join(folder, 'install.sh'), '--prefix', join(place, 'prefix'), '--bin', join(place, 'bin')];
  const { status, stderr } = spawnSync('/bin/sh', install, { encoding: 'utf8' });
  t.is(status, 1);
  t.regex(stderr, new RegExp(`this bundle is for ${other}, and this machine is `));
});

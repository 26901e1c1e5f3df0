/** The offline bundle on a bare machine: a base Debian without Node.js, Python and a network. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { copyFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { readPublicKey, verifySignature } from '../../lib/minisign.ts';
import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';
import { makeBaseSystem, whyNoBaseSystem } from './base-system.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
const architecture = process.arch === 'arm64' ? 'arm64' : 'x64';
const bundle = `capstan-offline-linux-${architecture}.tar.xz`;
const hasMinisign = spawnSync('minisign', ['-v']).status === 0;
/** Of an offline bundle, bytes. */
const MAX_BYTES = 50_000_000;

let release = '';

test.before('make the release', async (t) => {
  t.timeout(280_000);
  release = await ownFolder('capstan-offline');
  const args = [join(root, 'release/main.ts'), release, '--offline', architecture, '--key', join(release, 'secret')];
  await run(process.execPath, ['--disable-warning=ExperimentalWarning', ...args]);
});

test.after.always(() => rm(release, { recursive: true, force: true }));

test.serial('the bundle is small, signed, and says where it comes from', async (t) => {
  t.true((await stat(join(release, bundle))).size <= MAX_BYTES);
  t.is((await stat(join(release, 'secret'))).mode & 0o777, 0o600);
  const key = readPublicKey(await readFile(join(release, 'capstan-release.pub'), 'utf8'));
  for (const name of [bundle, `capstan-${version}.provenance.json`]) {
    const text = await readFile(join(release, `${name}.minisig`), 'utf8');
    t.is(verifySignature(await readFile(join(release, name)), text, key), `${name} ${version}`);
  }
  const provenance = JSON.parse(await readFile(join(release, `capstan-${version}.provenance.json`), 'utf8')) as {
    subject: { name: string; digest: { sha256: string } }[];
    predicate: { buildDefinition: { resolvedDependencies: { digest: { gitCommit: string } }[] } };
  };
  const sums = await readFile(join(release, 'SHA256SUMS'), 'utf8');
  t.deepEqual(
    provenance.subject.map(({ name, digest }) => `${digest.sha256}  ${name}`),
    sums.split('\n').filter((line) => line.endsWith(bundle)),
  );
  const { stdout: commit } = await run('git', ['rev-parse', 'HEAD'], { cwd: root });
  t.is(provenance.predicate.buildDefinition.resolvedDependencies[0]?.digest.gitCommit, commit.trim());
});

(hasMinisign ? test.serial : test.serial.skip)(
  `minisign itself verifies the signature${hasMinisign ? '' : ' (skipped: minisign is not installed)'}`,
  (t) => {
    const args = ['-V', '-p', join(release, 'capstan-release.pub'), '-m', join(release, bundle)];
    t.notThrows(() => execFileSync('minisign', args, { stdio: 'pipe' }));
  },
);

(whyNoBaseSystem === '' ? test.serial : test.serial.skip)(
  `a bare machine installs it, starts the service and runs a job without a network${whyNoBaseSystem}`,
  async (t) => {
    t.timeout(200_000);
    const place = await folderOf(t);
    await makeBaseSystem(place);
    await mkdir(join(place, 'media'));
    execFileSync('tar', ['-xJf', join(release, bundle), '-C', join(place, 'media')]);
    await copyFile(join(import.meta.dirname, 'offline-hour.sh'), join(place, 'offline-hour.sh'));
    const enter = [
      'ip link set lo up',
      `mount -t proc proc "$1/proc"`,
      `mount --rbind /dev "$1/dev"`,
      `exec chroot "$1" /bin/sh /offline-hour.sh "/media/capstan-offline-${version}-linux-${architecture}"`,
    ].join(' && ');
    const namespaces = ['--mount', '--net', '--pid', '--fork', '--kill-child=SIGTERM'];
    const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' };
    const { stdout, stderr } = await run('unshare', [...namespaces, 'sh', '-c', enter, 'sh', place], { env }).catch((error: unknown) => {
      const { stdout: out = '', stderr: err = '' } = error as { stdout?: string; stderr?: string };
      throw new Error(`${out}\n${err}`, { cause: error });
    });
    // From `capstan up` to its last line; how long that may take is for a machine that does nothing else (docs/benchmarks.md).
    const [said = ''] = /^up after \d+ ms$/m.exec(stdout) ?? [];
    t.log(said);
    t.not(said, '');
    t.regex(stdout, new RegExp(`^verified ${version}$`, 'm'), stderr);
    t.regex(stdout, /^job "Hello, Ada!"$/m);
    t.regex(stdout, /node_modules\/capstan\/README\.md differs/);
    t.regex(stdout, /^changed 78$/m);
    t.regex(stdout, /^ended$/m);
  },
);

test('a signature of another key, of other bytes or with another comment is refused', async (t) => {
  const { makeSecretKey, readSecretKey, signature } = await import('../../lib/minisign.ts');
  const [own, other] = [readSecretKey(makeSecretKey()), readSecretKey(makeSecretKey())];
  const bytes = Buffer.from('a file');
  const text = signature(bytes, own, 'a comment');
  t.is(verifySignature(bytes, text, readPublicKey(own.publicText)), 'a comment');
  t.throws(() => verifySignature(bytes, text, other), { message: `the signature is of the key ${own.id}, not of ${other.id}` });
  t.throws(() => verifySignature(Buffer.from('b file'), text, own), { message: 'the signature does not fit the file' });
  t.throws(() => verifySignature(bytes, text.replace('a comment', 'no comment'), own), { message: 'the trusted comment was changed' });
  t.throws(() => verifySignature(bytes, 'nothing', own), { message: 'the signature is not in the format of minisign' });
  const folder = await folderOf(t);
  await writeFile(join(folder, 'key'), 'nothing');
  t.throws(() => readPublicKey('nothing'), { message: 'the text is not a minisign public key' });
});

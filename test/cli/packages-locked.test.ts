/** npm projects as they are locked: by npm's own files, and by pnpm, yarn and bun through their own programs. */
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { installNode } from '../../compiler/build/node-packages.ts';
import { CapstanError } from '../../lib/errors.ts';
import { folderOf } from '../support/folder.ts';
import { missingRegistry } from '../support/registries.ts';

const activity = { begin() {}, at() {}, detail() {}, end() {} };
const reason = missingRegistry.npm;

/** The installed packages: path below node_modules → version. */
async function installed(t: ExecutionContext, folder: string, declared: readonly string[] = []): Promise<Record<string, string>> {
  const kept = await installNode({ folder, declared, exclude: [], cacheDir: await folderOf(t), refresh: false, activity });
  if (kept === null) return {};
  const target = await folderOf(t);
  const unpacked = spawnSync('tar', ['-xf', kept.layer.member, '-C', target]);
  t.is(unpacked.status, 0, String(unpacked.stderr));
  const { stdout } = spawnSync('find', ['.', '-name', 'package.json', '-path', '*node_modules*'], { cwd: target, encoding: 'utf8' });
  const found: Record<string, string> = {};
  for (const path of stdout.trim().split('\n')) {
    const { name, version } = JSON.parse(await readFile(join(target, path), 'utf8')) as { name?: string; version?: string };
    if (name !== undefined && version !== undefined) found[name] = version;
  }
  return found;
}

function npm(folder: string, ...args: string[]): void {
  const { status, stderr } = spawnSync('npm', [...args, '--no-audit', '--no-fund'], { cwd: folder, encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

function check(title: string, run: (t: ExecutionContext) => Promise<void>): void {
  if (reason === null) test.serial(title, run);
  else test.skip(`${title} (${reason})`, run);
}

const MANIFEST = { name: 'shop', version: '1.0.0', dependencies: { 'is-odd': '3.0.1', '@capstan/sdk': '^1.0.0' } };

check('package-lock.json: each version is that of the lock, also of what packages require, and overrides hold', async (t) => {
  const overridden = { ...MANIFEST, dependencies: { 'is-odd': '^3.0.0' }, overrides: { 'is-number': '6.0.0' } };
  const folder = await folderOf(t, { 'package.json': JSON.stringify({ ...overridden, devDependencies: { 'left-pad': '1.3.0' } }) });
  t.deepEqual(await installed(t, folder), { 'is-odd': '3.0.1', 'is-number': '6.0.0' }, 'without a lock');
  const older = { ...overridden, dependencies: { 'is-odd': '3.0.0' } };
  const locked = await folderOf(t, { 'package.json': JSON.stringify(older) });
  npm(locked, 'install', '--package-lock-only');
  const ranged = { ...overridden, dependencies: { 'is-odd': '^3.0.0' } };
  const lock = (await readFile(join(locked, 'package-lock.json'), 'utf8')).replaceAll('"is-odd": "3.0.0"', '"is-odd": "^3.0.0"');
  const project = await folderOf(t, { 'package.json': JSON.stringify(ranged), 'package-lock.json': lock });
  t.deepEqual(await installed(t, project), { 'is-odd': '3.0.0', 'is-number': '6.0.0' });
  const more = await installed(t, project, ['is-even@1.0.0']);
  t.like(more, { 'is-odd': '3.0.0', 'is-number': '6.0.0', 'is-even': '1.0.0' }, 'packages of a declaration come on top');
});

check('a lock that does not fit package.json is refused, and the SDK in it is no difference', async (t) => {
  const manifest = { name: 'shop', version: '1.0.0', dependencies: { 'is-number': '^7.0.0' } };
  const folder = await folderOf(t, { 'package.json': JSON.stringify(manifest) });
  npm(folder, 'install', '--package-lock-only');
  const lock = JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8')) as { packages: Record<string, object> };
  const root = { ...lock.packages[''], dependencies: { ...manifest.dependencies, '@capstan/sdk': 'file:../capstan-sdk.tgz' } };
  const sdk = { version: '1.0.0', resolved: 'file:../capstan-sdk.tgz', integrity: 'sha512-AA==' };
  const withSdk = await folderOf(t, {
    'package.json': JSON.stringify({ ...manifest, dependencies: root.dependencies }),
    'package-lock.json': JSON.stringify({ ...lock, packages: { ...lock.packages, '': root, 'node_modules/@capstan/sdk': sdk } }),
  });
  t.deepEqual(await installed(t, withSdk), { 'is-number': '7.0.0' });
  const unequal = await folderOf(t, {
    'package.json': JSON.stringify({ ...manifest, dependencies: { 'is-number': '^6.0.0' } }),
    'package-lock.json': JSON.stringify(lock),
  });
  const error = await t.throwsAsync(installed(t, unequal));
  t.true(error instanceof CapstanError && error.code === 'INVALID_MANIFEST');
  t.regex(error?.message ?? '', /in sync/);
});

check('.npmrc of the project holds', async (t) => {
  const folder = await folderOf(t, {
    'package.json': JSON.stringify({ name: 'shop', dependencies: { 'is-number': '7.0.0' } }),
    '.npmrc': 'registry=http://127.0.0.1:9/\nfetch-retries=0\n',
  });
  const error = await t.throwsAsync(installed(t, folder));
  t.regex(error?.message ?? '', /127\.0\.0\.1:9|ECONNREFUSED/);
});

test('bun’s lock without bun, and a lock of another program, are refused or used, never ignored', async (t) => {
  const isThere = spawnSync('bun', ['--version']).status === 0;
  if (isThere) {
    t.pass('bun is here');
    return;
  }
  const folder = await folderOf(t, { 'package.json': JSON.stringify(MANIFEST), 'bun.lock': '' });
  const error = await t.throwsAsync(installed(t, folder));
  t.true(error instanceof CapstanError && error.code === 'CONFIG');
  t.is(error?.message, 'bun.lock locks the versions for bun, which was not found');
});

// A mirror of the registry may have neither signatures nor the newer yarn's own site: corepack takes all of them from npm's.
process.env['COREPACK_INTEGRITY_KEYS'] = '0';
process.env['COREPACK_NPM_REGISTRY'] = spawnSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).stdout.trim();

/** Programs of corepack, in versions that Node 20 runs. */
const MANAGERS = { pnpm: 'pnpm@9.15.9', yarn: 'yarn@1.22.22', 'yarn, the newer': 'yarn@4.5.0' } as const;

for (const [title, packageManager] of Object.entries(MANAGERS)) {
  const [program = ''] = packageManager.split('@');
  check(`${title}: its lock decides`, async (t) => {
    const manifest = {
      name: 'shop',
      version: '1.0.0',
      packageManager,
      dependencies: { 'is-odd': '3.0.0' },
      devDependencies: { 'left-pad': '1.3.0' },
    };
    const folder = await folderOf(t, { 'package.json': JSON.stringify(manifest), '.yarnrc.yml': 'nodeLinker: node-modules\n' });
    const env = { ...process.env, COREPACK_ENABLE_DOWNLOAD_PROMPT: '0' };
    const made = spawnSync('corepack', [program, 'install'], { cwd: folder, encoding: 'utf8', env });
    if (made.status !== 0) {
      t.log(`corepack cannot run ${packageManager} here: ${made.stderr.split('\n')[0] ?? ''}`);
      t.pass();
      return;
    }
    // What the lock says, and package.json would leave open.
    const found = await installed(t, folder);
    t.deepEqual(found, { 'is-odd': '3.0.0', 'is-number': '6.0.0' });
    const ofSdk = { ...manifest, dependencies: { ...manifest.dependencies, '@capstan/sdk': 'file:../none.tgz' } };
    const other = await folderOf(t, { 'package.json': JSON.stringify(ofSdk), '.yarnrc.yml': 'nodeLinker: node-modules\n' });
    for (const name of ['pnpm-lock.yaml', 'yarn.lock']) {
      const text = await readFile(join(folder, name), 'utf8').catch(() => null); // of the other program
      if (text !== null) spawnSync('cp', [join(folder, name), join(other, name)]);
    }
    t.deepEqual(await installed(t, other), { 'is-odd': '3.0.0', 'is-number': '6.0.0' }, 'the SDK comes from the build');
  });
}

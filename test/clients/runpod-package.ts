/** The Python package `runpod` for tests, installed once into the cache of this checkout. */
import { execFile } from 'node:child_process';
import { access, chmod, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { acquireLock } from '../../lib/lock.mjs';
import { until } from '../support/until.ts';

const PACKAGE = 'runpod==1.12.0';
/**
 * What its client and its worker load, with the bounds it asks for. It names 90 packages in all, for a web server, a command line
 * and uploads of files: seven times the processor time of these, in every fresh checkout.
 */
const LOADED = [
  'aiohttp>=3.14.3',
  'aiohttp-retry>=2.9.1',
  'backoff>=2.2.1',
  'colorama>=0.4.6,<0.4.7',
  'cryptography>=50.0.0',
  'paramiko>=5.0.0',
  'py-cpuinfo>=9.0.0',
  'requests>=2.34.2',
  'tomli>=2.4.1',
  'tomlkit>=0.15.1',
  'tqdm-loggable>=0.4.1',
  'urllib3>=2.7.0',
];
/** The first run on a machine downloads all of it. */
const INSTALL_MS = 100_000;
/** Python compiles what it imports, and keeps it: most of these modules nobody imports. */
const INSTALL = [
  '-m',
  'pip',
  'install',
  '--no-compile',
  '--quiet',
  '--disable-pip-version-check',
  '--no-input',
  '--no-warn-script-location',
];

const run = promisify(execFile);
const cache = join(import.meta.dirname, '../../node_modules/.cache/python');

/** Where it is, for PYTHONPATH; or why it cannot be had on this machine. */
export async function runpodPackage(): Promise<{ readonly path: string } | { readonly missing: string }> {
  let version: string;
  try {
    const { stdout } = await run('python3', ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])']);
    version = stdout.trim();
  } catch (error) {
    return { missing: `there is no Python: ${firstLine(error)}` };
  }
  const path = join(cache, `${PACKAGE.replaceAll(/[^\w.]+/g, '-')}-py${version}`);
  await mkdir(cache, { recursive: true });
  try {
    const installed = await once(path, () => install(path));
    // Workers with user ids of their own read it.
    await chmod(path, 0o755);
    return installed;
  } catch (error) {
    return { missing: `pip cannot install ${PACKAGE}: ${firstLine(error)}` };
  }
}

/** Several test files want it at the same time: one of them makes it, the others wait. */
async function once(path: string, make: () => Promise<void>): Promise<{ readonly path: string }> {
  const lock = await until(
    `${path} is there, or nobody else makes it`,
    async () => {
      if (await exists(path)) return 'made';
      const taken = acquireLock(`${path}.lock`);
      return 'release' in taken ? taken : null;
    },
    INSTALL_MS,
  );
  if (lock === 'made') return { path };
  try {
    if (!(await exists(path))) await make();
    return { path };
  } finally {
    lock.release();
  }
}

async function install(path: string): Promise<void> {
  const fresh = await mkdtemp(join(cache, 'new-'));
  try {
    const options = { timeout: INSTALL_MS };
    await run('python3', [...INSTALL, '--target', fresh, '--no-deps', PACKAGE], options);
    await run('python3', [...INSTALL, '--target', fresh, ...LOADED], options);
    await rename(fresh, path);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function firstLine(error: unknown): string {
  const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
  const killed = error instanceof Error && 'killed' in error && error.killed === true ? 'it took too long; ' : '';
  return killed + ((said || String(error)).trim().split('\n').at(-1) ?? '');
}

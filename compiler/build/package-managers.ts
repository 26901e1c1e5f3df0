/**
 * Packages of a project whose lock file is that of pnpm, yarn or bun: installed by that program, so that the locked versions
 * hold. The program is the one on PATH, else corepack runs the one that `packageManager` of package.json names.
 */
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { faultOf, runInstaller } from '../programs/run-installer.ts';

export type ManagerName = 'pnpm' | 'yarn' | 'bun';

const LOCKS: Readonly<Record<string, ManagerName>> = {
  'pnpm-lock.yaml': 'pnpm',
  'yarn.lock': 'yarn',
  'bun.lock': 'bun',
  'bun.lockb': 'bun',
};
/** Settings of these programs, and what they patch packages with. */
const FILES = ['.npmrc', '.yarnrc', '.yarnrc.yml', 'bunfig.toml', 'pnpm-workspace.yaml', '.pnpmfile.cjs'];
const FOLDERS = ['patches', '.yarn/patches', '.yarn/releases', '.yarn/plugins'];

export interface ForeignLock {
  readonly name: string;
  readonly manager: ManagerName;
  /** Of the lock and of all settings beside it. */
  readonly digest: string;
}

/** Undefined without such a lock, or where npm has its own. */
export async function findForeignLock(folder: string): Promise<ForeignLock | undefined> {
  const present = new Set(await readdir(folder));
  if (present.has('package-lock.json') || present.has('npm-shrinkwrap.json')) return undefined;
  const [name, manager] = Object.entries(LOCKS).find(([each]) => present.has(each)) ?? [];
  if (name === undefined || manager === undefined) return undefined;
  const hash = createHash('sha256');
  for (const file of [name, ...FILES]) hash.update(`${file}\0`).update(await readFile(join(folder, file)).catch(() => '')); // optional
  for (const each of FOLDERS) hash.update(JSON.stringify(await contents(join(folder, each))));
  return { name, manager, digest: hash.digest('hex') };
}

async function contents(folder: string): Promise<readonly string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []); // optional
  return Promise.all(
    found
      .filter((each) => each.isFile())
      .map(async (each) => {
        const path = join(each.parentPath, each.name);
        return `${path.slice(folder.length)} ${createHash('sha256')
          .update(await readFile(path))
          .digest('hex')}`;
      }),
  );
}

export interface ForeignInstallation {
  readonly project: string;
  /** An empty folder, which gets `node_modules`. */
  readonly folder: string;
  readonly lock: ForeignLock;
  readonly manifest: object;
  /** The manifest is the one that was locked. */
  readonly isExact: boolean;
  readonly isForHere: boolean;
  /** With the packages of the project's development. */
  readonly isBuild?: boolean;
}

/** @throws CapstanError CONFIG without the program, INVALID_MANIFEST with its message. */
export async function installByManager({
  project,
  folder,
  lock,
  manifest,
  isExact,
  isForHere,
  isBuild = false,
}: ForeignInstallation): Promise<void> {
  const { name, manager } = lock;
  for (const file of [name, ...FILES]) await copyIfThere(join(project, file), join(folder, file));
  for (const each of FOLDERS) await copyIfThere(join(project, each), join(folder, each));
  const isHost = process.platform === 'linux' && process.arch === 'x64';
  if (!isHost && !isForHere && manager === 'yarn')
    throw new ToolError(
      'INVALID_MANIFEST',
      `${name}: yarn installs packages for this machine only, and hosts are Linux x86_64`,
      'Build on Linux x86_64, or lock the versions with npm: npm install --package-lock-only',
    );
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
  const program = await programOf(manager, name, folder);
  const run = async (...args: string[]): Promise<void> => {
    const ended = await runInstaller(program.path, [...program.args, ...args], { cwd: folder, variables: VARIABLES });
    if (!ended.ok)
      throw new ToolError(
        'INVALID_MANIFEST',
        `installing npm packages by ${manager} (${name}) failed:\n  ${faultOf(ended) || ended.stdout.trim().split('\n').slice(-4).join('\n  ')}`,
        `Run ${manager} install in the project; its own settings (registry, proxy) apply.`,
      );
  };
  const platform = isHost || isForHere ? [] : ['--cpu=x64', '--os=linux'];
  switch (manager) {
    case 'pnpm':
      await run(
        ...['install', ...(isBuild ? [] : ['--prod']), isExact ? '--frozen-lockfile' : '--no-frozen-lockfile', '--ignore-scripts'],
        ...['--config.node-linker=hoisted', '--config.package-import-method=copy', '--config.confirm-modules-purge=false'],
        ...(platform.length === 0 ? [] : [...platform, '--libc=glibc']),
      );
      break;
    case 'yarn':
      if (await isBerry(join(project, name))) await installByBerry(folder, { isExact, isBuild }, run);
      else
        await run(
          'install',
          ...(isBuild ? [] : ['--production']),
          '--ignore-scripts',
          '--non-interactive',
          ...(isExact ? ['--frozen-lockfile'] : []),
        );
      break;
    case 'bun':
      await run(
        'install',
        ...(isBuild ? [] : ['--production']),
        '--ignore-scripts',
        '--backend=copyfile',
        ...(isExact ? ['--frozen-lockfile'] : []),
        ...platform,
      );
      break;
  }
  // Where packages came from on this machine, and what only the program reads.
  for (const trace of ['.pnpm', '.modules.yaml', '.yarn-integrity', '.yarn-state.yml', '.package-lock.json', '.cache'])
    await rm(join(folder, 'node_modules', trace), { recursive: true, force: true });
  await mkdir(join(folder, 'node_modules'), { recursive: true });
}

/** Yarn 2 and newer. It verifies the whole lock first, and then takes what runs. */
async function installByBerry(
  folder: string,
  { isExact, isBuild }: { readonly isExact: boolean; readonly isBuild: boolean },
  run: (...args: string[]) => Promise<void>,
): Promise<void> {
  await run('config', 'set', 'nodeLinker', 'node-modules');
  await run('config', 'set', 'enableScripts', 'false');
  await run('install', isExact ? '--immutable' : '--no-immutable', '--mode=skip-build');
  if (!isBuild) await run('workspaces', 'focus', '--production');
  await rm(join(folder, '.yarn/install-state.gz'), { force: true });
}

async function isBerry(lock: string): Promise<boolean> {
  return /^__metadata:/m.test(await readFile(lock, 'utf8'));
}

async function copyIfThere(source: string, target: string): Promise<void> {
  if ((await stat(source).catch(() => null)) === null) return; // optional
  await cp(source, target, { recursive: true });
}

/** Of these programs. */
const VARIABLES = {
  COREPACK_ENABLE_DOWNLOAD_PROMPT: '0',
  COREPACK_ENABLE_AUTO_PIN: '0',
  YARN_ENABLE_TELEMETRY: '0',
  CI: '1',
};

interface Program {
  readonly path: string;
  readonly args: readonly string[];
}

async function programOf(manager: ManagerName, lock: string, folder: string): Promise<Program> {
  if (await isThere(manager, folder)) return { path: manager, args: [] };
  if (manager !== 'bun' && (await isThere('corepack', folder))) return { path: 'corepack', args: [manager] };
  const enabled = manager === 'bun' ? 'install bun (https://bun.sh)' : `install ${manager}, or corepack (npm install --global corepack)`;
  throw new ToolError(
    'CONFIG',
    `${lock} locks the versions for ${manager}, which was not found`,
    `To keep them, ${enabled}; or lock them with npm: npm install --package-lock-only`,
  );
}

async function isThere(program: string, cwd: string): Promise<boolean> {
  try {
    return (await runInstaller(program, ['--version'], { cwd, variables: VARIABLES })).ok;
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'CONFIG') return false;
    throw error;
  }
}

/** Installs npm packages for Linux x86_64 on any machine: those of `package.json` and of the declarations. */
import { createHash } from 'node:crypto';
import { copyFile, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { z } from 'zod';

import { moveUnsynced } from '../../lib/durable.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { readText } from '../../terminal/text-file.ts';
import type { Activity } from '../../terminal/activity.ts';
import { cachedFolder } from './cached-folders.ts';
import { layerOf, type KeptLayer } from './layers.ts';
import { hasLinks, lockWithout, manifestWithout, readNodeManifest, readNpmLock, type NodeManifest } from './node-manifest.ts';
import { withMembers } from './npm-workspace.ts';
import { findForeignLock, installByManager, type ForeignLock } from './package-managers.ts';
import { digestOf, faultOf, runInstaller } from '../programs/run-installer.ts';

const SDK = '@capstan/sdk';
const notesSchema = z.null();

export interface NodeLayerSpec {
  readonly folder: string;
  /** As declared: `name@range`, or a path in the folder. */
  readonly declared: readonly string[];
  readonly exclude: readonly string[];
  readonly cacheDir: string;
  readonly refresh: boolean;
  readonly activity: Activity;
}

/**
 * Returns null when there is nothing to install. @throws CapstanError INVALID_MANIFEST with npm's message, CONFIG
 * without npm.
 */
export async function installNode(spec: NodeLayerSpec): Promise<KeptLayer<null> | null> {
  const { cacheDir, refresh, activity } = spec;
  const inputs = await inputsOf(spec);
  if (inputs === null) return null;
  return layerOf({
    cacheDir,
    refresh,
    key: { kind: 'node', ...keyOf(inputs) },
    notes: notesSchema,
    activity,
    install: async (target) => {
      activity.begin(inputs.foreign === undefined ? 'installing npm packages' : `installing npm packages with ${inputs.foreign.manager}`);
      await install(target, { ...inputs, isForHere: false, activity });
      return null;
    },
  });
}

interface NodeInputs {
  readonly folder: string;
  /** Without packages that are left out. */
  readonly manifest: NodeManifest;
  /** Names of these. */
  readonly leave: readonly string[];
  /** Without packages that are left out; members of a workspace and paths by their absolute paths. */
  readonly dependencies: Readonly<Record<string, string>>;
  /** Further packages, as npm takes them. */
  readonly declared: readonly string[];
  /** Lock of npm. */
  readonly lock: { readonly name: string; readonly text: string } | null;
  /** Lock of another program, which then installs. */
  readonly foreign: ForeignLock | undefined;
  /** The lock names all that is installed: `npm ci` on the project's own files. */
  readonly isExact: boolean;
  /** Digest of the project's `.npmrc`; null when there is none. */
  readonly settings: string | null;
  /** Digests of what is a path; null for the others. */
  readonly locals: readonly (string | null)[];
}

/** The manifest's own folder does not count: two projects with the same packages share them. */
function keyOf({ folder: _folder, ...inputs }: NodeInputs): object {
  return inputs;
}

const LOCKS = ['npm-shrinkwrap.json', 'package-lock.json'] as const;

const NO_MANIFEST: NodeManifest = {};

/** Returns what determines the packages of a project; null when it has none. */
async function inputsOf({
  folder,
  declared: given,
  exclude,
  isBuild = false,
}: Pick<NodeLayerSpec, 'folder' | 'declared' | 'exclude'> & { readonly isBuild?: boolean }): Promise<NodeInputs | null> {
  const leave = new Set([SDK, ...exclude]);
  const own = (await readNodeManifest(folder)) ?? NO_MANIFEST;
  const manifest = manifestWithout(own, leave);
  const listed = manifest.dependencies ?? {};
  const optional = manifest.optionalDependencies ?? {};
  const members = await withMembers(folder, listed);
  const dependencies = Object.fromEntries(Object.entries(members).map(([name, range]) => [name, absolute(folder, range)]));
  const declared = given.filter((each) => !leave.has(nameOf(each))).map((each) => absolute(folder, each));
  const development = isBuild ? (manifest.devDependencies ?? {}) : {};
  if ([listed, optional, development].every((each) => Object.keys(each).length === 0) && declared.length === 0) return null;
  const isPlain = Object.entries(dependencies).every(([name, range]) => listed[name] === range && !range.startsWith('file:'));
  const lock = await lockOf(folder);
  const found = isPlain && own.workspaces === undefined ? await findForeignLock(folder) : undefined;
  const settings = await readText(folder, '.npmrc');
  const files = [...Object.values(dependencies), ...declared].map((each) => each.replace(/^file:/, ''));
  const isLeft = [...leave].some((name) =>
    [own.dependencies, own.optionalDependencies, own.devDependencies].some((each) => each?.[name] !== undefined),
  );
  return {
    ...{ folder, manifest, leave: [...leave], dependencies, declared, lock, foreign: found },
    isExact:
      found === undefined
        ? isPlain && own.workspaces === undefined && lock !== null && !hasLinks(lockWithout(readNpmLock(lock.name, lock.text), leave))
        : !isLeft,
    settings: settings === null ? null : createHash('sha256').update(settings).digest('hex'),
    locals: await Promise.all(files.map(digestOf)),
  };
}

async function lockOf(folder: string): Promise<NodeInputs['lock']> {
  for (const name of LOCKS) {
    const text = await readText(folder, name);
    if (text !== null) return { name, text };
  }
  return null;
}

const FOREIGN_LOCKS = ['pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'bun.lockb'] as const;

/**
 * Returns a warning when a project with members of a workspace, or with paths, locks its versions for another program than
 * npm, which only that program can read; undefined otherwise.
 */
export async function unusedLockWarning(folder: string): Promise<string | undefined> {
  const names = new Set(await readdir(folder));
  const unused = FOREIGN_LOCKS.filter((name) => names.has(name));
  if (unused.length === 0 || names.has('package-lock.json')) return undefined;
  const inputs = await inputsOf({ folder, declared: [], exclude: [] });
  if (inputs === null || inputs.foreign !== undefined) return undefined;
  return `${unused.join(', ')} is not used, because dependencies are paths or members of a workspace: npm installs the newest versions that package.json allows; lock them with: npm install --package-lock-only`;
}

export interface NodeEnvironmentSpec {
  readonly folder: string;
  /** As for `installNode`. */
  readonly declared: readonly string[];
  readonly cacheDir: string;
  readonly activity: Activity;
}

/** Environments of Node are smaller than those of Python. */
const ENVIRONMENT_LIMITS = { folders: 8, bytes: 5_000_000_000 };

/**
 * Returns a folder with the project's npm packages for this machine; null when the project's own `node_modules` has all
 * of them, or there are none. @throws CapstanError as `installNode`.
 */
export async function nodeEnvironmentFor({ folder, declared, cacheDir, activity }: NodeEnvironmentSpec): Promise<string | null> {
  const inputs = await inputsOf({ folder, declared, exclude: [] });
  if (inputs === null) return null;
  const names = [...Object.keys(inputs.dependencies), ...inputs.declared.map(nameOf)];
  const present = await Promise.all(names.map(async (name) => stat(join(folder, 'node_modules', name)).then(Boolean, () => false)));
  if (!present.includes(false)) return null;
  const made = await cachedFolder({
    root: join(cacheDir, 'node-environments'),
    key: { ...keyOf(inputs), node: process.version, platform: process.platform, arch: process.arch },
    refresh: false,
    notes: notesSchema,
    limits: ENVIRONMENT_LIMITS,
    waiting: (process) => activity.begin(`waiting for process ${process}, which installs the same packages`),
    make: async (target) => {
      activity.begin('installing npm packages');
      await install(target, { ...inputs, isForHere: true, activity });
      return { bytes: await sizeOf(target), notes: null };
    },
  });
  return made.folder;
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += (await lstat(join(entry.parentPath, entry.name))).size;
  return bytes;
}

/** Installs all packages of a project into a copy of it, those of its development included; nothing without `package.json`. */
export async function installForBuild({
  project,
  folder,
  activity,
}: {
  readonly project: string;
  readonly folder: string;
  readonly activity: Activity;
}): Promise<void> {
  const own = await readNodeManifest(project);
  if (own === undefined) return;
  const inputs = await inputsOf({ folder: project, declared: [], exclude: [], isBuild: true });
  if (inputs === null) return;
  const { manifest, foreign, isExact } = inputs;
  const written = await readFile(join(folder, 'package.json'));
  if (foreign !== undefined) await installByManager({ project, folder, lock: foreign, manifest, isExact, isForHere: true, isBuild: true });
  else {
    const installation = { ...inputs, isForHere: true, isBuild: true, activity };
    await writeNpmFiles(folder, installation);
    await runNpm(folder, [isExact ? 'ci' : 'install'], installation);
  }
  // The build reads its own scripts.
  await writeFile(join(folder, 'package.json'), written);
}

interface NodeInstallation extends NodeInputs {
  /** For this machine instead of the hosts. */
  readonly isForHere: boolean;
  /** For the command that builds the project: with the packages of its development. */
  readonly isBuild?: boolean;
  readonly activity: Activity;
}

/** Installs `node_modules` into an empty folder. */
async function install(target: string, installation: NodeInstallation): Promise<void> {
  // Inside the target, so that leftovers of a killed build are deleted with its other leftovers.
  const folder = await mkdtemp(join(target, 'npm-'));
  const { folder: project, foreign, declared, isExact, isForHere, manifest, settings } = installation;
  try {
    if (foreign !== undefined) {
      await installByManager({ project, folder, lock: foreign, manifest, isExact, isForHere });
      if (declared.length > 0) await runNpm(folder, ['install', '--no-save', '--no-package-lock', '--no-prune', ...declared], installation);
    } else {
      if (settings !== null) await copyFile(join(project, '.npmrc'), join(folder, '.npmrc'));
      await writeNpmFiles(folder, installation);
      if (isExact) await runNpm(folder, ['ci'], installation);
      if (!isExact || declared.length > 0) await runNpm(folder, ['install', ...declared], installation);
    }
    // This file records where on this machine each package came from.
    await rm(join(folder, 'node_modules/.package-lock.json'), { force: true });
    await mkdir(join(folder, 'node_modules'), { recursive: true });
    await moveUnsynced(join(folder, 'node_modules'), join(target, 'node_modules'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The project's own files where its lock says all, else what npm can resolve anywhere: paths are absolute. */
async function writeNpmFiles(folder: string, { manifest, dependencies, lock, leave, isExact, isBuild }: NodeInstallation): Promise<void> {
  const { devDependencies, workspaces: _members, ...kept } = manifest;
  const overrides = { ...manifest.overrides, ...overridesOf(dependencies) };
  const development = isBuild === true ? { devDependencies } : {};
  const written = isExact ? manifest : { ...kept, ...development, name: 'application', private: true, dependencies, overrides };
  await writeFile(join(folder, 'package.json'), JSON.stringify(written));
  if (lock === null) return;
  const own = readNpmLock(lock.name, lock.text);
  await writeFile(join(folder, lock.name), isExact ? JSON.stringify(lockWithout(own, new Set(leave))) : lock.text);
}

async function runNpm(folder: string, args: readonly string[], { isForHere, isBuild, activity, lock }: NodeInstallation): Promise<void> {
  let fetched = 0;
  const platform = isForHere ? [] : ['--os=linux', '--cpu=x64', '--libc=glibc'];
  const quiet = [
    '--no-audit',
    '--no-fund',
    '--loglevel=http',
    isBuild === true ? '--include=dev' : '--omit=dev',
    '--ignore-scripts',
    '--install-links',
  ];
  const ended = await runInstaller('npm', [...args, ...quiet, ...platform], {
    cwd: folder,
    // Its name within the registry: <url>/<name>/-/<file>.tgz
    onLine: (line) => {
      const name = /^npm http fetch GET 200 \S+?\/((?:@[^/]+\/|@[^/]+%2f)?[^/]+)\/-\/\S+\.tgz /i.exec(line)?.[1];
      if (name === undefined) return;
      fetched += 1;
      activity.detail(`${fetched} downloaded, ${decodeURIComponent(name)}`);
    },
  });
  if (ended.ok) return;
  const isUnequal = /EUSAGE|in sync/.test(ended.stderr);
  throw new ToolError(
    'INVALID_MANIFEST',
    `installing npm packages failed:\n  ${faultOf(ended)}`,
    isUnequal && lock !== null
      ? `package.json and ${lock.name} differ; update the lock with: npm install --package-lock-only`
      : 'Correct the dependencies; npm’s own settings (registry, proxy) apply.',
  );
}

export async function dependenciesOf(folder: string): Promise<Readonly<Record<string, string>>> {
  const { dependencies, optionalDependencies } = (await readNodeManifest(folder)) ?? {};
  return { ...optionalDependencies, ...dependencies };
}

/** What a path replaces here, it replaces where other packages require it, too. */
function overridesOf(dependencies: Readonly<Record<string, string>>): Record<string, string> {
  const local = Object.entries(dependencies).filter(([, spec]) => spec.startsWith('file:'));
  return Object.fromEntries(local.map(([name]) => [name, `$${name}`]));
}

/** Makes relative paths absolute. */
function absolute(folder: string, spec: string): string {
  const path = /^file:(.+)$/.exec(spec)?.[1] ?? (/^\.{1,2}\//.test(spec) ? spec : undefined);
  return path === undefined ? spec : `file:${resolve(folder, path)}`;
}

/** `@scope/name@^1` → `@scope/name`. */
export function nameOf(spec: string): string {
  return /^(@?[^@]+)/.exec(spec)?.[1] ?? spec;
}

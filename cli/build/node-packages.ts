/** Installs npm packages for Linux x86_64 on any machine: those of `package.json` and of the declarations. */
import { lstat, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { z } from 'zod';

import { moveUnsynced } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { decodeUtf8, readText } from '../text-file.ts';
import type { Activity } from '../terminal/activity.ts';
import { cachedFolder } from './cached-folders.ts';
import { layerOf, type KeptLayer } from './layers.ts';
import { withMembers } from './npm-workspace.ts';
import { digestOf, faultOf, runInstaller } from './run-installer.ts';

const SDK = '@capstan/sdk';
const packageSchema = z.looseObject({ dependencies: z.record(z.string(), z.string()).optional() });
const notesSchema = z.null();

export interface NodeOrder {
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
export async function installNode(order: NodeOrder): Promise<KeptLayer<null> | null> {
  const { cacheDir, refresh, activity } = order;
  const inputs = await inputsOf(order);
  if (inputs === null) return null;
  const { dependencies, declared, lock, locals } = inputs;
  return layerOf({
    cacheDir,
    refresh,
    key: { kind: 'node', dependencies, declared, lock, locals },
    notes: notesSchema,
    activity,
    install: async (target) => {
      activity.begin('installing npm packages');
      await install(target, { dependencies, declared, lock, isForHere: false, activity });
      return null;
    },
  });
}

type NodeInputs = Omit<NodeInstallation, 'isForHere' | 'activity'> & {
  /** Digests of what is a path; null for the others. */
  readonly locals: readonly (string | null)[];
};

/** Returns what determines the packages of a project; null when it has none. */
async function inputsOf({
  folder,
  declared: given,
  exclude,
}: Pick<NodeOrder, 'folder' | 'declared' | 'exclude'>): Promise<NodeInputs | null> {
  const leave = new Set([SDK, ...exclude]);
  const listed = Object.entries(await dependenciesOf(folder)).filter(([name]) => !leave.has(name));
  const members = await withMembers(folder, Object.fromEntries(listed));
  const dependencies = Object.fromEntries(Object.entries(members).map(([name, range]) => [name, absolute(folder, range)]));
  const declared = given.filter((each) => !leave.has(nameOf(each))).map((each) => absolute(folder, each));
  if (listed.length === 0 && declared.length === 0) return null;
  const lock = await readText(folder, 'package-lock.json');
  const files = [...Object.values(dependencies), ...declared].map((each) => each.replace(/^file:/, ''));
  return { dependencies, declared, lock, locals: await Promise.all(files.map(digestOf)) };
}

const FOREIGN_LOCKS = ['pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'bun.lockb'] as const;

/** Returns a warning when the project locks its versions for another program than npm; undefined when it does not. */
export async function unusedLockWarning(folder: string): Promise<string | undefined> {
  const names = new Set(await readdir(folder));
  const unused = FOREIGN_LOCKS.filter((name) => names.has(name));
  if (unused.length === 0 || names.has('package-lock.json')) return undefined;
  return `${unused.join(', ')} is not used: npm installs the newest versions that package.json allows; lock them with: npm install --package-lock-only`;
}

export interface NodeEnvironmentOrder {
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
export async function nodeEnvironmentFor({ folder, declared, cacheDir, activity }: NodeEnvironmentOrder): Promise<string | null> {
  const inputs = await inputsOf({ folder, declared, exclude: [] });
  if (inputs === null) return null;
  const names = [...Object.keys(inputs.dependencies), ...inputs.declared.map(nameOf)];
  const present = await Promise.all(names.map(async (name) => stat(join(folder, 'node_modules', name)).then(Boolean, () => false)));
  if (!present.includes(false)) return null;
  const made = await cachedFolder({
    root: join(cacheDir, 'node-environments'),
    key: { ...inputs, node: process.version, platform: process.platform, arch: process.arch },
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

interface NodeInstallation {
  readonly dependencies: Readonly<Record<string, string>>;
  /** Further packages, as npm takes them. */
  readonly declared: readonly string[];
  readonly lock: string | null;
  /** For this machine instead of the hosts. */
  readonly isForHere: boolean;
  readonly activity: Activity;
}

/** Installs `node_modules` into an empty folder. */
async function install(target: string, { dependencies, declared, lock, isForHere, activity }: NodeInstallation): Promise<void> {
  // Inside the target, so that leftovers of a killed build are deleted with its other leftovers.
  const folder = await mkdtemp(join(target, 'npm-'));
  let fetched = 0;
  try {
    await writeFile(
      join(folder, 'package.json'),
      JSON.stringify({ name: 'application', private: true, dependencies, overrides: overridesOf(dependencies) }),
    );
    if (lock !== null) await writeFile(join(folder, 'package-lock.json'), lock);
    const platform = isForHere ? [] : ['--os=linux', '--cpu=x64', '--libc=glibc'];
    const quiet = ['--no-audit', '--no-fund', '--loglevel=http', '--omit=dev', '--ignore-scripts', '--install-links'];
    const ended = await runInstaller('npm', ['install', ...quiet, ...platform, ...declared], {
      cwd: folder,
      // Its name within the registry: <url>/<name>/-/<file>.tgz
      onLine: (line) => {
        const name = /^npm http fetch GET 200 \S+?\/((?:@[^/]+\/|@[^/]+%2f)?[^/]+)\/-\/\S+\.tgz /i.exec(line)?.[1];
        if (name === undefined) return;
        fetched += 1;
        activity.detail(`${fetched} downloaded, ${decodeURIComponent(name)}`);
      },
    });
    if (!ended.ok)
      throw new ToolError(
        'INVALID_MANIFEST',
        `installing npm packages failed:\n  ${faultOf(ended)}`,
        'Correct the dependencies; npm’s own settings (registry, proxy) apply.',
      );
    // This file records where on this machine each package came from.
    await rm(join(folder, 'node_modules/.package-lock.json'), { force: true });
    await moveUnsynced(join(folder, 'node_modules'), join(target, 'node_modules'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export async function dependenciesOf(folder: string): Promise<Readonly<Record<string, string>>> {
  let bytes: Buffer;
  try {
    bytes = await readFile(join(folder, 'package.json'));
  } catch {
    return {}; // the file is optional
  }
  const text = decodeUtf8(bytes, 'package.json', 'Node');
  try {
    return packageSchema.parse(JSON.parse(text)).dependencies ?? {};
  } catch (cause) {
    throw new CapstanError('INVALID_MANIFEST', 'package.json must be JSON, with an object of strings as dependencies', { cause });
  }
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

/**
 * The packages that the tool and the service need at run time, as package-lock.json names them. Those that are the same on every
 * machine travel inside our package, without what only developers read; those with programs of one platform are installed with it.
 */
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { z } from 'zod';

const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      integrity: z.string().optional(),
      license: z.string().optional(),
      dev: z.boolean().optional(),
      link: z.boolean().optional(),
      optional: z.boolean().optional(),
    }),
  ),
});

export interface Dependency {
  readonly name: string;
  readonly version: string;
  /** Where it is installed, relative to the root: `node_modules/a/node_modules/b`. */
  readonly path: string;
  /** Subresource integrity of its archive: `sha512-…`. */
  readonly integrity: string | undefined;
  readonly license: string | undefined;
  readonly isOptional: boolean;
}

/** Packages with programs of one platform each: npm chooses among them. */
const OF_ONE_PLATFORM = /^(?:node-linux-|oxc-parser$|@oxc-parser\/|@oxc-project\/types$)/;

/** Returns all packages of the lock file that are not for development only, in order of their paths. */
export async function runtimeDependencies(root: string): Promise<Dependency[]> {
  const { packages } = lockSchema.parse(JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')));
  return Object.entries(packages)
    .filter(([path, { dev, link }]) => path.startsWith('node_modules/') && dev !== true && link !== true)
    .map(([path, { version = '', integrity, license, optional }]) => ({
      name: path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length),
      version,
      path,
      integrity,
      license,
      isOptional: optional === true,
    }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

/** Optional packages of others are left out: they are compiled where they are installed, and nothing of ours misses them. */
export function isBundled({ name, isOptional }: Dependency): boolean {
  return !isOptional && !OF_ONE_PLATFORM.test(name);
}

/** What a running program reads; and, whatever it is called, what states the licence. */
const NEEDED = /\.(?:c?js|mjs|json|node|wasm|proto|css|html|svg)$/;
const LICENCE = /^(?:licen[cs]e|copying|notice|copyright|authors)/i;
const FOR_DEVELOPERS = /^(?:\.github|\.vscode|benchmarks?|docs?|examples?|tests?)\//;
/** Programs of systems that no part runs on, and the sources of those that do. */
const OF_OTHERS: Readonly<Record<string, RegExp>> = {
  'better-sqlite3': /^(?:deps|src)\/|^prebuilds\/(?!linux)/,
};
/** The same modules again, for bundlers. */
const FOR_BUNDLERS: Readonly<Record<string, RegExp>> = { '@opentelemetry': /^build\/(?:esm|esnext)\// };

/**
 * Copies an installed package without what only developers read.
 * @throws Error when another version than that of the lock file is installed.
 */
export async function copyDependency(root: string, { name, version, path }: Dependency, target: string): Promise<void> {
  const folder = join(root, path);
  const installed = await readFile(join(folder, 'package.json'), 'utf8').catch(() => '{}');
  const manifest = JSON.parse(installed) as Record<string, unknown>;
  if (manifest['version'] !== version)
    throw new Error(`${path}: version ${String(manifest['version'])} is installed, and package-lock.json has ${version}; run npm install`);
  const files = (await filesOf(folder)).filter((file) => isNeeded(name, file));
  await Promise.all([...new Set(files.map((file) => dirname(file)))].map((each) => mkdir(join(target, path, each), { recursive: true })));
  await Promise.all(files.map((file) => copyFile(join(folder, file), join(target, path, file))));
  // Nothing of it runs, and nothing more is fetched for it, when our package is installed.
  const { scripts: _scripts, devDependencies: _dev, optionalDependencies: _optional, ...rest } = manifest;
  await writeFile(join(target, path, 'package.json'), `${JSON.stringify(rest, null, 2)}\n`);
}

function isNeeded(name: string, file: string): boolean {
  if (LICENCE.test(basename(file))) return !/\.(?:[cm]?ts|map)$/.test(file);
  const scope = name.slice(0, Math.max(0, name.indexOf('/')));
  return (
    NEEDED.test(file) && !FOR_DEVELOPERS.test(file) && OF_OTHERS[name]?.test(file) !== true && FOR_BUNDLERS[scope]?.test(file) !== true
  );
}

/** Files of a package without those of the packages installed below it. */
async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const lists = await Promise.all(
    entries
      .filter((entry) => entry.name !== 'node_modules')
      .map(async (entry) => {
        if (!entry.isDirectory()) return [entry.name];
        const below = await readdir(join(folder, entry.name), { recursive: true, withFileTypes: true });
        return below.filter((each) => each.isFile()).map((each) => relative(folder, join(each.parentPath, each.name)));
      }),
  );
  return lists.flat().filter((file) => !file.includes('node_modules/'));
}

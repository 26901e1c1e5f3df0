/**
 * The offline bundle: everything that a host needs to run Capstan, for machines without a network and without Node.js. It is laid out
 * as npm would install the package of the tool, so that units and upgrades know one layout.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { chmod, copyFile, cp, mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';

import { create, extract } from 'tar';

import { PUBLIC_KEY, SUMS, SUMS_SIGNATURE, sumsOf } from '../../lib/installation.ts';
import { signature, type SecretKey } from '../../lib/minisign.ts';
import { filesBelow, portable } from '../archive.ts';
import { runtimeDependencies, type Dependency } from '../dependencies.ts';
import { checkIntegrity } from './integrity.ts';

const run = promisify(execFile);

export const ARCHITECTURES = ['x64', 'arm64'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/** Of xz: level 6 takes five times as long for 12 % less. */
const XZ_LEVEL = 2;

export interface BundleSpec {
  readonly root: string;
  readonly version: string;
  readonly architecture: Architecture;
  /** Where the file goes. */
  readonly folder: string;
  /** The time of all files. */
  readonly time: Date;
  /** An empty folder. */
  readonly scratch: string;
  /** The folder of the tool's package, with its dependencies. */
  readonly tool: string;
  /** Packages of the SDKs and the bill of materials. */
  readonly packages: readonly string[];
  readonly key: SecretKey;
}

/** Makes `capstan-offline-linux-<architecture>.tar.xz` and returns its path. */
export async function makeOfflineBundle(spec: BundleSpec): Promise<string> {
  const { root, version, architecture, folder, scratch, tool, packages, key } = spec;
  const name = `capstan-offline-${version}-linux-${architecture}`;
  const tree = join(scratch, name);
  const modules = join(tree, 'node_modules');
  await mkdir(join(modules, '.bin'), { recursive: true });
  const isRunnable = (path: string): boolean => !path.includes('/prebuilds/') || path.endsWith(`linux-${architecture}.node`);
  await cp(tool, join(modules, 'capstan'), { recursive: true, filter: isRunnable });
  await addPlatformPackages(spec, modules);
  await Promise.all([
    addProgram(join(modules, '.bin/node'), `exec "$here/../node-linux-${architecture}/bin/node" "$@"`),
    addProgram(
      join(modules, '.bin/capstan'),
      `exec "$here/../node-linux-${architecture}/bin/node" "$here/../capstan/cli/capstan.mjs" "$@"`,
    ),
  ]);
  await mkdir(join(tree, 'packages'));
  await Promise.all(packages.map((file) => copyFile(file, join(tree, 'packages', basename(file)))));
  await cp(join(root, 'deploy/systemd'), join(tree, 'systemd'), { recursive: true });
  await cp(join(root, 'deploy/gpu-check'), join(tree, 'gpu-check'), { recursive: true });
  await copyFile(join(root, 'docs/systemd.md'), join(tree, 'systemd/README.md'));
  await copyFile(join(import.meta.dirname, 'install.sh'), join(tree, 'install.sh'));
  await copyFile(join(root, 'LICENSE'), join(tree, 'LICENSE'));
  await writeFile(join(tree, 'VERSION'), `${version}\n`);
  await writeFile(join(tree, 'ARCH'), `${architecture}\n`);
  const sums = await sumsOf(tree);
  await writeFile(join(tree, SUMS), sums);
  await writeFile(join(tree, SUMS_SIGNATURE), signature(Buffer.from(sums), key, `capstan ${version} linux ${architecture}`));
  await writeFile(join(tree, PUBLIC_KEY), key.publicText);
  const file = join(folder, `capstan-offline-linux-${architecture}.tar.xz`);
  await compress(tree, name, file, spec.time);
  return file;
}

/** Node, and the parser's program: of this checkout's installation, or from the registry at the versions of the lock file. */
async function addPlatformPackages({ root, architecture, scratch }: BundleSpec, modules: string): Promise<void> {
  const wanted = new Set([
    `node-linux-${architecture}`,
    `@oxc-parser/binding-linux-${architecture}-gnu`,
    'oxc-parser',
    '@oxc-project/types',
  ]);
  for (const dependency of await runtimeDependencies(root)) {
    if (!wanted.delete(dependency.name)) continue;
    const target = join(modules, dependency.name);
    await mkdir(target, { recursive: true });
    await unpack(dependency, scratch, target);
  }
  if (wanted.size > 0) throw new Error(`package-lock.json lacks ${[...wanted].join(', ')}`);
}

async function unpack({ name, version, integrity }: Dependency, scratch: string, target: string): Promise<void> {
  const { stdout } = await run('npm', ['pack', '--silent', '--pack-destination', scratch, `${name}@${version}`], { cwd: scratch });
  const file = join(scratch, stdout.trim().split('\n').at(-1) ?? '');
  await checkIntegrity(file, integrity, `${name}@${version}`);
  // Headers and manuals of Node are for developers.
  await extract({ file, cwd: target, strip: 1, filter: (path) => !/^package\/(?:include|share)\/|\.d\.[mc]?ts$/.test(path) });
}

/** A script that finds its folder through links, such as one in /usr/local/bin. */
async function addProgram(path: string, command: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n${command}\n`);
  await chmod(path, 0o755);
}

/** One thread, so that the same files give the same bytes. */
async function compress(tree: string, prefix: string, file: string, time: Date): Promise<void> {
  const xz = spawn('xz', [`-${XZ_LEVEL}`, '--threads=1', '--stdout'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(xz, 'exit') as Promise<[number | null]>;
  const tar = create({ cwd: tree, prefix, ...portable(time) }, await filesBelow(tree));
  await Promise.all([pipeline(tar, xz.stdin), pipeline(xz.stdout, createWriteStream(file))]);
  const [code] = await exited;
  if (code !== 0) throw new Error(`xz ended with ${String(code)}`);
}

/**
 * Makes a release: `npm run release [-- <folder>]`, by default in `dist/`. The same commit, with the same versions of Node and
 * Python, gives the same files.
 */
import { execFile } from 'node:child_process';
import { copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative, resolve } from 'node:path';
import { promisify } from 'node:util';

import { archive, sha256 } from './archive.ts';
import { billOfMaterials } from './bill-of-materials.ts';
import { makeToolPackage } from './tool-package.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '..');

interface Order {
  readonly version: string;
  /** Where the files go. */
  readonly folder: string;
  /** Of the commit: the time of all files in archives. */
  readonly time: Date;
  /** An empty folder. */
  readonly scratch: string;
}

/** The SDK for TypeScript, as `npm pack` names it. */
async function makeSdkPackage({ version, folder, time, scratch }: Order): Promise<string> {
  const built = join(scratch, 'sdk');
  await run(process.execPath, [join(root, 'sdk/typescript/build.ts'), built]);
  const file = join(folder, `capstan-sdk-${version}.tgz`);
  await archive({ folder: built, prefix: 'package', file, time });
  return file;
}

/** The SDK for Python, with the tool as an npm package in it. */
async function makePythonPackages({ version, folder, time, scratch }: Order, tool: string): Promise<string[]> {
  const source = join(scratch, 'python');
  await cp(join(root, 'sdk/python'), source, { recursive: true, filter: (path) => !/__pycache__|\.egg-info|[/\\]build$/.test(path) });
  await copyFile(tool, join(source, 'capstan_tool', basename(tool)));
  await run('python3', [join(import.meta.dirname, 'python.py'), source, folder, String(time.getTime() / 1000)]);
  return [`capstan-${version}-py3-none-any.whl`, `capstan-${version}.tar.gz`].map((name) => join(folder, name));
}

async function makeRelease(order: Order): Promise<string[]> {
  const { version, folder, time } = order;
  console.error('=> the tool and the service');
  const tool = await makeToolPackage(root, folder, join(order.scratch, 'tool'), time);
  console.error('=> the SDKs');
  const sdk = await makeSdkPackage(order);
  const python = await makePythonPackages(order, tool);
  console.error('=> units, image, Compose, chart, bill of materials, checksums');
  const deployed = await Promise.all(
    ['systemd', 'compose', 'image'].map(async (name) => {
      const file = join(folder, `capstan-${name}-${version}.tar.gz`);
      await archive({ folder: join(root, 'deploy', name), prefix: `capstan-${name}-${version}`, file, time });
      return file;
    }),
  );
  // As `helm package` names it but for the prefix, which the package of the tool has.
  const chart = join(folder, `capstan-chart-${version}.tgz`);
  await archive({ folder: join(root, 'deploy/helm'), prefix: 'capstan', file: chart, time });
  const materials = join(folder, `capstan-${version}.cdx.json`);
  await writeFile(materials, await billOfMaterials(root, time));
  const changes = join(folder, 'CHANGELOG.md');
  await copyFile(join(root, 'CHANGELOG.md'), changes);
  return [tool, sdk, ...python, ...deployed, chart, materials, changes];
}

const folder = resolve(process.argv[2] ?? join(root, 'dist'));
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
const { stdout: seconds } = await run('git', ['log', '-1', '--format=%ct'], { cwd: root });
const { stdout: changed } = await run('git', ['status', '--porcelain', '--untracked-files=no'], { cwd: root });
if (changed !== '') console.error('! the working tree has changes that are not committed; they become part of the release');
await mkdir(folder, { recursive: true });
const scratch = await mkdtemp(join(tmpdir(), 'capstan-release-'));
try {
  const files = await makeRelease({ version, folder, scratch, time: new Date(Number(seconds) * 1000) });
  const lines = await Promise.all(files.map(async (file) => `${await sha256(file)}  ${basename(file)}\n`));
  await writeFile(join(folder, 'SHA256SUMS'), lines.toSorted().join(''));
  for (const file of [...files, join(folder, 'SHA256SUMS')]) console.log(relative(process.cwd(), file));
} finally {
  await rm(scratch, { recursive: true, force: true });
}

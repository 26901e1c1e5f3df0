/**
 * Makes a release: `npm run release [-- <folder>] [--offline x64,arm64|none] [--key <file>]`, by default in `dist/` with the offline
 * bundles of both architectures. The same commit, with the same versions of Node and Python and the same key, gives the same files.
 *
 * `--key`: the release's secret key, made where the file does not exist. Without it a key is made for this release alone.
 */
import { execFile } from 'node:child_process';
import { copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative, resolve } from 'node:path';
import { parseArgs, promisify } from 'node:util';

import { PUBLIC_KEY } from '../lib/installation.ts';
import { signature } from '../lib/minisign.ts';
import { archive, sha256 } from './archive.ts';
import { billOfMaterials } from './bill-of-materials.ts';
import { ARCHITECTURES, makeOfflineBundle, type Architecture } from './offline/bundle.ts';
import { releaseKey } from './offline/key.ts';
import { provenanceOf } from './offline/provenance.ts';
import { makeToolPackage } from './tool-package.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '..');

interface ReleaseSpec {
  readonly version: string;
  /** Where the files go. */
  readonly folder: string;
  /** Of the commit: the time of all files in archives. */
  readonly time: Date;
  /** An empty folder. */
  readonly scratch: string;
  /** Architectures of the offline bundles. */
  readonly offline: readonly Architecture[];
  /** Of the secret key that signs them; a key of this release alone when left out. */
  readonly keyFile: string | undefined;
}

/** The SDK for TypeScript, as `npm pack` names it. */
async function makeSdkPackage({ version, folder, time, scratch }: ReleaseSpec): Promise<string> {
  const built = join(scratch, 'sdk');
  await run(process.execPath, [join(root, 'sdk/typescript/build.ts'), built]);
  const file = join(folder, `capstan-sdk-${version}.tgz`);
  await archive({ folder: built, prefix: 'package', file, time });
  return file;
}

/** The SDK for Python, with the tool as an npm package in it. */
async function makePythonPackages({ version, folder, time, scratch }: ReleaseSpec, tool: string): Promise<string[]> {
  const source = await copyPythonSources(scratch, 'python');
  await copyFile(tool, join(source, 'capstan_tool', basename(tool)));
  await run('python3', [join(import.meta.dirname, 'python.py'), source, folder, String(time.getTime() / 1000)]);
  return [`capstan-${version}-py3-none-any.whl`, `capstan-${version}.tar.gz`].map((name) => join(folder, name));
}

/** The SDK for Python alone: in a bundle the tool is there already. */
async function makePlainWheel({ version, time, scratch }: ReleaseSpec): Promise<string> {
  const source = await copyPythonSources(scratch, 'plain-python');
  const target = join(scratch, 'plain-wheel');
  await mkdir(target);
  await run('python3', [join(import.meta.dirname, 'python.py'), source, target, String(time.getTime() / 1000)]);
  return join(target, `capstan-${version}-py3-none-any.whl`);
}

async function copyPythonSources(scratch: string, name: string): Promise<string> {
  const source = join(scratch, name);
  await cp(join(root, 'sdk/python'), source, { recursive: true, filter: (path) => !/__pycache__|\.egg-info|[/\\]build$/.test(path) });
  return source;
}

async function makeRelease(spec: ReleaseSpec, origin: { commit: string; isChanged: boolean }): Promise<string[]> {
  const { version, folder, time } = spec;
  console.error('=> the tool and the service');
  const tool = await makeToolPackage(root, folder, join(spec.scratch, 'tool'), time);
  console.error('=> the SDKs');
  const sdk = await makeSdkPackage(spec);
  const python = await makePythonPackages(spec, tool);
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
  const bundles = spec.offline.length === 0 ? [] : await makeOffline(spec, [sdk, await makePlainWheel(spec), materials], origin);
  return [tool, sdk, ...python, ...deployed, chart, materials, changes, ...bundles];
}

/** Bundles with what a host needs, their signatures, the public key, and where they come from. */
async function makeOffline(
  spec: ReleaseSpec,
  packages: readonly string[],
  origin: { commit: string; isChanged: boolean },
): Promise<string[]> {
  const { version, folder, time, scratch, offline, keyFile } = spec;
  const key = await releaseKey(keyFile);
  const tool = join(scratch, 'tool');
  const bundles: string[] = [];
  for (const architecture of offline) {
    console.error(`=> the offline bundle for ${architecture}`);
    const own = join(scratch, architecture);
    await mkdir(own);
    bundles.push(await makeOfflineBundle({ root, version, architecture, folder, time, scratch: own, tool, packages, key }));
    await rm(own, { recursive: true });
  }
  const provenance = join(folder, `capstan-${version}.provenance.json`);
  await writeFile(provenance, await provenanceOf(bundles, { version, time, ...origin }));
  const publicKey = join(folder, PUBLIC_KEY);
  await writeFile(publicKey, key.publicText);
  const signed = [...bundles, provenance];
  for (const file of signed) await writeFile(`${file}.minisig`, signature(await readFile(file), key, `${basename(file)} ${version}`));
  return [...signed, ...signed.map((file) => `${file}.minisig`), publicKey];
}

/** @throws Error for an architecture that there is no bundle for. */
function architecturesOf(text: string): Architecture[] {
  if (text === 'none') return [];
  return text.split(',').map((name) => {
    const found = ARCHITECTURES.find((each) => each === name);
    if (found === undefined) throw new Error(`--offline: ${name} is none of ${ARCHITECTURES.join(', ')} and none`);
    return found;
  });
}

const { values, positionals } = parseArgs({
  options: { offline: { type: 'string', default: ARCHITECTURES.join() }, key: { type: 'string' } },
  allowPositionals: true,
});
const offline = architecturesOf(values.offline);
const folder = resolve(positionals[0] ?? join(root, 'dist'));
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
const { stdout: head } = await run('git', ['log', '-1', '--format=%ct %H'], { cwd: root });
const [seconds, commit = ''] = head.trim().split(' ');
const { stdout: changed } = await run('git', ['status', '--porcelain', '--untracked-files=no'], { cwd: root });
if (changed !== '') console.error('! the working tree has changes that are not committed; they become part of the release');
await mkdir(folder, { recursive: true });
const scratch = await mkdtemp(join(tmpdir(), 'capstan-release-'));
try {
  const spec = { version, folder, scratch, time: new Date(Number(seconds) * 1000), offline, keyFile: values.key };
  const files = await makeRelease(spec, { commit, isChanged: changed !== '' });
  const lines = await Promise.all(files.map(async (file) => `${await sha256(file)}  ${basename(file)}\n`));
  await writeFile(join(folder, 'SHA256SUMS'), lines.toSorted().join(''));
  for (const file of [...files, join(folder, 'SHA256SUMS')]) console.log(relative(process.cwd(), file));
} finally {
  await rm(scratch, { recursive: true, force: true });
}

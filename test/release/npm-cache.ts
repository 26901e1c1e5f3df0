/** What npm fetches when it installs the package of the tool. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { list } from 'tar';

const root = join(import.meta.dirname, '../..');

export interface Published {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly bundleDependencies: readonly string[];
}

/** Reads package.json of a package's archive. */
export async function publishedPackage(archive: string): Promise<Published> {
  let text = '';
  await list({
    file: archive,
    filter: (path) => path === 'package/package.json',
    onReadEntry: (entry) => void entry.on('data', (chunk: Buffer) => (text += chunk.toString())),
  });
  return JSON.parse(text) as Published;
}

/** What npm installs with `oxc-parser` on this host. */
export async function bindings(): Promise<Record<string, string>> {
  const versionOf = async (name: string): Promise<string> =>
    (JSON.parse(await readFile(join(root, 'node_modules', name, 'package.json'), 'utf8')) as { version: string }).version;
  const parser = await versionOf('oxc-parser');
  const installed = (await readdir(join(root, 'node_modules/@oxc-parser'))).map((name) => [`@oxc-parser/${name}`, parser] as const);
  return Object.fromEntries([['@oxc-project/types', await versionOf('@oxc-project/types')], ...installed]);
}

/** Fills a cache with all that `npm install --offline` of this archive needs on this host. */
export async function fillCache(archive: string, cache: string, PATH: string): Promise<void> {
  const { dependencies, optionalDependencies, bundleDependencies } = await publishedPackage(archive);
  const fetched = Object.entries({ ...dependencies, ...optionalDependencies, ...(await bindings()) })
    .filter(([name]) => !bundleDependencies.includes(name) && !name.endsWith(process.arch === 'x64' ? 'arm64' : 'x64'))
    .map(([name, number]) => `${name}@${number}`);
  await promisify(execFile)('npm', ['cache', 'add', ...fetched, '--cache', cache], { env: { ...process.env, PATH } });
}

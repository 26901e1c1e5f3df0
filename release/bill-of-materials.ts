/** The bill of materials (SBOM) of a release, in CycloneDX 1.5: every package that the tool and the service bring along. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { isBundled, runtimeDependencies, type Dependency } from './dependencies.ts';

export async function billOfMaterials(root: string, time: Date): Promise<string> {
  const own = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Record<'name' | 'version' | 'license', string>;
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as Lock;
  const all = await runtimeDependencies(root);
  const present = all.filter((each) => isBundled(each) || isInstalledWith(each));
  const paths = new Set(present.map(({ path }) => path));
  const document = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      timestamp: time.toISOString(),
      component: {
        type: 'application',
        'bom-ref': purl(own),
        name: own.name,
        version: own.version,
        purl: purl(own),
        ...licence(own.license),
      },
    },
    components: unique(present).map((each) => ({
      type: 'library',
      'bom-ref': purl(each),
      name: each.name,
      version: each.version,
      purl: purl(each),
      scope: each.isOptional ? 'optional' : 'required',
      ...licence(each.license),
      ...hash(each.integrity),
    })),
    dependencies: [
      { ref: purl(own), dependsOn: resolve('', lock, paths) },
      ...unique(present).map((each) => ({ ref: purl(each), dependsOn: resolve(each.path, lock, paths) })),
    ],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

interface Lock {
  readonly packages: Readonly<
    Record<
      string,
      {
        readonly version?: string;
        readonly dependencies?: Readonly<Record<string, string>>;
        readonly optionalDependencies?: Readonly<Record<string, string>>;
      }
    >
  >;
}

/** Of the packages of one platform: npm installs those of the host. */
function isInstalledWith({ name, isOptional }: Dependency): boolean {
  return !isOptional || /^(?:node-linux-|@oxc-parser\/)/.test(name);
}

function unique(dependencies: readonly Dependency[]): Dependency[] {
  return [...new Map(dependencies.map((each) => [purl(each), each])).values()].toSorted((a, b) => (purl(a) < purl(b) ? -1 : 1));
}

/** Dependencies of the package at a path, found as Node finds them: in its own folder, then in each above. */
function resolve(path: string, { packages }: Lock, present: ReadonlySet<string>): string[] {
  const { dependencies, optionalDependencies } = packages[path] ?? {};
  const found = Object.keys({ ...dependencies, ...optionalDependencies }).flatMap((name) => {
    const place = foldersFrom(path)
      .map((folder) => `${folder === '' ? '' : `${folder}/`}node_modules/${name}`)
      .find((each) => present.has(each));
    return place === undefined ? [] : [purl({ name, version: packages[place]?.version ?? '' })];
  });
  return [...new Set(found)].toSorted();
}

/** The path of a package and those of the packages that it is installed below, up to the root. */
function foldersFrom(path: string): string[] {
  if (path === '') return [''];
  return [path, ...foldersFrom(path.slice(0, Math.max(0, path.lastIndexOf('node_modules/') - 1)))];
}

function purl({ name, version }: { readonly name: string; readonly version: string }): string {
  return `pkg:npm/${name.replace(/^@/, '%40')}@${version}`;
}

function licence(id: string | undefined): object {
  if (id === undefined) return {};
  return { licenses: [/^[\w.+-]+$/.test(id) ? { license: { id } } : { expression: id }] };
}

function hash(integrity: string | undefined): object {
  const [, base64] = /^sha512-(.+)$/.exec(integrity ?? '') ?? [];
  return base64 === undefined ? {} : { hashes: [{ alg: 'SHA-512', content: Buffer.from(base64, 'base64').toString('hex') }] };
}

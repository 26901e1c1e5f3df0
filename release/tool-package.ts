/** Makes the npm package `capstan`: the tool and the service, as JavaScript, with what they need at run time. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { archive } from './archive.ts';
import { copyDependency, isBundled, runtimeDependencies, type Dependency } from './dependencies.ts';
import { transpile } from './transpile.ts';

/** Folders with programs, whose TypeScript becomes JavaScript. */
const PROGRAMS =
  /^(?:agent|cli|client|compiler|devserver|gateway|lib|proto|scheduler|sdk|supervisor|terminal)\/|^deploy\/gpu-check\/(?!app\/)/;
/** Files that go into the package as they are. */
const ALSO = /^(?:LICENSE|README\.md|CHANGELOG\.md|deploy\/(?!gpu-check\/(?!app\/)).*|docs\/.*\.md|examples\/.*)$/;
/** Of the programs: what only makes or tests them. */
const LEFT_OUT =
  /^deploy\/gpu-check\/run$|^proto\/generate\.ts$|^sdk\/typescript\/(?:build\.ts|tsconfig.*)$|^sdk\/python\/(?!capstan\/)|\.d\.[mc]?ts$/;

interface RootPackage {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly engines: Readonly<Record<string, string>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

/** Makes `<folder>/capstan-<version>.tgz` and returns its path. `scratch` is a folder of its own. */
export async function makeToolPackage(root: string, folder: string, scratch: string, time: Date): Promise<string> {
  const own = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as RootPackage;
  await copySources(root, scratch);
  await copyConsole(root, scratch);
  const dependencies = await runtimeDependencies(root);
  for (const dependency of dependencies.filter(isBundled)) await copyDependency(root, dependency, scratch);
  await writeFile(join(scratch, 'package.json'), `${JSON.stringify(published(own, dependencies), null, 2)}\n`);
  const file = join(folder, `capstan-${own.version}.tgz`);
  await archive({ folder: scratch, prefix: 'package', file, time });
  return file;
}

/** The files that git knows, so that nothing else in the checkout gets into a release. */
async function copySources(root: string, target: string): Promise<void> {
  const { stdout } = await promisify(execFile)('git', ['ls-files', '-z'], { cwd: root, maxBuffer: 64 << 20 });
  const files = stdout.split('\0').filter((file) => file !== '' && !LEFT_OUT.test(file));
  const imports: { readonly from: string; readonly target: string }[] = [];
  for (const file of files) {
    const isProgram = PROGRAMS.test(file);
    if (!isProgram && !ALSO.test(file)) continue;
    await mkdir(dirname(join(target, file)), { recursive: true });
    if (!isProgram || !/\.(?:ts|mjs)$/.test(file)) await cp(join(root, file), join(target, file));
    else {
      const path = file.replace(/\.ts$/, '.js');
      const { text, targets } = transpile(file, await readFile(join(root, file), 'utf8'));
      await writeFile(join(target, path), text, { mode: (await stat(join(root, file))).mode & 0o755 });
      imports.push(...targets.map((each) => ({ from: path, target: join(dirname(path), each) })));
    }
  }
  const missing: string[] = [];
  for (const { from, target: file } of imports)
    if (file !== 'package.json' && !(await stat(join(target, file)).catch(() => null))?.isFile()) missing.push(`${from} → ${file}`);
  if (missing.length > 0) throw new Error(`the package lacks files that it loads: ${missing.join(', ')}`);
}

/** The built console: whoever installs the package needs nothing to build it. */
async function copyConsole(root: string, target: string): Promise<void> {
  await promisify(execFile)(process.execPath, [join(root, 'console/build.mjs')]);
  const isServed = (path: string): boolean => !/\.stamp$|manifest\.json$/.test(path);
  await cp(join(root, 'console/dist'), join(target, 'console/dist'), { recursive: true, filter: isServed });
}

/** The versions are those of the lock file: what is installed is what was tested. */
function published(own: RootPackage, dependencies: readonly Dependency[]): object {
  const versions = new Map(dependencies.map(({ path, version }) => [path, version]));
  const exact = (names: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(Object.entries(names).map(([name, range]) => [name, versions.get(`node_modules/${name}`) ?? range]));
  const { name, version, description, license, engines, bin } = own;
  return {
    name,
    version,
    description,
    license,
    type: 'module',
    engines,
    bin,
    dependencies: exact(own.dependencies),
    optionalDependencies: exact(own.optionalDependencies),
    bundleDependencies: dependencies
      .filter((each) => isBundled(each) && /^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(each.path))
      .map((each) => each.name),
  };
}

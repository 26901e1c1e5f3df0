/** Imports that a worker will not find: no package of the build, no package of the base image and no file of the project gives them. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { baseImageOf, preinstalledPackages } from '../../lib/base-images.ts';
import type { Application } from '../application/application.ts';
import type { DeclaredApplication, Language, NeededModule } from '../discovery/declared.ts';
import { CapstanError } from '../../lib/errors.ts';
import type { Layer } from '../artifact/artifact.ts';
import { neededByScripts, readNodeImports } from '../discovery/node-imports.ts';
import { neededByPython } from '../discovery/python.ts';
import { PYTHON_PACKAGES } from '../artifact/generated.ts';
import { readNodeManifest } from './node-manifest.ts';
import type { InstalledPackages } from './packages.ts';
import { normalised } from './python-names.ts';

/** Modules that a warning names. */
const MAX_NAMED = 8;
/** The ending of a module's file: `.py`, `.abi3.so`, `.cpython-311-x86_64-linux-gnu.so`. */
const MODULE_ENDING = /\.(?:py|pyd|so|[\w-]+\.so)$/;
const DECLARED_PYTHON = 'Name the packages in requirements.txt, pyproject.toml or dependencies=[…]';
/** The SDK, which a build brings itself. */
const SDK = '@capstan/sdk';

/** What the project imports, and what may have it. */
export interface ImportCheck {
  readonly folder: string;
  readonly needed: readonly NeededModule[];
  readonly packages: Pick<InstalledPackages, 'layers' | 'replacesNodeModules'>;
  /** What hosts have, as `--exclude` says. */
  readonly exclude: readonly string[];
  /** Languages of endpoints with an image of their own, which may bring any module. */
  readonly ofImages: ReadonlySet<Language>;
  /** Where Python packages are named, for the warning. */
  readonly python: string;
}

/** As for a build of declared endpoints. */
export async function missingModules(
  { folder, needed, endpoints }: Pick<DeclaredApplication, 'folder' | 'needed' | 'endpoints'>,
  packages: ImportCheck['packages'],
  exclude: readonly string[],
): Promise<string[]> {
  const ofImages = new Set(endpoints.filter(({ settings }) => settings.image !== undefined).map(({ language }) => language));
  return missingImports({ ...{ folder, needed, packages, exclude, ofImages }, python: DECLARED_PYTHON });
}

/** As for a build with a written manifest: of endpoints without an image. */
export async function missingOfWritten(
  { folder, endpoints }: Pick<Application, 'folder' | 'endpoints'>,
  layers: readonly Layer[],
  exclude: readonly string[],
): Promise<string[]> {
  const own = endpoints.filter(({ spec: { imageName } }) => imageName === '' || baseImageOf(imageName) !== null);
  const modules = [...new Set(own.flatMap(({ functions }) => functions.map(({ module }) => module)))];
  const python = modules.filter((module) => module.endsWith('.py'));
  const commands = own.map(({ spec }) => spec.command);
  const isOfPython = python.length > 0 || commands.flat().some((word) => word.endsWith('.py'));
  const node = modules.filter((module) => !module.endsWith('.py'));
  const needed = [
    ...(isOfPython ? await ofPython(folder, { modules: python, commands }) : []),
    ...(node.length === 0 ? [] : (await readNodeImports(folder, node)).needed),
    ...(await neededByScripts(folder, commands)),
  ];
  const packages = { layers, replacesNodeModules: false };
  // Only the packages of commands are installed by the build.
  const remedy = python.length === 0 ? 'Name the packages in requirements.txt' : `Install the packages into ${PYTHON_PACKAGES}`;
  return missingImports({ ...{ folder, needed, packages, exclude, ofImages: new Set() }, python: remedy });
}

/** A machine that only deploys may have no Python: its sources are not read. */
async function ofPython(folder: string, sources: Parameters<typeof neededByPython>[1]): Promise<NeededModule[]> {
  try {
    return await neededByPython(folder, sources);
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'CONFIG') return [];
    throw error;
  }
}

/**
 * Returns a warning for each language with such imports. Distributions of Python have other names than their modules (pyyaml has yaml):
 * with any excluded, no module of Python is known to be missing.
 */
async function missingImports({ folder, needed, packages, exclude, ofImages, python }: ImportCheck): Promise<string[]> {
  const { layers, replacesNodeModules } = packages;
  const once = [...new Map([...needed].reverse().map((each) => [`${each.language} ${each.name}`, each])).values()].reverse();
  const judged = once.filter(({ language }) => !ofImages.has(language) && (language !== 'python' || exclude.length === 0));
  if (judged.length === 0) return [];
  const brought = layers.flatMap(({ packages }) => Object.keys(packages));
  const elsewhere = new Set([...preinstalledPackages, ...exclude].map(normalised));
  const vendored = await readdir(join(folder, PYTHON_PACKAGES)).catch(() => []); // most projects have none
  const forPython = new Set([...brought, ...vendored].map((name) => name.replace(MODULE_ENDING, '')));
  const ofNode = new Set(brought);
  const ownName = (await readNodeManifest(folder))?.['name'];
  const isMissing = ({ language, name }: NeededModule): boolean => {
    if (elsewhere.has(normalised(name))) return false;
    if (language === 'python') return !forPython.has(name);
    if (name === SDK || name === ownName || ofNode.has(name)) return false;
    return replacesNodeModules || !existsSync(join(folder, 'node_modules', name));
  };
  const missing = judged.filter(isMissing);
  return [
    ...warning(
      missing.filter(({ language }) => language === 'python'),
      python,
    ),
    ...warning(
      missing.filter(({ language }) => language === 'node'),
      'Name them in package.json',
    ),
  ];
}

function warning(missing: readonly NeededModule[], remedy: string): string[] {
  if (missing.length === 0) return [];
  const named = missing.slice(0, MAX_NAMED).map(({ name, place }) => `${name} (${place})`);
  const more = missing.length > MAX_NAMED ? ` and ${missing.length - MAX_NAMED} more` : '';
  return [`imported, but in no package of the build: ${named.join(', ')}${more}. ${remedy}: workers do not have what is installed here`];
}

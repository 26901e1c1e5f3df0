/** Imports that a worker will not find: no package of the build, no package of the base image and no file of the project gives them. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { preinstalledPackages } from '../../lib/base-images.ts';
import type { DeclaredApplication, NeededModule } from '../discovery/declared.ts';
import { PYTHON_PACKAGES } from '../artifact/generated.ts';
import { readNodeManifest } from './node-manifest.ts';
import type { InstalledPackages } from './packages.ts';
import { normalised } from './python-names.ts';

/** Modules that a warning names. */
const MAX_NAMED = 8;
/** The ending of a module's file: `.py`, `.abi3.so`, `.cpython-311-x86_64-linux-gnu.so`. */
const MODULE_ENDING = /\.(?:py|pyd|so|[\w-]+\.so)$/;
/** The SDK, which a build brings itself. */
const SDK = '@capstan/sdk';

/**
 * Returns a warning for each language with such imports. `exclude`: what hosts have, as `--exclude` says. Distributions of Python have
 * other names than their modules (pyyaml has yaml): with any excluded, no module of Python is known to be missing. Neither is one of a
 * language with an endpoint that has an image of its own, which may bring it.
 */
export async function missingModules(
  { folder, needed, endpoints }: Pick<DeclaredApplication, 'folder' | 'needed' | 'endpoints'>,
  { layers, replacesNodeModules }: Pick<InstalledPackages, 'layers' | 'replacesNodeModules'>,
  exclude: readonly string[],
): Promise<string[]> {
  const unknown = new Set(endpoints.filter(({ settings }) => settings.image !== undefined).map(({ language }) => language));
  if (exclude.length > 0) unknown.add('python');
  const judged = needed.filter(({ language }) => !unknown.has(language));
  if (judged.length === 0) return [];
  const brought = layers.flatMap(({ packages }) => Object.keys(packages));
  const elsewhere = new Set([...preinstalledPackages, ...exclude].map(normalised));
  const vendored = await readdir(join(folder, PYTHON_PACKAGES)).catch(() => []); // most projects have none
  const ofPython = new Set([...brought, ...vendored].map((name) => name.replace(MODULE_ENDING, '')));
  const ofNode = new Set(brought);
  const ownName = (await readNodeManifest(folder))?.['name'];
  const isMissing = ({ language, name }: NeededModule): boolean => {
    if (elsewhere.has(normalised(name))) return false;
    if (language === 'python') return !ofPython.has(name);
    if (name === SDK || name === ownName || ofNode.has(name)) return false;
    return replacesNodeModules || !existsSync(join(folder, 'node_modules', name));
  };
  const missing = judged.filter(isMissing);
  return [
    ...warning(
      missing.filter(({ language }) => language === 'python'),
      'Name the packages in requirements.txt, pyproject.toml or dependencies=[…]',
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

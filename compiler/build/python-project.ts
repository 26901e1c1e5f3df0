/** The Python packages that a project's own files request: `requirements.txt`, `pyproject.toml` and a lock file. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { preinstalledPackages } from '../../lib/base-images.ts';
import type { DeclaredEndpoint } from '../discovery/declared.ts';
import { listFiles } from '../artifact/files.ts';
import { missingServers } from './app-servers.ts';
import { findLockFile, readLockFile, type LockFile } from './lock-files.ts';
import type { PackageIndexes } from './python-installer.ts';
import { requirementName } from './python-names.ts';
import { localRequirements } from './local-projects.ts';
import type { MarkerEnvironment } from './markers.ts';
import { readPyproject, withPlace } from './pyproject.ts';
import { isPath, readRequirements } from './requirements-file.ts';

export interface PythonProject {
  readonly requirements: readonly string[];
  readonly constraints: readonly string[];
  /** As of `Pyproject`. */
  readonly places: ReadonlyMap<string, string>;
  readonly indexes: PackageIndexes;
  /** Of exact requirements; the lock file's come with its versions. */
  readonly hashes: ReadonlyMap<string, readonly string[]>;
  readonly lock: LockFile | null;
  readonly warnings: readonly string[];
}

/** `environment`: as for `readPyproject`. @throws CapstanError INVALID_MANIFEST with file and rule. */
export async function readPythonProject(
  folder: string,
  lookUp: (name: string) => string | undefined,
  environment?: MarkerEnvironment,
): Promise<PythonProject> {
  const [file, project, lock] = await Promise.all([
    readRequirements(folder, lookUp),
    readPyproject(folder, environment),
    findLockFile(folder),
  ]);
  const named = [...file.requirements.map((each) => withPlace(each, project.places)), ...project.dependencies];
  const unused = named.some((each) => requirementName(each) === FORMER_SDK) && !(await importsFormerSdk(folder));
  const listed = unused ? named.filter((each) => requirementName(each) !== FORMER_SDK) : named;
  return {
    requirements: [...new Set([...listed, ...(await localRequirements(folder, listed, environment))])],
    places: project.places,
    constraints: file.constraints,
    indexes: { ...file.indexes, extraIndexes: [...file.indexes.extraIndexes, ...project.extraIndexes] },
    hashes: file.hashes,
    lock,
    warnings: [...project.warnings, ...(unused ? [`${FORMER_SDK} is left out: no file imports it`] : [])],
  };
}

/** The SDK that sources come from. It is large, and a project that declares its endpoints with this one needs it no longer. */
const FORMER_SDK = 'runpod-flash';

async function importsFormerSdk(folder: string): Promise<boolean> {
  const { entries } = await listFiles(folder, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  for (const { path, stat } of entries)
    if (path.endsWith('.py') && stat.isFile() && /^\s*(?:import|from)\s+runpod_flash\b/m.test(await readFile(join(folder, path), 'utf8')))
      return true;
  return false;
}

export interface Requirements {
  /** Those of all endpoints. */
  readonly shared: readonly string[];
  /** Also those of single endpoints; each once, in order, with absolute paths. */
  readonly all: readonly string[];
}

/** Returns what the project's files and its endpoints request together, with the servers that applications need. */
export function requirementsFor(folder: string, project: PythonProject, endpoints: readonly DeclaredEndpoint[]): Requirements {
  const declared = endpoints.flatMap(({ settings }) =>
    settings.dependencies.map((each) => (isPath(each) ? resolve(folder, each) : withPlace(each, project.places))),
  );
  const shared = [...project.requirements, ...missingServers(endpoints, [...project.requirements, ...declared])];
  return { shared, all: [...new Set([...shared, ...declared])].sort() };
}

/** Returns the packages of the base image that files import and no requirement names. */
export function importedBasePackages(endpoints: readonly DeclaredEndpoint[], requirements: readonly string[]): string[] {
  const names = new Set(requirements.map(requirementName));
  return preinstalledPackages.filter((name) => !names.has(name) && endpoints.some(({ imports }) => imports.includes(name)));
}

export interface Pins {
  readonly constraints: readonly string[];
  readonly hashes: ReadonlyMap<string, readonly string[]>;
  readonly warnings: readonly string[];
}

/**
 * Returns the versions and hashes of the lock file. Requirements that it does not have are resolved freely, with a
 * warning. @throws CapstanError INVALID_MANIFEST when it is not a lock file.
 */
export async function pinsOf(project: PythonProject, folder: string): Promise<Pins> {
  const { lock, constraints, hashes } = project;
  if (lock === null) return { constraints, hashes, warnings: [] };
  const locked = await readLockFile(lock, folder);
  const absent = project.requirements.map(requirementName).filter((name) => !name.includes('/') && !locked.names.has(name));
  return {
    constraints: [...constraints, ...locked.constraints],
    hashes: new Map([...locked.hashes, ...hashes]),
    warnings:
      absent.length === 0
        ? []
        : [`${lock.name} does not have ${absent.join(', ')}: the newest versions are installed; regenerate the lock file`],
  };
}

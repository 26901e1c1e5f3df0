/** Which Python and Node an endpoint needs, and its project requires. */
import { readFile } from 'node:fs/promises';
import { join, posix } from 'node:path';

import { satisfies, validRange } from 'semver';

import type { Language } from '../../lib/base-images.ts';
import { allowsPython, requiredPython } from './python-version.ts';
import { PYPROJECT } from './uv-sources.ts';
import type { ApplicationEndpoint } from '../application/application.ts';

/** Of a host; empty where it has none, or does not report it. */
export interface LanguageVersions {
  readonly nodeVersion: string;
  readonly pythonVersion: string;
}

/** What a project requires of all its endpoints. */
export interface RequiredLanguages {
  /** `requires-python` of pyproject.toml. */
  readonly python: string | undefined;
  /** `engines.node` of package.json. */
  readonly node: string | undefined;
}

export interface LanguageNeed {
  readonly text: string;
  /** Workers start only where it holds. */
  readonly isPlaced: boolean;
  /** It follows from the Python that the build is for. */
  readonly isOfBuild: boolean;
  readonly holds: (versions: LanguageVersions) => boolean;
}

/** The oldest Python that runs functions. */
const OLDEST = '>=3.8';
const PYTHON = /^python3?(?:\.\d+)?$/;

/** @throws CapstanError INVALID_MANIFEST for a pyproject.toml that cannot be read. */
export async function requiredLanguages(folder: string): Promise<RequiredLanguages> {
  const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => '{}'); // none: the build reports one that it cannot read
  return { python: await requiredPython(folder), node: enginesOf(text) };
}

/** Returns whether `engines.node` allows the version, `24.1.0`; true for a range that is not understood, as npm takes it. */
export function allowsNode(range: string, version: string): boolean {
  return validRange(range) === null || satisfies(version, range, { includePrerelease: true });
}

/** Null for a program that is neither's. */
export function languageOf({ spec: { functions, command, python, packages } }: ApplicationEndpoint): Language | null {
  if (functions.length > 0) return functions.some(({ module }) => module.endsWith('.py')) ? 'python' : 'node';
  const program = posix.basename(command[0] ?? '');
  if (command.length > 0 && (python !== '' || packages.length > 0 || PYTHON.test(program))) return 'python';
  return program === 'node' ? 'node' : null;
}

export function needsOf(endpoint: ApplicationEndpoint, language: Language, required: RequiredLanguages): LanguageNeed[] {
  return language === 'python' ? pythonNeeds(endpoint, required) : nodeNeeds(required);
}

function pythonNeeds({ spec, requiresPython = [] }: ApplicationEndpoint, { python }: RequiredLanguages): LanguageNeed[] {
  const ranges = [
    { text: `Python ${OLDEST}`, versions: OLDEST, file: '' },
    ...(python === undefined ? [] : [{ text: `Python ${python} (${PYPROJECT})`, versions: python, file: PYPROJECT }]),
    ...requiresPython.map(({ file, versions }) => ({ text: `Python ${versions} (${file})`, versions, file })),
  ];
  const compiled: LanguageNeed = {
    text: `Python ${spec.python}, for which its packages are built`,
    ...{ isPlaced: true, isOfBuild: true },
    holds: ({ pythonVersion }) => pythonVersion.startsWith(`${spec.python}.`),
  };
  return [
    ...(spec.python === '' ? [] : [compiled]),
    ...ranges.map(({ text, versions, file }) => ({
      text,
      ...{ isPlaced: versions === OLDEST, isOfBuild: false },
      holds: ({ pythonVersion }: LanguageVersions) => pythonVersion !== '' && allowsPython(versions, pythonVersion, file),
    })),
  ];
}

function nodeNeeds({ node }: RequiredLanguages): LanguageNeed[] {
  if (node === undefined) return [];
  return [
    {
      text: `Node ${node} (engines of package.json)`,
      ...{ isPlaced: false, isOfBuild: false },
      // Agents of earlier versions report none.
      holds: ({ nodeVersion }) => nodeVersion === '' || allowsNode(node, nodeVersion),
    },
  ];
}

function enginesOf(text: string): string | undefined {
  try {
    const read: unknown = JSON.parse(text);
    const engines = typeof read === 'object' && read !== null && 'engines' in read ? read.engines : undefined;
    const node = typeof engines === 'object' && engines !== null && 'node' in engines ? engines.node : undefined;
    return typeof node === 'string' && node.trim() !== '' ? node : undefined;
  } catch {
    return undefined; // the build reports it
  }
}

/** Which endpoints require a Python or a Node that no connected node has, before anything is uploaded. */
import { readFile } from 'node:fs/promises';
import { join, posix } from 'node:path';

import { satisfies, validRange } from 'semver';

import { baseImageOf, type Language } from '../../lib/base-images.ts';
import { allowsPython, requiredPython } from '../../compiler/build/python-version.ts';
import { PYPROJECT } from '../../compiler/build/uv-sources.ts';
import type { MachineType } from '../api/nodes.ts';
import type { Application, ApplicationEndpoint } from '../../compiler/application/application.ts';

export type HostLanguages = Pick<MachineType, 'runtimes' | 'images' | 'nodeVersion' | 'pythonVersion'>;

/** What a project requires of all its endpoints. */
export interface RequiredLanguages {
  /** `requires-python` of pyproject.toml. */
  readonly python: string | undefined;
  /** `engines.node` of package.json. */
  readonly node: string | undefined;
}

export interface LackingLanguage {
  /** What the endpoint needs, and what there is. */
  readonly text: string;
  /** What follows from it, and what would serve. */
  readonly outcome: string;
}

/** The oldest Python that runs functions. */
const OLDEST = '>=3.8';
const PYTHON = /^python3?(?:\.\d+)?$/;

/** @throws CapstanError INVALID_MANIFEST for a pyproject.toml that cannot be read. */
export async function requiredLanguages(folder: string): Promise<RequiredLanguages> {
  const text = await readFile(join(folder, 'package.json'), 'utf8').catch(() => '{}'); // none: the build reports one that it cannot read
  return { python: await requiredPython(folder), node: enginesOf(text) };
}

/** Returns what is lacking for each endpoint whose Python or Node no connected node has. */
export function lackingLanguages(
  { endpoints }: Pick<Application, 'endpoints'>,
  required: RequiredLanguages,
  types: readonly HostLanguages[],
): LackingLanguage[] {
  if (types.length === 0) return [];
  return endpoints.flatMap((endpoint) => {
    const { spec } = endpoint;
    const language = languageOf(endpoint);
    if (language === null || (spec.imageName !== '' && baseImageOf(spec.imageName) === null)) return [];
    // A base image has a Python and a Node of its own, which the node does not report.
    if (types.some((type) => hasBaseImage(type, language))) return [];
    const needs = language === 'python' ? pythonNeeds(endpoint, required) : nodeNeeds(required);
    if (types.some((type) => needs.every(({ holds }) => holds(type)))) return [];
    const unmet = needs.filter(({ holds }) => !types.some(holds));
    const lacking = unmet.length === 0 ? needs : unmet;
    return [
      {
        text: `endpoint ${spec.name} needs ${lacking.map(({ text }) => text).join(' and ')}, and ${versionsText(language, types)}`,
        outcome: lacking.some(({ isPlaced }) => isPlaced)
          ? `its jobs and requests wait until a node joins that has it${remedy(needs, types)}`
          : `its workers start on what there is, and may fail; a node with it, or an image of your own (image), would serve it`,
      },
    ];
  });
}

function hasBaseImage({ images, runtimes }: HostLanguages, language: Language): boolean {
  return runtimes.includes('container') && images.some((each) => baseImageOf(each)?.language === language);
}

/** Another Python of the build, if all else allows one that a node has. */
function remedy(needs: readonly Need[], types: readonly HostLanguages[]): string {
  const others = needs.filter(({ isOfBuild }) => !isOfBuild);
  const type = types.find((each) => others.every(({ holds }) => holds(each)));
  const [, version] = /^(\d+\.\d+)\./.exec(type?.pythonVersion ?? '') ?? [];
  return others.length === needs.length || version === undefined ? '' : `, or is built with --python ${version}`;
}

interface Need {
  readonly text: string;
  /** Workers start only where it holds. */
  readonly isPlaced: boolean;
  /** It follows from the Python that the build is for. */
  readonly isOfBuild: boolean;
  readonly holds: (type: HostLanguages) => boolean;
}

function pythonNeeds({ spec, requiresPython = [] }: ApplicationEndpoint, { python }: RequiredLanguages): Need[] {
  const ranges = [
    { text: `Python ${OLDEST}`, versions: OLDEST, file: '' },
    ...(python === undefined ? [] : [{ text: `Python ${python} (${PYPROJECT})`, versions: python, file: PYPROJECT }]),
    ...requiresPython.map(({ file, versions }) => ({ text: `Python ${versions} (${file})`, versions, file })),
  ];
  const compiled: Need = {
    text: `Python ${spec.python}, for which its packages are built`,
    ...{ isPlaced: true, isOfBuild: true },
    holds: ({ pythonVersion }) => pythonVersion.startsWith(`${spec.python}.`),
  };
  return [
    ...(spec.python === '' ? [] : [compiled]),
    ...ranges.map(({ text, versions, file }) => ({
      text,
      ...{ isPlaced: versions === OLDEST, isOfBuild: false },
      holds: ({ pythonVersion }: HostLanguages) => pythonVersion !== '' && allowsPython(versions, pythonVersion, file),
    })),
  ];
}

function nodeNeeds({ node }: RequiredLanguages): Need[] {
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

/** Returns whether `engines.node` allows the version, `24.1.0`; true for a range that is not understood, as npm takes it. */
export function allowsNode(range: string, version: string): boolean {
  return validRange(range) === null || satisfies(version, range, { includePrerelease: true });
}

/** Null for a program that is neither's. */
function languageOf({ spec: { functions, command, python, packages } }: ApplicationEndpoint): Language | null {
  if (functions.length > 0) return functions.some(({ module }) => module.endsWith('.py')) ? 'python' : 'node';
  const program = posix.basename(command[0] ?? '');
  if (command.length > 0 && (python !== '' || packages.length > 0 || PYTHON.test(program))) return 'python';
  return program === 'node' ? 'node' : null;
}

function versionsText(language: Language, types: readonly HostLanguages[]): string {
  const name = language === 'python' ? 'Python' : 'Node';
  const versions = types.map(({ nodeVersion, pythonVersion }) => (language === 'python' ? pythonVersion : nodeVersion));
  const known = [...new Set(versions.filter((each) => each !== ''))].sort();
  return known.length === 0 ? `no connected node has ${name}` : `the connected nodes have ${name} ${known.join(', ')}`;
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

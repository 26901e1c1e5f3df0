/** Installs the packages of a declared application for the hosts, on any machine, in cached layers. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';

import { preinstalledPackages } from '../../lib/base-images.ts';
import type { Layer } from '../artifact/artifact.ts';
import { closest } from '../../terminal/closest.ts';
import type { DeclaredApplication, DeclaredEndpoint } from '../discovery/declared.ts';
import { createActivity, type Activity } from '../../terminal/activity.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import type { LookUp } from '../discovery/settings.ts';
import type { GeneratedFile } from '../artifact/generated.ts';
import { leftOutText } from './base-packages.ts';
import { hostMarkers } from './markers.ts';
import { dependenciesOf, installNode, nameOf, unusedLockWarning } from './node-packages.ts';
import { mustAllow, mustSatisfy, namedPython } from './python-version.ts';
import { installPython } from './python-packages.ts';
import { normalised, reachable, requirementName } from './python-names.ts';
import { importedBasePackages, readPythonProject, requirementsFor } from './python-project.ts';
import { REQUIREMENTS } from './requirements-file.ts';

export interface InstallOptions {
  /** Variables of the shell and of `.env`, for `env` values and requirements that reference one. */
  readonly lookUp: LookUp;
  /** Packages to leave out besides those of the base image. */
  readonly exclude: readonly string[];
  /** Bundles the packages that the base image has, for hosts without it. */
  readonly bundleBasePackages: boolean;
  /** Python version of the hosts, `3.11`; undefined means the one that reads the sources. */
  readonly python: string | undefined;
  /** Folder of the cached layers, absolute. */
  readonly cacheDir: string;
  /** Installs again what is cached. */
  readonly refresh: boolean;
}

export interface InstalledPackages {
  readonly layers: readonly Layer[];
  /** `requirements.txt`. */
  readonly files: readonly GeneratedFile[];
  /** Packages that hosts must have, by endpoint. */
  readonly promised: ReadonlyMap<string, readonly string[]>;
  /** Python version that compiled packages require, `3.12`; empty for any. */
  readonly compiledFor: string;
  readonly replacesNodeModules: boolean;
}

/** @throws CapstanError INVALID_MANIFEST with the message of the installer, CONFIG when there is none. */
export async function installPackages(
  declared: DeclaredApplication,
  options: InstallOptions,
  terminal: Terminal,
): Promise<InstalledPackages> {
  const activity = createActivity(terminal);
  try {
    const python = await installForPython(declared, options, { activity, terminal });
    const ofNode = declared.endpoints.filter(({ language }) => language === 'node');
    const node =
      ofNode.length === 0
        ? null
        : await installNode({
            folder: declared.folder,
            declared: unique(ofNode.flatMap(({ settings }) => settings.dependencies)),
            exclude: options.exclude,
            cacheDir: options.cacheDir,
            refresh: options.refresh,
            activity,
          });
    activity.end();
    const unusedLock = node === null ? undefined : await unusedLockWarning(declared.folder);
    if (unusedLock !== undefined) terminal.warn(unusedLock);
    warnOfExcluded(options, [...python.known, ...(await nodeNames(declared.folder, ofNode))], terminal);
    return {
      layers: [...python.layers, ...(node === null ? [] : [node.layer])],
      files: python.files,
      promised: python.promised,
      compiledFor: python.compiledFor,
      replacesNodeModules: node !== null,
    };
  } finally {
    activity.end();
  }
}

interface Shown {
  readonly activity: Activity;
  readonly terminal: Terminal;
}

async function installForPython(
  { folder, endpoints, pythonVersion }: DeclaredApplication,
  options: InstallOptions,
  { activity, terminal }: Shown,
): Promise<Omit<InstalledPackages, 'replacesNodeModules'> & { readonly known: readonly string[] }> {
  const own = endpoints.filter(({ language }) => language === 'python');
  const named = options.python === undefined ? await namedPython(folder) : undefined;
  const version = options.python ?? named ?? pythonVersion;
  if (own.length === 0 || version === null)
    return { layers: [], files: await emptyRequirements(folder), promised: new Map(), compiledFor: '', known: [] };
  const base = options.bundleBasePackages ? [] : preinstalledPackages;
  const leaveOut = new Set([...base, ...options.exclude].map(normalised));
  if (named !== undefined && named !== pythonVersion)
    terminal.step(`building for Python ${named} (.python-version); this machine reads the sources with ${pythonVersion ?? 'none'}`);
  await mustAllow(folder, version);
  for (const { file, versions } of own.flatMap(({ requiresPython = [] }) => requiresPython)) mustSatisfy(versions, version, file);
  const project = await readPythonProject(folder, options.lookUp, hostMarkers(version));
  for (const text of project.warnings) terminal.warn(text);
  const requested = requirementsFor(folder, project, own);
  // Hosts without the base image also lack what the code imports without requesting it.
  const imported = options.bundleBasePackages ? importedBasePackages(own, requested.all) : [];
  const shared = [...requested.shared, ...imported];
  const all = [...requested.all, ...imported];
  const wanted = all.filter((each) => !leaveOut.has(requirementName(each)));
  const installed =
    wanted.length === 0
      ? null
      : await installPython({
          ...{ folder, project, leaveOut, version, activity, terminal },
          requirements: wanted,
          ownVersion: pythonVersion,
          isForHere: false,
          cacheDir: options.cacheDir,
          refresh: options.refresh,
        });
  activity.end();
  for (const text of installed?.notes.warnings ?? []) terminal.warn(text);
  const needs = new Map(Object.entries(installed?.notes.needs ?? {}).map(([name, others]) => [name, new Set(others)] as const));
  const promisedTo = ({ settings, imports }: DeclaredEndpoint): string[] => {
    const roots = [...shared, ...settings.dependencies].map(requirementName);
    const reached = reachable(roots, needs, new Set());
    return preinstalledPackages.filter((name) => (leaveOut.has(name) && reached.has(name)) || (imports.includes(name) && !isBundled(name)));
  };
  const isBundled = (name: string): boolean =>
    !leaveOut.has(name) && (needs.has(name) || all.some((each) => requirementName(each) === name));
  const pinned = installed?.notes.pinned ?? [];
  const promised = new Map(own.map((endpoint) => [endpoint.name, promisedTo(endpoint)] as const));
  const names = preinstalledPackages.filter(
    (name) => !options.exclude.map(normalised).includes(name) && [...promised.values()].some((each) => each.includes(name)),
  );
  if (names.length > 0)
    terminal.step(
      await leftOutText({ ...{ folder, names, version }, requirements: all, indexes: project.indexes, cacheDir: options.cacheDir }),
    );
  return {
    layers: installed === null ? [] : [installed.layer],
    files: [requirementsOf(pinned)],
    promised,
    compiledFor: installed?.notes.isCompiled === true ? version : '',
    known: [...needs.keys(), ...all.map(requirementName), ...own.flatMap(({ imports }) => imports)],
  };
}

/**
 * Returns `requirements.txt` of an artifact without installed Python packages: the folder's own if it exists, else an
 * empty file.
 */
export async function emptyRequirements(folder: string): Promise<GeneratedFile[]> {
  const found = await stat(join(folder, REQUIREMENTS)).catch(() => null); // absent
  return found?.isFile() === true ? [] : [requirementsOf([])];
}

/** The exact versions that pip installed. `node_modules` itself lists npm packages. */
function requirementsOf(pinned: readonly string[]): GeneratedFile {
  return { path: REQUIREMENTS, content: pinned.map((line) => `${line}\n`).join('') };
}

/** A name that no endpoint requests is most likely a mistake; so is an npm package that only another package needs. */
function warnOfExcluded({ exclude }: InstallOptions, known: readonly string[], terminal: Terminal): void {
  const names = new Set([...known, ...preinstalledPackages].map(normalised));
  for (const name of exclude) {
    if (names.has(normalised(name))) continue;
    const near = closest(name, [...names]);
    terminal.warn(`--exclude: no endpoint uses the package ${name}${near === null ? '' : `; did you mean ${near}?`}`);
  }
}

async function nodeNames(folder: string, endpoints: readonly DeclaredEndpoint[]): Promise<string[]> {
  if (endpoints.length === 0) return [];
  return [...Object.keys(await dependenciesOf(folder)), ...endpoints.flatMap(({ settings }) => settings.dependencies.map(nameOf))];
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}

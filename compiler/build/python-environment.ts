/**
 * The Python packages of a project, installed for this machine: what `capstan run` starts workers with. One environment
 * for the same requirements, lock file and Python; builds and environments share uv's cache of packages.
 */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { preinstalledPackages } from '../../lib/base-images.ts';
import { createActivity } from '../../terminal/activity.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import type { DeclaredApplication } from '../discovery/declared.ts';
import { cachedFolder } from './cached-folders.ts';
import { PYTHON_PACKAGES } from '../artifact/generated.ts';
import { localMarkers } from './markers.ts';
import { installInto, keyOf, notesSchema, pythonPath } from './python-packages.ts';
import { importedBasePackages, readPythonProject, requirementsFor } from './python-project.ts';
import { SCRIPTS } from './python-scripts.ts';
import { normalised, requirementName } from './python-names.ts';
import { mustAllow, mustSatisfy } from './python-version.ts';
import { runInstaller } from '../programs/run-installer.ts';

/** Each may take gigabytes. */
const LIMITS = { folders: 8, bytes: 20_000_000_000 };

export interface PythonEnvironment {
  /** Folder of the packages, for PYTHONPATH. It is shared: nothing may be written there. */
  readonly path: string;
  /** Folder of their programs, for PATH. */
  readonly scripts: string;
  /** Path of the Python that they are installed for. */
  readonly python: string;
  /** False when it was there already. */
  readonly isNew: boolean;
}

export interface EnvironmentOptions {
  /** Folder of the tool's cache, absolute. */
  readonly cacheDir: string;
  /** Variables of the shell and of `.env`, for `${NAME}` in requirements files. */
  readonly lookUp: (name: string) => string | undefined;
  /** Installs again what is there. */
  readonly refresh?: boolean;
}

/**
 * Returns the environment of a project's Python endpoints, and installs it if it is not there; null without packages.
 * Packages of the base image that this machine's Python has are not installed again.
 * @throws CapstanError as a build does when packages cannot be installed.
 */
export async function environmentFor(
  { folder, endpoints, pythonVersion }: Pick<DeclaredApplication, 'folder' | 'endpoints' | 'pythonVersion'>,
  options: EnvironmentOptions,
  terminal: Terminal,
): Promise<PythonEnvironment | null> {
  const own = endpoints.filter(({ language }) => language === 'python');
  if (own.length === 0 || pythonVersion === null) return null;
  await mustAllow(folder, pythonVersion, 'here');
  for (const { file, versions } of own.flatMap(({ requiresPython = [] }) => requiresPython))
    mustSatisfy(versions, pythonVersion, file, 'here');
  const project = await readPythonProject(folder, options.lookUp, localMarkers(pythonVersion));
  for (const text of project.warnings) terminal.warn(text);
  const { all } = requirementsFor(folder, project, own);
  // An import of a base package needs no requirement: hosts have it, and so must this machine.
  const imported = importedBasePackages(own, all);
  if (all.length + imported.length === 0) return null;
  const { python, has } = await thisPython(folder);
  const leaveOut = new Set(has.map(normalised));
  const requirements = [...all, ...imported].filter((each) => !leaveOut.has(requirementName(each)));
  if (requirements.length === 0) return null;
  const activity = createActivity(terminal);
  const order = {
    ...{ folder, project, requirements, leaveOut, activity, terminal },
    version: pythonVersion,
    ownVersion: pythonVersion,
    isForHere: true,
    cacheDir: options.cacheDir,
    refresh: options.refresh ?? false,
  };
  try {
    const made = await cachedFolder({
      root: join(options.cacheDir, 'environments'),
      key: { environment: await keyOf(order), python },
      refresh: order.refresh,
      notes: notesSchema,
      limits: LIMITS,
      waiting: (process) => activity.begin(`waiting for process ${process}, which installs the same packages`),
      make: async (target) => {
        const notes = await installInto(order, join(target, PYTHON_PACKAGES));
        return { bytes: await sizeOf(target), notes };
      },
    });
    activity.end();
    for (const text of made.notes.warnings) terminal.warn(text);
    const path = join(made.folder, PYTHON_PACKAGES);
    return { path, scripts: join(path, SCRIPTS), python, isNew: made.isNew };
  } finally {
    activity.end();
  }
}

/** Finds the folders of packages only, as importing torch would take seconds. */
const PROGRAM = `
import importlib.util, json, sys
print(json.dumps({"python": sys.executable, "has": [name for name in sys.argv[1:] if importlib.util.find_spec(name) is not None]}))
`;

async function thisPython(folder: string): Promise<{ readonly python: string; readonly has: readonly string[] }> {
  const { ok, stdout } = await runInstaller('python3', ['-I', '-c', PROGRAM, ...preinstalledPackages], { cwd: folder });
  if (!ok) return { python: await pythonPath(folder), has: [] };
  return JSON.parse(stdout) as { python: string; has: string[] };
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += (await lstat(join(entry.parentPath, entry.name))).size;
  return bytes;
}

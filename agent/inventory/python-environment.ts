/**
 * The Python of this host's workers: a virtual environment that has the packages of base images, as far as the host has them, and what
 * they require. Without it, whatever somebody installed on the host would be importable, and a release that forgets a requirement would
 * run on one host and fail on the next.
 */
import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { preinstalledPackages } from '../../lib/base-images.ts';
import { messageOf } from '../../lib/to-error.ts';

const PROGRAM = fileURLToPath(new URL('make_environment.py', import.meta.url));
const TIMEOUT_MS = 20_000;
/** Of a launcher such as pyenv's, which has no Python to start. */
export const NO_PROGRAM = 127;
/** Packages of a user's own, which other users of the host, and so most workers, do not have. */
const WITHOUT_USER_SITE = { PYTHONNOUSERSITE: '1' };

export interface WorkerEnvironments {
  /** The environment of workers that see what the agent sees. */
  readonly own: Readonly<Record<string, string>>;
  /** The same for workers with a user of their own: the first Python that every user can run. */
  readonly everyone: Readonly<Record<string, string>>;
  /** Folders of the environments. */
  readonly folders: readonly string[];
  /** Brings them up to date with what was installed on the host since. */
  refresh(): Promise<void>;
}

export interface PythonEnvironmentOptions {
  /** The environment of workers without it. */
  readonly env: Readonly<Record<string, string>>;
  /** Folders that may hold it; the first that is writable does. */
  readonly folders: readonly string[];
  readonly log: { warn(fields: object, message: string): void };
}

interface Made {
  readonly version: string;
  /** Of its programs; empty where it could not be made. */
  readonly bin: string;
  readonly isForEveryone: boolean;
  readonly problem: string;
}

/** Makes the environments. Without Python the variables are those of the host. */
export async function openPythonEnvironments(options: PythonEnvironmentOptions): Promise<WorkerEnvironments> {
  const base = { ...options.env, ...WITHOUT_USER_SITE };
  const made: Made[] = [];
  const pythons: string[] = [];
  for (const python of pythonsOn(options.env['PATH'] ?? '')) {
    const one = await make(python, base, options);
    pythons.push(python);
    if (one !== undefined) made.push(one);
    if (one?.isForEveryone === true) break;
  }
  const [first] = made;
  return {
    own: within(base, first),
    everyone: within(base, made.find(({ isForEveryone }) => isForEveryone) ?? first),
    folders: made.filter(({ bin }) => bin !== '').map(({ bin }) => dirname(bin)),
    async refresh() {
      await Promise.all(pythons.map(async (python) => make(python, base, options)));
    },
  };
}

/**
 * Makes the environment of workers that a developer runs: of the first Python on PATH, with `packages` besides those of base images.
 * Returns its folder of programs; undefined without Python, and where workers have the Python as it is, because it is one that the
 * developer chose for a project: a virtual environment, or one of conda.
 */
export async function openLocalEnvironment(options: PythonEnvironmentOptions, packages: readonly string[]): Promise<string | undefined> {
  const [python] = pythonsOn(options.env['PATH'] ?? '');
  if (python === undefined) return undefined;
  const made = await make(python, { ...options.env, ...WITHOUT_USER_SITE }, options, { packages, unlessChosen: true });
  return made?.bin || undefined;
}

async function make(
  python: string,
  env: Readonly<Record<string, string>>,
  { folders, log }: PythonEnvironmentOptions,
  { packages = [], unlessChosen = false }: { readonly packages?: readonly string[]; readonly unlessChosen?: boolean } = {},
): Promise<Made | undefined> {
  try {
    const args = [...(unlessChosen ? ['--unless-chosen'] : []), ...folders, '--', ...preinstalledPackages, ...packages];
    // Isolated: what it reads is the host's, whatever the variables say.
    const { stdout } = await promisify(execFile)(python, ['-I', PROGRAM, ...args], { env, cwd: '/', timeout: TIMEOUT_MS });
    const made = JSON.parse(stdout) as Made;
    if (made.problem !== '') log.warn({ python, problem: made.problem }, PACKAGES_SHARED);
    return made;
  } catch (error) {
    if ((error as { code?: unknown }).code !== NO_PROGRAM) log.warn({ python, error: messageOf(error) }, PACKAGES_SHARED);
    return undefined;
  }
}

const PACKAGES_SHARED = 'no virtual environment of this Python: workers that it runs see all packages of the host';

/** Its programs come first; a Python without an environment is left where it is. */
function within(env: Readonly<Record<string, string>>, made: Made | undefined): Record<string, string> {
  return made === undefined || made.bin === '' ? { ...env } : { ...env, PATH: [made.bin, env['PATH'] ?? ''].join(delimiter) };
}

function pythonsOn(path: string): string[] {
  return path
    .split(delimiter)
    .filter((folder) => folder.startsWith('/'))
    .map((folder) => join(folder, 'python3'))
    .filter(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false; // the next folder may have it
  }
}

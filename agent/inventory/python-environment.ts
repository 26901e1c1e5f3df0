/**
 * The Python of this host's workers: a virtual environment that has the packages of base images, as far as the host has them, and what
 * they require. Without it, whatever somebody installed on the host would be importable, and a release that forgets a requirement would
 * run on one host and fail on the next.
 */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { preinstalledPackages } from '../../lib/base-images.ts';
import { messageOf } from '../../lib/to-error.ts';

const PROGRAM = fileURLToPath(new URL('make_environment.py', import.meta.url));
const TIMEOUT_MS = 20_000;
/** Of a launcher such as pyenv's, which has no Python to start. */
export const NO_PROGRAM = 127;
/** How long after a change a Python that fails is tried again at each look, ms: it may be being installed. */
const INSTALLING_MS = 60_000;
/** Packages of a user's own, which other users of the host, and so most workers, do not have. */
const WITHOUT_USER_SITE = { PYTHONNOUSERSITE: '1' };

export interface WorkerEnvironments {
  /** The environment of workers that see what the agent sees; that of the last `refresh`. */
  readonly own: Readonly<Record<string, string>>;
  /** The same for workers with a user of their own: the first Python that every user can run. */
  readonly everyone: Readonly<Record<string, string>>;
  /** Folders of the environments. */
  readonly folders: readonly string[];
  /** Whether a Python on PATH is new, gone or another file since the last `refresh`. Never rejects. */
  hasChanged(): Promise<boolean>;
  /** Brings them up to date with what was installed on the host, and removed, since. Never rejects. */
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
  const path = options.env['PATH'] ?? '';
  let marks = await marksOf(path);
  let changedAt = -Infinity;
  let { found, isComplete } = await makeAll(path, base, options);
  return {
    get own() {
      return within(base, firstOf(found));
    },
    get everyone() {
      return within(base, forEveryone(found) ?? firstOf(found));
    },
    get folders() {
      return [...found.values()].filter(({ bin }) => bin !== '').map(({ bin }) => dirname(bin));
    },
    async hasChanged() {
      return (await marksOf(path)) !== marks || (!isComplete && performance.now() - changedAt < INSTALLING_MS);
    },
    async refresh() {
      // Before: what is installed meanwhile is found by the next look.
      const now = await marksOf(path);
      if (now !== marks) changedAt = performance.now();
      marks = now;
      ({ found, isComplete } = await makeAll(path, base, options, found));
    },
  };
}

/** By the path of each Python, up to the first that every user can run. */
type MadePythons = ReadonlyMap<string, Made>;

function firstOf(found: MadePythons): Made | undefined {
  return [...found.values()][0];
}

function forEveryone(found: MadePythons): Made | undefined {
  return [...found.values()].find(({ isForEveryone }) => isForEveryone);
}

async function makeAll(
  path: string,
  base: Readonly<Record<string, string>>,
  options: PythonEnvironmentOptions,
  former: MadePythons = new Map<string, Made>(),
): Promise<{ readonly found: MadePythons; readonly isComplete: boolean }> {
  let isComplete = true;
  const onFailure = (): void => void (isComplete = false);
  const found = new Map<string, Made>();
  for (const { python } of await pythonsOn(path)) {
    const made = await make(python, base, options, { former: former.get(python), onFailure });
    if (made !== undefined) found.set(python, made);
    if (made?.isForEveryone === true) break;
  }
  return { found, isComplete };
}

/**
 * Makes the environment of workers that a developer runs: of the first Python on PATH, with `packages` besides those of base images.
 * Returns its folder of programs; undefined without Python, and where workers have the Python as it is, because it is one that the
 * developer chose for a project: a virtual environment, or one of conda.
 */
export async function openLocalEnvironment(options: PythonEnvironmentOptions, packages: readonly string[]): Promise<string | undefined> {
  const [first] = await pythonsOn(options.env['PATH'] ?? '');
  if (first === undefined) return undefined;
  const made = await make(first.python, { ...options.env, ...WITHOUT_USER_SITE }, options, { packages, unlessChosen: true });
  return made?.bin || undefined;
}

interface MakeOptions {
  readonly packages?: readonly string[];
  readonly unlessChosen?: boolean;
  /** What was made of this Python before: it stays where this fails now. */
  readonly former?: Made | undefined;
  /** Called where it is a Python that fails. */
  readonly onFailure?: () => void;
}

/** Undefined where this is no Python. */
async function make(
  python: string,
  env: Readonly<Record<string, string>>,
  { folders, log }: PythonEnvironmentOptions,
  { packages = [], unlessChosen = false, former, onFailure }: MakeOptions = {},
): Promise<Made | undefined> {
  try {
    const args = [...(unlessChosen ? ['--unless-chosen'] : []), ...folders, '--', ...preinstalledPackages, ...packages];
    // Isolated: what it reads is the host's, whatever the variables say.
    const { stdout } = await promisify(execFile)(python, ['-I', PROGRAM, ...args], { env, cwd: '/', timeout: TIMEOUT_MS });
    const made = JSON.parse(stdout) as Made;
    if (made.problem === '') return made;
    log.warn({ python, problem: made.problem }, PACKAGES_SHARED);
    return former?.version === made.version ? former : made;
  } catch (error) {
    if ((error as { code?: unknown }).code === NO_PROGRAM) return undefined;
    onFailure?.();
    log.warn({ python, error: messageOf(error) }, PACKAGES_SHARED);
    return former;
  }
}

const PACKAGES_SHARED = 'no virtual environment of this Python: workers that it runs see all packages of the host';

/** Its programs come first; a Python without an environment is left where it is. */
function within(env: Readonly<Record<string, string>>, made: Made | undefined): Record<string, string> {
  return made === undefined || made.bin === '' ? { ...env } : { ...env, PATH: [made.bin, env['PATH'] ?? ''].join(delimiter) };
}

interface FoundPython {
  readonly python: string;
  /** Another one for another file. */
  readonly mark: string;
}

async function pythonsOn(path: string): Promise<FoundPython[]> {
  const found = await Promise.all(
    path
      .split(delimiter)
      .filter((folder) => folder.startsWith('/'))
      .map((folder) => programAt(join(folder, 'python3'))),
  );
  return found.filter((each) => each !== undefined);
}

async function programAt(python: string): Promise<FoundPython | undefined> {
  try {
    await access(python, constants.X_OK);
    const { dev, ino, mtimeMs } = await stat(python);
    return { python, mark: `${python} ${dev} ${ino} ${mtimeMs}` };
  } catch {
    return undefined; // the next folder may have it
  }
}

async function marksOf(path: string): Promise<string> {
  return (await pythonsOn(path)).map(({ mark }) => mark).join('\n');
}

/** The host's Python: its version, and its versions of the packages that base images contain. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { preinstalledPackages } from '../../lib/base-images.ts';
import { isErrno } from '../../lib/to-error.ts';
import { NO_PROGRAM } from './python-environment.ts';

const NAMES = preinstalledPackages;
const TIMEOUT_MS = 20_000;

export interface HostPython {
  /** `3.11.2`; empty without Python. */
  readonly version: string;
  /** Versions by name; empty where Python is too old to report them. */
  readonly packages: Readonly<Record<string, string>>;
}

/**
 * Reads the installer's metadata; importing torch would take seconds and gigabytes. Python's own metadata reader takes
 * five times as long to load as Python itself, so the folders are searched for the names first; only entries that are
 * not folders (archives of packages) need the reader.
 */
const PROGRAM = `
import json, os, sys
names = sys.argv[1:]
def may_hold(path):
    try:
        entries = os.listdir(path or ".")
    except OSError:
        return os.path.isfile(path)
    return any(entry.lower().startswith(tuple(names)) for entry in entries)
found = {}
if any([may_hold(path) for path in sys.path]):
    try:
        from importlib.metadata import PackageNotFoundError, version
        for name in names:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                pass
    except ImportError:
        pass
print(json.dumps({"version": sys.version.split()[0], "packages": found}))
`;

const NONE: HostPython = { version: '', packages: {} };

/** Reads as the user `nobody`, who can run what every user can: for a root agent whose workers are users of their own. */
export const AS_NOBODY = { uid: 65_534, gid: 65_534 };

/**
 * Returns what workers find; none where there is no Python. `env`: the environment in which the workers' Python runs; `user`: absent
 * where it runs as this user. Rejects where a Python fails.
 */
export async function readHostPython(env: Readonly<Record<string, string>>, user: Partial<typeof AS_NOBODY> = {}): Promise<HostPython> {
  let stdout: string;
  try {
    // Without the packages of the agent's own user: workers have another one, or a home of their own.
    ({ stdout } = await promisify(execFile)('python3', ['-s', '-c', PROGRAM, ...NAMES], { ...user, env, cwd: '/', timeout: TIMEOUT_MS }));
  } catch (error) {
    // EACCES: those on PATH are in folders that this user cannot enter.
    if (isErrno(error, 'ENOENT', 'EACCES') || (error as { code?: unknown }).code === NO_PROGRAM) return NONE;
    throw error;
  }
  const { version, packages } = JSON.parse(stdout) as { version: string; packages: Record<string, unknown> };
  const texts = Object.entries(packages).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return { version, packages: Object.fromEntries(texts) };
}

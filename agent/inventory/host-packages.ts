/** The packages that base images carry, as far as this host's Python has them. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** What the tool leaves out of artifacts (SPEC.md, Development server and local preview). */
const NAMES = ['torch', 'torchvision', 'torchaudio', 'numpy', 'triton'];
const TIMEOUT_MS = 20_000;

/** Reads what the installer wrote; importing torch would take seconds and gigabytes. */
const PROGRAM = `
import json, sys
try:
    from importlib.metadata import PackageNotFoundError, version
except ImportError:
    sys.exit("no importlib.metadata")
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
`;

/** Versions by name; empty where there is no Python, or one that is too old to be of use. */
export async function readHostPackages(env: Readonly<Record<string, string>>): Promise<Record<string, string>> {
  try {
    const { stdout } = await promisify(execFile)('python3', ['-c', PROGRAM, ...NAMES], { env, timeout: TIMEOUT_MS });
    const found = JSON.parse(stdout) as Record<string, unknown>;
    return Object.fromEntries(Object.entries(found).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
  } catch {
    // No Python is a normal case.
    return {};
  }
}

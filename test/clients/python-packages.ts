/** Python packages for tests, installed once into the cache of this checkout. */
import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const cache = join(import.meta.dirname, '../../node_modules/.cache/python');

/** Where the package is, for PYTHONPATH; or why it cannot be had on this machine. */
export async function pythonPackage(
  requirement: string,
  limitMs: number,
): Promise<{ readonly path: string } | { readonly missing: string }> {
  let version: string;
  try {
    const { stdout } = await run('python3', ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])']);
    version = stdout.trim();
  } catch (error) {
    return { missing: `there is no Python: ${firstLine(error)}` };
  }
  const path = join(cache, `${requirement.replaceAll(/[^\w.]+/g, '-')}-py${version}`);
  if (await exists(path)) return { path };
  await mkdir(cache, { recursive: true });
  const fresh = await mkdtemp(join(cache, 'new-'));
  try {
    // Python compiles what it imports, and keeps it: most of these modules nobody imports.
    const args = [
      '-m',
      'pip',
      'install',
      '--no-compile',
      '--quiet',
      '--disable-pip-version-check',
      '--no-input',
      '--no-warn-script-location',
    ];
    await run('python3', [...args, '--target', fresh, requirement], { timeout: limitMs });
    // Whoever else installs it meanwhile may be first.
    await rename(fresh, path).catch(async (error: unknown) => {
      if (!(await exists(path))) throw error;
    });
    return { path };
  } catch (error) {
    return { missing: `pip cannot install ${requirement}: ${firstLine(error)}` };
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function firstLine(error: unknown): string {
  const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
  const killed = error instanceof Error && 'killed' in error && error.killed === true ? 'it took too long; ' : '';
  return killed + ((said || String(error)).trim().split('\n').at(-1) ?? '');
}

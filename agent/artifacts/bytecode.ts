/** Compiles the Python sources of a build once, for all its workers: those that may not write there would do it at each start. */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { isErrno } from '../../lib/to-error.ts';

const PROGRAM = fileURLToPath(new URL('compile_build.py', import.meta.url));
/** A build of the largest size takes less; ms. */
const TIMEOUT_MS = 600_000;
/** Processor time for one source; a longer one is compiled by those that import it, s. */
const SOURCE_SECONDS = 20;
const PYTHON_FILES = /^python_packages$|\.py$/;

interface CompileOptions {
  /** The environment in which the workers' Python runs. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly sourceSeconds?: number;
}

/**
 * Returns the bytes that were written; 0 without Python on this host, or in the build. Compiled files fit the Python that compiled
 * them only; containers with another one ignore them. Rejects where it ended early, for which `signal` is one reason: what it has
 * written stays.
 */
export async function compileBuild(folder: string, { env, signal, sourceSeconds = SOURCE_SECONDS }: CompileOptions): Promise<number> {
  if (!(await readdir(folder)).some((name) => PYTHON_FILES.test(name))) return 0;
  try {
    // Isolated: no module of the build or of a user precedes those of Python. Workers go first.
    const args = ['-n', '10', 'python3', '-I', PROGRAM, String(sourceSeconds)];
    const { stdout } = await promisify(execFile)('nice', args, { cwd: folder, env, signal, timeout: TIMEOUT_MS, killSignal: 'SIGKILL' });
    return Number(stdout.trim()) || 0;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return 0;
    throw error;
  }
}

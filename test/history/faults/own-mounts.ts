/** Runs this program again with mounts of its own: disks and namespaces that it makes go with its last process, however it ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const MARK = 'CAPSTAN_HISTORY_OWN_MOUNTS';

export function hasOwnMounts(): boolean {
  return process.env[MARK] === '1';
}

/** Resolves with the exit code of the second run. */
export async function runWithOwnMounts(): Promise<number> {
  const args = ['--mount', '--propagation', 'private', process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn('unshare', args, { stdio: 'inherit', env: { ...process.env, [MARK]: '1' } });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void child.kill(signal));
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

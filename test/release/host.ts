/** What this host can do for the tests of releases. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

export function isRunnable(command: string, args: readonly string[]): Promise<boolean> {
  return run(command, [...args]).then(
    () => true,
    () => false,
  );
}

/** The start of a command line whose processes end with it, and why they see the checkout and the network all the same. */
export interface Hidden {
  readonly command: string;
  readonly args: readonly string[];
  readonly reason: string;
}

/** Namespaces of their own for mounts, the network and processes, where this user may make them. */
export async function withoutCheckout(): Promise<Hidden> {
  const args = ['--mount', '--net', '--pid', '--fork', '--mount-proc', '--kill-child=SIGTERM'];
  if (await isRunnable('unshare', [...args, 'true'])) return { command: 'unshare', args, reason: '' };
  return { command: 'env', args: [], reason: 'namespaces cannot be made here (that needs root and unshare)' };
}

/** A process that leads its own group, ended with everything it started. */
import { isErrno } from '../../lib/to-error.ts';

/** Kills every process of the group; false when none was left. */
export function killGroup(leader: number): boolean {
  return signalGroup(leader, 'SIGKILL');
}

/** Sends a signal to every process of the group; false when none was left. */
export function signalGroup(leader: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-leader, signal);
    return true;
  } catch (error) {
    if (isErrno(error, 'ESRCH')) return false;
    throw error;
  }
}

const POLL_MS = 5;
const POLLS = 100;

/**
 * Kills the group and waits, half a second at most, until the kernel has taken its last process
 * away: only then are its devices free. (A zombie that nobody reaps counts as a process.)
 */
export async function endGroup(leader: number): Promise<void> {
  for (let polls = 0; polls < POLLS && killGroup(leader); polls += 1) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** How a worker's process ended, for people. */
export function exitText(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `the worker's process exited with code ${code ?? 'unknown'}` : `the worker's process was killed by ${signal}`;
}

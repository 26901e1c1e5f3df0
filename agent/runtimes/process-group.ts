/** A process that leads its own group and is ended together with all processes it started. */
import { isErrno } from '../../lib/to-error.ts';

/** Kills every process of the group; returns false when none was left. */
export function killGroup(leader: number): boolean {
  return signalGroup(leader, 'SIGKILL');
}

/** Sends a signal to every process of the group; returns false when none was left. */
export function signalGroup(leader: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-leader, signal);
    return true;
  } catch (error) {
    if (isErrno(error, 'ESRCH')) return false;
    throw error;
  }
}

/** Whether this process may signal another one: not one of another user, unless as root. A process that is gone counts as one that it may. */
export function maySignal(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !isErrno(error, 'EPERM');
  }
}

const POLL_MS = 5;
const POLLS = 100;

/**
 * Kills the group and waits, at most half a second, until the kernel has removed its last process: only then are its
 * devices free. (An unreaped zombie counts as a process.)
 */
export async function endGroup(leader: number): Promise<void> {
  for (let polls = 0; polls < POLLS && killGroup(leader); polls += 1) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Readable text of how a process ended. */
export function exitText(code: number | null, signal: NodeJS.Signals | null, name = "the worker's process"): string {
  return signal === null ? `${name} exited with code ${code ?? 'unknown'}` : `${name} was killed by ${signal}`;
}

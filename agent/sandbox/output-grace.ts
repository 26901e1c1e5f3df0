/** Ends the output of a process that has exited, although others may hold its pipes open. */
import type { ChildProcess } from 'node:child_process';

/** Time for what is left in the pipes, ms. */
const OUTPUT_GRACE_MS = 1_000;

/** Destroys the output pipes a moment after the process has exited: processes that escaped could hold them forever. */
export function endOutputLater(child: Pick<ChildProcess, 'stdout' | 'stderr'>): void {
  setTimeout(() => {
    child.stdout?.destroy();
    child.stderr?.destroy();
  }, OUTPUT_GRACE_MS).unref();
}

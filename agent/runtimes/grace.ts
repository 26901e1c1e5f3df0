/**
 * The grace that a stopped handler has before force. It counts only time in which the handler could have obeyed: on a
 * busy machine neither this process nor the worker's may get the processor for a second, and force would then cost a
 * worker, and its other jobs, that did nothing wrong.
 */
import { readStat, type ProcessStat } from './process-stat.ts';

/** Time is counted in steps of this length, ms … */
const STEP_MS = 100;
/** … each of which counts for at most this much, however long it took: in the remainder this process was suspended. */
const LONGEST_STEP_MS = 250;
/** A process that wants the processor must have had it for this share of its grace. */
const FAIR_SHARE = 0.1;
/** States of a process that could not act: runnable, stopped, in an uninterruptible wait of the kernel. */
const HELD_UP: ReadonlySet<string> = new Set(['R', 'T', 'D']);
/** Upper bound of the grace, as a multiple, even for a starved process. */
const PATIENCE = 10;

/**
 * Calls `then` when the grace is over; returns a function that cancels it. `pid`: the process that must act, if it is
 * another one. `catchUp` resolves when what that process has said until now was read, if others read it first.
 */
export function afterGrace(ms: number, then: () => void, pid?: number, catchUp?: () => Promise<void>): () => void {
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  let counted = 0;
  let armedAt = 0;
  const before = pid === undefined ? null : readStat(pid);
  const step = async (): Promise<void> => {
    counted += Math.min(LONGEST_STEP_MS, performance.now() - armedAt);
    // Events that have already arrived are handled first (invariant 5).
    await new Promise((resolve) => setImmediate(resolve));
    const starved = counted >= ms && counted < ms * PATIENCE && isStarved(ms, pid, before);
    if (over) return;
    if (counted < ms || starved) {
      arm();
      return;
    }
    await catchUp?.();
    if (!isOver()) then();
  };
  const isOver = (): boolean => over;
  const arm = (): void => {
    armedAt = performance.now();
    timer = setTimeout(() => void step(), Math.min(STEP_MS, ms));
  };
  arm();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

/** Whether a process that is runnable, stopped or waiting for a disk has hardly had the processor. */
function isStarved(graceMs: number, pid: number | undefined, before: ProcessStat | null): boolean {
  if (pid === undefined || before === null) return false;
  const now = readStat(pid);
  return now !== null && HELD_UP.has(now.state) && now.processorMs - before.processorMs < graceMs * FAIR_SHARE;
}

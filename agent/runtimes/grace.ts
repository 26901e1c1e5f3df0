/**
 * The time that a stopped handler has before force. It is time in which the handler could have
 * obeyed: on a busy machine a second may pass in which neither this process nor the worker's gets
 * the processor, and force would then cost a worker, and its other jobs, that did nothing wrong.
 */
import { readFile } from 'node:fs/promises';

/** Time is counted in steps of this length, ms … */
const STEP_MS = 100;
/** … one of which counts for this much at most, however long it took: in the rest this process stood still. */
const LONGEST_STEP_MS = 250;
/** A process that wants the processor must have had it for this share of its grace. */
const FAIR_SHARE = 0.1;
/** Starved or not, after this many times its grace it is over. */
const PATIENCE = 10;
/** Length of a clock tick of /proc, ms: 100 a second on every Linux that Node runs on. */
const TICK_MS = 10;
/** Fields of /proc/<pid>/stat after the name, counted from 0. */
const USER_FIELD = 11;
const SYSTEM_FIELD = 12;

/** Calls `then` when the grace is over; answers how to call that off. `pid`: the process that shall act, if it is another one. */
export function afterGrace(ms: number, then: () => void, pid?: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  let over = false;
  let counted = 0;
  let armedAt = 0;
  const atStart = pid === undefined ? undefined : processorOf(pid);
  const step = async (): Promise<void> => {
    counted += Math.min(LONGEST_STEP_MS, performance.now() - armedAt);
    // What has already arrived is heard first (DESIGN.md invariant 5).
    await new Promise((resolve) => setImmediate(resolve));
    const starved = counted >= ms && counted < ms * PATIENCE && (await isStarved(ms, pid, await atStart));
    if (over) return;
    if (counted < ms || starved) arm();
    else then();
  };
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

interface Processor {
  /** Runnable, or held back by a signal: it would go on if it were let. */
  readonly wants: boolean;
  readonly ms: number;
}

async function isStarved(graceMs: number, pid: number | undefined, before: Processor | undefined): Promise<boolean> {
  if (pid === undefined || before === undefined) return false;
  const now = await processorOf(pid);
  return now !== undefined && now.wants && now.ms - before.ms < graceMs * FAIR_SHARE;
}

/** What a process has had of the processor; absent when it is gone, or there is no /proc. */
async function processorOf(pid: number): Promise<Processor | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name stands in parentheses and may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  if (state === undefined || state === '') return undefined;
  const ticks = Number(fields[USER_FIELD] ?? 0) + Number(fields[SYSTEM_FIELD] ?? 0);
  return { wants: state === 'R' || state === 'T', ms: ticks * TICK_MS };
}

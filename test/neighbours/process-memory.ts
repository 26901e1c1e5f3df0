/** The resident memory of a process, bytes. */
import { readFileSync, writeFileSync } from 'node:fs';

/** Resets the peak of a process (Linux, proc(5), /proc/pid/clear_refs). */
const RESET_PEAK = '5';

export const residentOf = (pid: number): number => figureOf(pid, 'VmRSS');

/** What a process takes at most from now on, as the kernel counts it: also what it takes for a moment only. */
export function watchPeak(pid: number): () => number {
  writeFileSync(`/proc/${pid}/clear_refs`, RESET_PEAK);
  return () => figureOf(pid, 'VmHWM');
}

function figureOf(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  const figure = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (figure === undefined) throw new Error(`/proc/${pid}/status has no ${name}`);
  return Number(figure) * 1024;
}

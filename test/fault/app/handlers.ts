/** What the fault tests run. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** Takes `ms` milliseconds and gives its input back. */
export async function echo(n: number, ms: number): Promise<{ n: number; ms: number }> {
  await pause(ms);
  return { n, ms };
}

/** Writes its process id as a line to `started`, then waits for the file `gate`; tells which line it was, from 1. */
export async function waitForFile(n: number, started: string, gate: string): Promise<{ n: number; entry: number }> {
  appendFileSync(started, `${process.pid}\n`);
  const entry = readFileSync(started, 'utf8').split('\n').length - 1;
  while (!existsSync(gate)) await pause(10);
  return { n, entry };
}

/** Where `deadly`, takes its whole worker with it, in a way that no code can catch. */
export function killItself(started: string, deadly: boolean): string {
  appendFileSync(started, `${process.pid}\n`);
  if (deadly) process.kill(process.pid, 'SIGKILL');
  return 'alive';
}

/** What the fault tests run. */
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** Takes `ms` milliseconds and gives its input back. */
export async function echo(n: number, ms: number): Promise<{ n: number; ms: number }> {
  await pause(ms);
  return { n, ms };
}

/** Writes its process id as a line to `started`, then waits for the file `gate`; gives `n` back. */
export async function waitForFile(n: number, started: string, gate: string): Promise<number> {
  appendFileSync(started, `${process.pid}\n`);
  while (!existsSync(gate)) await pause(10);
  return n;
}

/** Where `deadly`, takes its whole worker with it, in a way that no code can catch. */
export function killItself(started: string, deadly: boolean): string {
  appendFileSync(started, `${process.pid}\n`);
  if (deadly) process.kill(process.pid, 'SIGKILL');
  return 'alive';
}

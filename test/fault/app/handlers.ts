/** What the fault tests run. */
import { randomUUID } from 'node:crypto';
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

/** Fails for as long as the file `gate` is missing. */
export function failWithoutFile(n: number, gate: string): { n: number } {
  if (!existsSync(gate)) throw new Error('no gate yet');
  return { n };
}

/** Yields `count` chunks, `ms` milliseconds apart; each tells its place and the call it is of. */
export async function* numbers(count: number, ms: number): AsyncGenerator<{ call: string; index: number }> {
  const call = randomUUID();
  for (let index = 0; index < count; index += 1) {
    yield { call, index };
    await pause(ms);
  }
}

/** Of an endpoint that has no worker: never entered. */
export function park(n: number): { n: number } {
  return { n };
}

/** What the fleet tests run. */
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** Holds its device until the file `gate` is there; tells which one it has. */
export async function hold(gate: string): Promise<{ devices: string; pid: number }> {
  while (!existsSync(gate)) await pause(10);
  return { devices: process.env['CUDA_VISIBLE_DEVICES'] ?? '', pid: process.pid };
}

/** The same, in workers that stay. */
export const holdWarm = (gate: string): ReturnType<typeof hold> => hold(gate);

/** The same, with two devices. */
export const holdPair = (gate: string): ReturnType<typeof hold> => hold(gate);

/** Never called: only jobs of low priority come. */
export function patient(n: number): number {
  return n;
}

/** Tells which release it is of. */
export async function versioned(): Promise<{ version: string }> {
  await pause(5);
  return { version: process.env['VERSION'] ?? '' };
}

/** Its endpoint lets few requests in, and more for each running worker: one runs until the file `gate` is there. */
export async function limited(gate: string): Promise<string> {
  await hold(gate);
  return 'let in';
}

/** The same, with no worker. */
export function paused(): string {
  return 'never';
}

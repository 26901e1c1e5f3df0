/** What the fleet's fault test runs. */
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** Takes `ms` milliseconds and gives its input back. */
export async function echo(n: number, ms: number): Promise<{ n: number; ms: number }> {
  await pause(ms);
  return { n, ms };
}

/** Holds its device until the file `gate` is there; tells which one it has. */
export async function hold(gate: string): Promise<{ devices: string }> {
  while (!existsSync(gate)) await pause(10);
  return { devices: process.env['CUDA_VISIBLE_DEVICES'] ?? '' };
}

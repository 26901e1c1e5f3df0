/** What runs in the night: functions that fail, that wait, and that are well. */
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

export function refuse(): never {
  throw new Error('cannot decode image');
}

const fine = (n: number): number => n;
/** A function belongs to one endpoint. */
export const unplaced = (n: number): number => fine(n);
export const hooked = (n: number): number => fine(n);
export const paused = (n: number): number => fine(n);
export const pinned = (n: number): number => fine(n);
export const portable = (n: number): number => fine(n);
export const quiet = (n: number): number => fine(n);
export const busy = (n: number): number => fine(n);

/** Runs until the file `gate` is there. */
export async function hold(gate: string): Promise<string> {
  while (!existsSync(gate)) await pause(20);
  return 'held';
}

export function broken(): never {
  throw new Error('no such table');
}

export function page(): string {
  return 'well';
}

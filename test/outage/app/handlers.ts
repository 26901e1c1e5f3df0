/** Functions that outages surround. */
import { setTimeout as pause } from 'node:timers/promises';

export function echo(input: unknown): unknown {
  return input;
}

/** Prints a line of `text` as often as requested. */
export function speak(text: string, times: number): number {
  for (let n = 0; n < times; n += 1) console.log(`${text} ${n}`);
  return times;
}

/** Yields a number every 20 ms until it is stopped. */
export async function* ticking(context: { readonly signal: AbortSignal }): AsyncGenerator<number> {
  for (let n = 0; ; n += 1) {
    yield n;
    await pause(20, undefined, { signal: context.signal });
  }
}

/** Has no worker: its jobs wait. */
export const parked = echo;

/**
 * How a neighbour's feeling of an attack is judged.
 *
 * Times: the p99 of its calls is below 250 ms. A machine that is busy with other things, or slow, makes all calls slow; so
 * where the p99 is above, the same calls are measured in the same minute beside a control (as many processors kept busy, and
 * nothing sent to the service), and the attack may cost {@link TIMES_CONTROL} times the control's p99: on an idle machine with
 * two processors that is 10 to 20 ms. What is over at the next attempt was not the attack's; one that stalls the service does so
 * in each.
 *
 * Memory: what a part takes at most during an attack (the kernel's peak of its resident memory) is within 100 MiB of what it
 * took before. Neither depends on the machine's speed, so there is one attempt.
 */
import type { ExecutionContext } from 'ava';

export const MAX_MS = 250;
export const MAX_GROWTH_BYTES = 100 * 1024 * 1024;
export const TIMES_CONTROL = 12;
export const ATTEMPTS = 3;

export function p99(times: readonly number[]): number {
  return times.toSorted((one, other) => one - other)[Math.ceil(0.99 * times.length) - 1] ?? Infinity;
}

/** `attack` and `control` return a p99 each, ms. */
export async function assertCalm(
  t: ExecutionContext,
  name: string,
  attack: () => Promise<number>,
  control: () => Promise<number>,
): Promise<void> {
  const felt: string[] = [];
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const ms = await attack();
    if (ms < MAX_MS) return;
    const permitted = Math.max(MAX_MS, TIMES_CONTROL * (await control()));
    felt.push(`${Math.round(ms)} ms, permitted are ${Math.round(permitted)} ms`);
    if (ms < permitted) return;
  }
  t.fail(`${name}: the p99 of the neighbour was ${felt.join('; then ')}`);
}

export const mebibytes = (bytes: number): number => Math.round(bytes / 1024 / 1024);

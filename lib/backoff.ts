/** Waits between tries to reach a scheduler. */

/** First and longest wait, ms. */
const MIN_MS = 50;
const MAX_MS = 1_000;

/** Returns the wait before retry `attempt` (from 0), ms: doubling, with jitter over its upper half. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const full = Math.min(MAX_MS, MIN_MS * 2 ** Math.min(attempt, 16));
  return full / 2 + (full / 2) * random();
}

/** Durations in classes that grow by the same factor, so that counts of them add up and percentiles follow from the sums. Pure. */

/** Durations by class: how many there were of each. */
export type Durations = Map<number, number>;

/** Classes to the doubling of a duration: a percentile is at most 9 % off. */
const CLASSES = 4;
/** A duration of 300 days. */
export const HIGHEST_CLASS = 140;

/** Class of a duration, ms. */
export function classOf(ms: number): number {
  return Math.min(HIGHEST_CLASS, Math.round(Math.log2(Math.max(0, ms) + 1) * CLASSES));
}

/** The duration in the middle of a class, ms. */
export function durationOf(of: number): number {
  return 2 ** (of / CLASSES) - 1;
}

/** How fast a measured value grows. */

export interface Sample {
  /** Minutes since the start. */
  readonly minute: number;
  readonly value: number;
}

/** The slope by least squares, in units a minute; 0 for fewer than two moments. */
export function slope(samples: readonly Sample[]): number {
  const count = samples.length;
  if (count < 2) return 0;
  const meanMinute = samples.reduce((sum, { minute }) => sum + minute, 0) / count;
  const meanValue = samples.reduce((sum, { value }) => sum + value, 0) / count;
  let covariance = 0;
  let variance = 0;
  for (const { minute, value } of samples) {
    covariance += (minute - meanMinute) * (value - meanValue);
    variance += (minute - meanMinute) ** 2;
  }
  return variance === 0 ? 0 : covariance / variance;
}

/** Samples of the last half of the time that they span. */
export function lastHalf(samples: readonly Sample[]): Sample[] {
  const [first, last] = [samples.at(0)?.minute ?? 0, samples.at(-1)?.minute ?? 0];
  return samples.filter(({ minute }) => minute >= (first + last) / 2);
}

/**
 * Growth of the floor in units a minute: the least value of the last third of the time against that of the third before; 0 for fewer than two
 * moments. Steady growth lifts the floor as fast as the mean. Garbage that waits for its collection does not lift it, although a collection that
 * comes every quarter of an hour gives a slope to any half hour.
 */
export function floorGrowth(samples: readonly Sample[]): number {
  const [first, last] = [samples.at(0)?.minute ?? 0, samples.at(-1)?.minute ?? 0];
  const third = (last - first) / 3;
  if (third === 0) return 0;
  const leastFrom = (from: number, to: number): number =>
    Math.min(...samples.filter(({ minute }) => minute >= from && minute <= to).map(({ value }) => value));
  const [before, after] = [leastFrom(first + third, first + 2 * third), leastFrom(first + 2 * third, last)];
  return Number.isFinite(before) && Number.isFinite(after) ? (after - before) / third : 0;
}

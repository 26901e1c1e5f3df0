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

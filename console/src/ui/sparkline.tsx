/** A small line without axes. */
import type { JSX } from 'preact';

const WIDTH = 120;
const HEIGHT = 24;

export interface SparklineProps {
  /** What it shows, in words. */
  readonly label: string;
  readonly values: readonly number[];
  /** Drawn over the values on the same scale. */
  readonly errors: readonly number[];
  /** What each value is, in words: shown under the pointer. */
  readonly steps: readonly string[];
}

export function Sparkline({ label, values, errors, steps }: SparklineProps): JSX.Element {
  const most = Math.max(1, ...values, ...errors);
  const width = stepWidth(values.length);
  return (
    <svg class="sparkline" role="img" aria-label={label} width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
      <title>{label}</title>
      <polyline class="all" points={points(values, most)} />
      {errors.some((value) => value > 0) && <polyline class="errors" points={points(errors, most)} />}
      {values.map((_, i) => (
        <rect key={i} class="step" x={(i - 0.5) * width} width={width} height={HEIGHT}>
          <title>{steps[i] ?? label}</title>
        </rect>
      ))}
    </svg>
  );
}

function points(values: readonly number[], most: number): string {
  const step = stepWidth(values.length);
  return values.map((value, i) => `${(i * step).toFixed(1)},${(HEIGHT - 1 - (value / most) * (HEIGHT - 2)).toFixed(1)}`).join(' ');
}

function stepWidth(count: number): number {
  return count < 2 ? 0 : WIDTH / (count - 1);
}

import type { Durations } from '../../api/graphql/gen/operations.ts';
import type { JSX } from 'preact';

import { duration } from '../../ui/format.ts';
import { Plot } from '../../ui/plot.tsx';
import { DURATIONS } from '../../ui/plot-scales.ts';

interface LatencyProps {
  readonly title: string;
  readonly durations: Durations;
  /** When each step begins, ms since 1970. */
  readonly at: readonly number[];
  /** The length of a step, s. */
  readonly step: number;
}

/** A plot of percentiles. */
export function Latency({ title, durations, at, step }: LatencyProps): JSX.Element {
  const highest = Math.max(0, ...durations.p99.map((value) => value ?? 0));
  return (
    <Plot
      title={title}
      summary={`the 99th percentile was at most ${duration(highest)}, in steps of ${duration(step * 1000)}`}
      at={at}
      step={step}
      scale={DURATIONS}
      series={[
        { title: 'p50', values: durations.p50, colour: '--good' },
        { title: 'p95', values: durations.p95, colour: '--accent' },
        { title: 'p99', values: durations.p99, colour: '--bad' },
      ]}
    />
  );
}

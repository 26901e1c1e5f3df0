/** Bars over the timeline of a job, on one scale. */
import type { JSX } from 'preact';

import { duration } from '../ui/format.ts';
import { Text } from '../ui/parts.tsx';
import { barsOf } from './job-bars.ts';
import type { Answer, Job } from './job-query.ts';

export function Gantt({ job, of }: { job: Job; of: Answer['endpoint'] }): JSX.Element {
  const bars = barsOf(job, of, Date.now());
  const first = Math.min(...bars.map(({ from }) => from));
  const span = Math.max(1, ...bars.map(({ to }) => to - first));
  const share = (ms: number): string => `${((100 * Math.max(0, ms)) / span).toFixed(2)}%`;
  return (
    <div class="gantt" role="group" aria-label="Spans of time">
      {bars.map(({ label, from, to, tone }, i) => (
        // Several bars may say the same.
        <div key={i}>
          <Text of={label} />
          <svg aria-hidden="true" height="14" width="100%">
            <rect class={tone} x={share(from - first)} width={share(to - from)} height="14" />
            {/* Also a moment is seen. */}
            <rect class={tone} x={share(from - first)} width="2" height="14" />
          </svg>
          <span class="muted">{duration(Math.max(0, to - from))}</span>
        </div>
      ))}
    </div>
  );
}

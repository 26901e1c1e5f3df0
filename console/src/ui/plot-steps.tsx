/** Reads a plot step by step without a mouse: a slider that says each value, and what dragging and clicking do otherwise. */
import type { JSX } from 'preact';
import { useContext } from 'preact/hooks';

import { PlotContext } from './plot-context.ts';
import { marksWithin } from './plot-marks.ts';
import type { Series } from './plot-options.ts';
import type { PlotScale } from './plot-scales.ts';
import { minuteTime, stepTime } from './plot-times.ts';

interface PlotStepsProps {
  readonly title: string;
  /** When each step begins, ms since 1970. */
  readonly at: readonly number[];
  /** Length of a step, s. */
  readonly step: number;
  readonly series: readonly Series[];
  readonly scale: PlotScale;
  /** Index of the step that is read. */
  readonly chosen: number | undefined;
  readonly onChoose: (index: number | undefined) => void;
  readonly onOpen: (index: number) => void;
}

/** Shown while it has the focus, and on touch screens. */
export function PlotSteps({ title, at, step, series, scale, chosen, onChoose, onOpen }: PlotStepsProps): JSX.Element | null {
  const { zoom, marks = [], link } = useContext(PlotContext);
  const [first, last] = [at[0], at.at(-1)];
  if (first === undefined || last === undefined) return null;
  const index = Math.min(chosen ?? at.length - 1, at.length - 1);
  const begin = at[index] ?? last;
  const end = begin + step * 1_000;
  const values = series.map(({ title: name, values: of }) => `${name} ${of[index] == null ? 'no data' : scale.shown(of[index])}`);
  const happened = marksWithin(marks, begin, step);
  return (
    <div class="plot-steps" onKeyUp={(event) => event.key === 'Escape' && onChoose(undefined)}>
      <input
        type="range"
        aria-label={`Step of ${title}`}
        aria-valuetext={[stepTime(begin), ...values, ...(happened === '' ? [] : [happened])].join(', ')}
        min={0}
        max={at.length - 1}
        value={index}
        onInput={(event) => onChoose(Number(event.currentTarget.value))}
        onFocus={() => onChoose(index)}
      />
      <div class="actions">
        {link !== undefined && (
          <button type="button" onClick={() => onOpen(index)}>
            {link.noun} of {minuteTime(begin)}
          </button>
        )}
        {zoom !== undefined && (
          <>
            <button type="button" disabled={index === at.length - 1} onClick={() => zoom(begin, last + step * 1_000)}>
              From here
            </button>
            <button type="button" disabled={index === 0} onClick={() => zoom(first, end)}>
              Until here
            </button>
          </>
        )}
      </div>
    </div>
  );
}

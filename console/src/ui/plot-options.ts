/** How uPlot draws a plot: axes in the browser's language with labels that fit, marks of events, the last values in the legend. */
import type UPlot from 'uplot';

import { visible } from './plain-text.ts';
import { marksWithin, type Mark } from './plot-marks.ts';
import type { PlotScale } from './plot-scales.ts';
import { stepTime, timeLabels } from './plot-times.ts';

export type Values = readonly (number | null)[];

export interface Series {
  readonly title: string;
  readonly values: Values;
  /** A custom property of the style sheet. */
  readonly colour: `--${string}`;
}

export const HEIGHT = 180;
const AXIS_FONT = '12px system-ui, sans-serif';
/** Least distance of labels of times, px: `03:04:10 PM` fits. */
const TIME_SPACE_PX = 84;
/** The last label of the time is half beside the plot. */
const RIGHT_PX = 32;
const NOTHING = 'no data';

export interface DrawnPlot {
  readonly width: number;
  readonly series: readonly Series[];
  readonly scale: PlotScale;
  /** Length of a step, s. Read each time: it changes with the range. */
  readonly step: () => number;
  readonly marks: () => readonly Mark[];
}

export function plotOptions({ width, series, scale, step, marks }: DrawnPlot): UPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--muted'),
    font: AXIS_FONT,
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line'), width: 1 },
  };
  return {
    width,
    height: HEIGHT,
    padding: [null, RIGHT_PX, null, null],
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, (max ?? 0) * 1.1)] } },
    axes: [
      { ...axis, space: TIME_SPACE_PX, values: (...[, seconds, , , every]) => timeLabels(seconds, every) },
      { ...axis, size: labelWidth, incrs: [...scale.distances], values: (_plot, ticks) => ticks.map(scale.shown) },
    ],
    series: [
      { label: 'Time', value: (plot, at, _place, index) => timeText(plot, index == null ? null : at, { step, marks }) },
      ...series.map(({ title, colour: name }) => ({
        label: visible(title),
        stroke: colour(name),
        width: 2,
        points: { show: true, size: 5, filter: isolated },
        spanGaps: false,
        value: (plot: UPlot, value: number | null, place: number, index: number | null): string =>
          index === null ? lastText(plot, place, scale) : value == null ? NOTHING : scale.shown(value),
      })),
    ],
    hooks: { drawAxes: [(plot) => drawMarks(plot, marks(), { deployment: colour('--accent'), scaling: colour('--muted') })] },
  };
}

/** Values between gaps, which no line shows. */
function isolated(plot: UPlot, place: number): number[] {
  const values = plot.data[place] ?? [];
  return [...values.keys()].filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null);
}

/** The width of an axis that its longest label needs. */
function labelWidth(plot: UPlot, labels: readonly string[] | null, place: number, cycle: number): number {
  const { ticks, gap = 0, _size: known } = plot.axes[place] as UPlot.Axis & { readonly _size: number };
  // Later cycles would never agree on a width.
  if (cycle > 1) return known;
  plot.ctx.save();
  plot.ctx.font = AXIS_FONT;
  const longest = Math.max(0, ...(labels ?? []).map((label) => plot.ctx.measureText(label).width));
  plot.ctx.restore();
  return Math.ceil(longest + gap + (ticks?.size ?? 0)) + 2;
}

/** The step under the cursor, else the last one, with what happened within it. */
function timeText(plot: UPlot, at: number | null, { step, marks }: Pick<DrawnPlot, 'step' | 'marks'>): string {
  const shown = at ?? plot.data[0].at(-1);
  if (shown === undefined) return '–';
  const happened = marksWithin(marks(), shown * 1_000, step());
  return `${at === null ? 'last, ' : ''}${stepTime(shown * 1_000)}${happened === '' ? '' : ` – ${visible(happened)}`}`;
}

/** The last value, with its time where later steps have none. */
function lastText(plot: UPlot, place: number, { shown }: PlotScale): string {
  const values = plot.data[place] ?? [];
  const index = [...values].findLastIndex((value) => value != null);
  const value = values[index];
  if (value == null) return NOTHING;
  return index === values.length - 1 ? shown(value) : `${shown(value)} at ${stepTime((plot.data[0][index] ?? 0) * 1_000)}`;
}

function drawMarks(plot: UPlot, marks: readonly Mark[], colours: Readonly<Record<Mark['kind'], string>>): void {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  for (const { at, kind } of marks) {
    const x = Math.round(plot.valToPos(at / 1_000, 'x', true));
    if (x < left || x > left + width) continue;
    ctx.strokeStyle = colours[kind];
    ctx.lineWidth = kind === 'deployment' ? 2 : 1;
    ctx.setLineDash(kind === 'deployment' ? [] : [3, 3]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}

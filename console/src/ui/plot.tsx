/** Series over time, drawn by uPlot, with their values at the cursor below them and in words for those who do not see them. */
import type { JSX } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { ZoomContext, type Zoom } from './time-range.tsx';

export type Values = readonly (number | null)[];

export interface Series {
  readonly title: string;
  readonly values: Values;
  /** A custom property of the style sheet. */
  readonly colour: `--${string}`;
}

export interface PlotProps {
  readonly title: string;
  /** What the values add up to, in a sentence. */
  readonly summary: string;
  /** When each value begins, ms since 1970; values beyond these are not drawn. */
  readonly at: readonly number[];
  readonly series: readonly Series[];
  readonly shown: (value: number) => string;
}

/** When the steps begin that have ended: the counts of one that goes on would be drawn as a fall. */
export function endedSteps({ at, openSteps }: { readonly at: readonly number[]; readonly openSteps: number }): readonly number[] {
  return openSteps === 0 ? at : at.slice(0, -openSteps);
}

const HEIGHT = 180;
/** Cursors of all plots of a page move together; a range is selected in one of them. */
const SYNC = { key: 'history', filters: { pub: (type: string) => type === 'mousemove' || type === 'mouseleave', sub: () => true } };
/** Shortest distance over which a pointer selects a range, px. */
const DRAG_PX = 5;

export function Plot({ title, summary, at, series, shown }: PlotProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  const data = [at.map((ms) => ms / 1000), ...series.map(({ values }) => values.slice(0, at.length))] as unknown as UPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;
  const context = useContext(ZoomContext);
  const zoom = useRef(context);
  zoom.current = context;

  useEffect(() => {
    const host = place.current;
    if (host === null) return undefined;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new UPlot({ ...options(host.clientWidth, series, shown), ...selection(() => zoom.current) }, latest.current, host);
    };
    draw();
    const sizes = new ResizeObserver(() => plot.current?.setSize({ width: host.clientWidth, height: HEIGHT }));
    sizes.observe(host);
    // Colours are those of the style sheet when the plot was made.
    const themes = new MutationObserver(draw);
    themes.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      sizes.disconnect();
      themes.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
    // A plot keeps its series; only their values change.
  }, [title]);
  useEffect(() => plot.current?.setData(latest.current), [at, series]);

  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <div role="img" aria-label={`${title}: ${summary}`} ref={place} />
    </figure>
  );
}

/** Values between gaps, which no line shows. */
function isolated(plot: UPlot, place: number): number[] {
  const values = plot.data[place] ?? [];
  return [...values.keys()].filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null);
}

/** Options that show the range over which a pointer was dragged. */
function selection(zoom: () => Zoom | undefined): Pick<UPlot.Options, 'cursor' | 'hooks'> {
  const show = (plot: UPlot): void => {
    const { left, width } = plot.select;
    if (width === 0) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    zoom()?.show(plot.posToVal(left, 'x') * 1000, plot.posToVal(left + width, 'x') * 1000);
  };
  return {
    cursor: { sync: SYNC, drag: { x: zoom() !== undefined, y: false, setScale: false, dist: DRAG_PX } },
    hooks: { setSelect: [show] },
  };
}

function options(width: number, series: readonly Series[], shown: PlotProps['shown']): UPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--muted'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line'), width: 1 },
  };
  return {
    width,
    height: HEIGHT,
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, (max ?? 0) * 1.1)] } },
    axes: [axis, { ...axis, size: 64, values: (_plot, ticks) => ticks.map(shown) }],
    series: [
      {
        value: (_plot, at) =>
          at == null ? '–' : new Date(at * 1000).toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'medium' }),
      },
      ...series.map(({ title, colour: name }) => ({
        label: title,
        stroke: colour(name),
        width: 2,
        points: { show: true, size: 5, filter: isolated },
        spanGaps: false,
        value: (_plot: UPlot, value: number | null): string => (value == null ? '–' : shown(value)),
      })),
    ],
  };
}

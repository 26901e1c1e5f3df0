/** Series over time, drawn by uPlot, with their values at the cursor below them and in words for those who do not see them. */
import type { JSX } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useLocation } from 'wouter-preact';

import { PlotContext, type PlotContextValue } from './plot-context.ts';
import { HEIGHT, plotOptions, type Series } from './plot-options.ts';
import type { PlotScale } from './plot-scales.ts';
import { PlotSteps } from './plot-steps.tsx';
import { minutesOf } from './plot-times.ts';

export type { Series, Values } from './plot-options.ts';

export interface PlotProps {
  readonly title: string;
  /** What the values add up to, in a sentence. */
  readonly summary: string;
  /** When each value begins, ms since 1970; values beyond these are not drawn. */
  readonly at: readonly number[];
  /** Length of a step, s. */
  readonly step: number;
  readonly series: readonly Series[];
  readonly scale: PlotScale;
}

/** When the steps begin that have ended: the counts of one that goes on would be drawn as a fall. */
export function endedSteps({ at, openSteps }: { readonly at: readonly number[]; readonly openSteps: number }): readonly number[] {
  return openSteps === 0 ? at : at.slice(0, -openSteps);
}

/** Cursors of all plots of a page move together; a range is selected in one of them. */
const SYNC = { key: 'history', filters: { pub: (type: string) => type === 'mousemove' || type === 'mouseleave', sub: () => true } };
/** Shortest distance over which a pointer selects a range, px. */
const DRAG_PX = 5;

export function Plot({ title, summary, at, step, series, scale }: PlotProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | undefined>(undefined);
  /** Begin of the step that is read: its index changes with each step that ends. */
  const [chosenAt, setChosenAt] = useState<number>();
  const index = chosenAt === undefined ? -1 : at.indexOf(chosenAt);
  const chosen = index === -1 ? undefined : index;
  const [, navigate] = useLocation();
  const context = useContext(PlotContext);
  const data = [at.map((ms) => ms / 1000), ...series.map(({ values }) => values.slice(0, at.length))] as unknown as UPlot.AlignedData;
  const open = (index: number): void => {
    const begin = at[index];
    if (begin === undefined || context.link === undefined) return;
    const { from, to } = minutesOf(begin, step);
    navigate(context.link.pathOf(from, to));
  };
  const choose = (to: number | undefined): void => setChosenAt(to === undefined ? undefined : at[to]);
  const latest = useRef({ data, step, context, open, choose });
  latest.current = { data, step, context, open, choose };

  useEffect(() => {
    const host = place.current;
    if (host === null) return undefined;
    const marks = (): NonNullable<PlotContextValue['marks']> => latest.current.context.marks ?? [];
    const draw = (): void => {
      plot.current?.destroy();
      const options = plotOptions({ width: host.clientWidth, series, scale, step: () => latest.current.step, marks });
      const { hooks, ...others } = selection(() => latest.current.context.zoom);
      plot.current = new UPlot({ ...options, ...others, hooks: { ...options.hooks, ...hooks } }, latest.current.data, host);
      listen(plot.current, {
        choose: (to) => latest.current.choose(to),
        open: (to) => latest.current.open(to),
      });
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
  useEffect(() => plot.current?.setData(latest.current.data), [at, series]);
  useEffect(() => plot.current?.redraw(false), [context.marks]);
  useEffect(() => {
    if (chosen !== undefined) showStep(plot.current, chosen);
  }, [chosen, at, series]);
  // Only then: a cursor that the mouse holds stays through new values.
  useEffect(() => {
    if (chosen === undefined) plot.current?.setCursor({ left: -10, top: -10 });
  }, [chosen]);

  const hasData = series.some(({ values }) => at.some((_, i) => values[i] != null));
  return (
    <figure class="plot">
      <figcaption>
        {title} <span class="muted">{scale.unit}</span>
      </figcaption>
      <div class="canvas">
        <div role="img" aria-label={`${title}: ${hasData ? summary : 'no data in this range'}`} ref={place} />
        {!hasData && <p class="no-data muted">No data in this range</p>}
      </div>
      <PlotSteps title={title} at={at} step={step} series={series} scale={scale} chosen={chosen} onChoose={choose} onOpen={open} />
    </figure>
  );
}

/** Moves the cursor to a step. */
function showStep(plot: UPlot | undefined, index: number): void {
  const at = plot?.data[0][index];
  if (plot !== undefined && at !== undefined) plot.setCursor({ left: plot.valToPos(at, 'x'), top: HEIGHT / 4 });
}

interface StepActions {
  readonly choose: (index: number) => void;
  readonly open: (index: number) => void;
}

/** A click opens a step, a tap chooses it: on a touch screen there is no other way to read its values. */
function listen(plot: UPlot, { choose, open }: StepActions): void {
  let down = { x: 0, type: 'mouse' };
  plot.over.addEventListener('pointerdown', ({ clientX, pointerType }) => {
    down = { x: clientX, type: pointerType };
  });
  plot.over.addEventListener('click', ({ clientX }) => {
    if (Math.abs(clientX - down.x) > DRAG_PX || plot.data[0].length === 0) return;
    const index = plot.posToIdx(clientX - plot.over.getBoundingClientRect().left);
    if (down.type === 'touch') choose(index);
    else open(index);
  });
}

/** Options that show the range over which a pointer was dragged. */
function selection(zoom: () => PlotContextValue['zoom']): { cursor: UPlot.Cursor; hooks: UPlot.Hooks.Arrays } {
  const show = (plot: UPlot): void => {
    const { left, width } = plot.select;
    if (width === 0) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    zoom()?.(plot.posToVal(left, 'x') * 1000, plot.posToVal(left + width, 'x') * 1000);
  };
  return {
    cursor: { sync: SYNC, drag: { x: zoom() !== undefined, y: false, setScale: false, dist: DRAG_PX } },
    hooks: { setSelect: [show] },
  };
}

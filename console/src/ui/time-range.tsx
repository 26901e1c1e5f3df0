/** The range of time of a page's plots: the last hours until now, or a fixed one. It is in the page's address. */
import { createContext, type JSX } from 'preact';
import { useId } from 'preact/hooks';

import { time } from './format.ts';
import { oneOf, useUrlState } from './url-state.ts';

const HOUR_MS = 3_600_000;
const RANGES = {
  '1h': ['1 hour', HOUR_MS],
  '6h': ['6 hours', 6 * HOUR_MS],
  '24h': ['24 hours', 24 * HOUR_MS],
  '3d': ['3 days', 72 * HOUR_MS],
  '7d': ['7 days', 7 * 24 * HOUR_MS],
  '90d': ['90 days', 90 * 24 * HOUR_MS],
} as const;
export type RangeName = keyof typeof RANGES;

export interface TimeRange {
  /** Distinguishes ranges in keys of queries. */
  readonly key: string;
  /** ms. */
  readonly length: number;
  /** Begin and end of a fixed range, ms since 1970. */
  readonly fixed: { readonly from: number; readonly to: number } | undefined;
}

/** Latest time that a Date can hold, ms since 1970. */
const MAX_TIME = 8.64e15;

/** Returns the range of two parameters of an address, in whole milliseconds; undefined unless it is one. */
function fixedRange(begin: string, end: string): TimeRange['fixed'] {
  const [from, to] = [Math.floor(Number(begin)), Math.ceil(Number(end))];
  return from > 0 && to > from && to <= MAX_TIME ? { from, to } : undefined;
}

/** The arguments of fields about a range of time, as of now. */
export function boundsOf({ length, fixed }: TimeRange): { readonly from: number; readonly to: number | null } {
  return fixed ?? { from: Date.now() - length, to: null };
}

export interface Zoom {
  /** Shows a fixed range, ms since 1970. */
  readonly show: (from: number, to: number) => void;
}

/** What dragging over a plot does; undefined where the range cannot be changed. */
export const ZoomContext = createContext<Zoom | undefined>(undefined);

/** Returns the range, a function that shows a fixed one, and a field to choose another one. */
export function useTimeRange(names: readonly [RangeName, ...RangeName[]]): {
  readonly range: TimeRange;
  readonly zoom: Zoom;
  readonly field: JSX.Element;
} {
  const id = useId();
  const [values, change] = useUrlState({ range: names[0], from: '', to: '' });
  const name = oneOf(values.range, names);
  const fixed = fixedRange(values.from, values.to);
  const length = fixed === undefined ? RANGES[name][1] : fixed.to - fixed.from;
  const field = (
    <>
      <div>
        <label for={id}>Last</label>
        <select
          id={id}
          value={fixed === undefined ? name : ''}
          onChange={(event) => change({ range: event.currentTarget.value, from: '', to: '' })}
        >
          {fixed !== undefined && <option value="">custom</option>}
          {names.map((each) => (
            <option key={each} value={each}>
              {RANGES[each][0]}
            </option>
          ))}
        </select>
      </div>
      {fixed !== undefined && (
        <p class="range">
          {time(new Date(fixed.from).toISOString())} – {time(new Date(fixed.to).toISOString())}{' '}
          <button type="button" onClick={() => change({ from: '', to: '' })}>
            Show the last {RANGES[name][0]}
          </button>
        </p>
      )}
    </>
  );
  const show = (from: number, to: number): void => change({ from: String(Math.floor(from)), to: String(Math.ceil(to)) });
  return { range: { key: fixed === undefined ? name : `${fixed.from}-${fixed.to}`, length, fixed }, zoom: { show }, field };
}

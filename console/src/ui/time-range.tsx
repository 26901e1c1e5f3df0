/** The range of time of a page's plots: the last hours until now, or a fixed one. It is in the page's address. */
import type { JSX } from 'preact';
import { useId } from 'preact/hooks';

import { time, zoneName } from './format.ts';
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

/** Returns the range, a function that shows a fixed one, and a field to choose another one. */
export function useTimeRange(names: readonly [RangeName, ...RangeName[]]): {
  readonly range: TimeRange;
  /** Shows a fixed range, ms since 1970. */
  readonly zoom: (from: number, to: number) => void;
  readonly field: JSX.Element;
} {
  const id = useId();
  const [values, change] = useUrlState({ range: names[0], from: '', to: '' });
  const name = oneOf(values.range, names);
  const fixed = fixedRange(values.from, values.to);
  const length = fixed === undefined ? RANGES[name][1] : fixed.to - fixed.from;
  const now = Date.now();
  const end = fixed?.to ?? now;
  const begin = end - length;
  const longest = Math.max(...names.map((each) => RANGES[each][1]));
  const show = (from: number, to: number): void => change({ from: String(Math.floor(from)), to: String(Math.ceil(to)) });
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
      <div class="actions">
        <button type="button" onClick={() => show(begin - length / 2, end - length / 2)}>
          Earlier
        </button>
        <button
          type="button"
          disabled={fixed === undefined || end >= now}
          onClick={() => show(begin + length / 2, Math.min(now, end + length / 2))}
        >
          Later
        </button>
        <button
          type="button"
          disabled={length >= longest}
          onClick={() => show(Math.max(now - longest, begin - length / 2), Math.min(now, end + length / 2))}
        >
          Zoom out
        </button>
      </div>
      <p class="range">
        {fixed !== undefined && (
          <>
            {time(new Date(fixed.from).toISOString())} – {time(new Date(fixed.to).toISOString())}{' '}
            <button type="button" onClick={() => change({ from: '', to: '' })}>
              Show the last {RANGES[name][0]}
            </button>{' '}
          </>
        )}
        <span class="muted">Times of {zoneName()}</span>
      </p>
    </>
  );
  return { range: { key: fixed === undefined ? name : `${fixed.from}-${fixed.to}`, length, fixed }, zoom: show, field };
}

/** What the plots of a page share: the range that they show, what happened within it, and where a step leads. */
import { createContext } from 'preact';

import type { Mark } from './plot-marks.ts';

export interface StepLink {
  /** What is there: `Jobs`. */
  readonly noun: string;
  /** The path about a span of time, ms since 1970. */
  readonly pathOf: (from: number, to: number) => string;
}

export interface PlotContextValue {
  /** Shows a fixed range, ms since 1970. Undefined where the range cannot be changed. */
  readonly zoom?: (from: number, to: number) => void;
  readonly marks?: readonly Mark[];
  readonly link?: StepLink | undefined;
}

export const PlotContext = createContext<PlotContextValue>({});

/** What the values of a plot are: their unit, their text, and the distances of the lines of its axis. */
import { age, bytes, count, duration } from './format.ts';

export interface PlotScale {
  /** In words, beside the title; empty where the values themselves say it. */
  readonly unit: string;
  readonly shown: (value: number) => string;
  /** Ascending. */
  readonly distances: readonly number[];
}

const [SECOND_MS, MINUTE_MS, HOUR_MS] = [1_000, 60_000, 3_600_000];
const POWERS = 16;

/** 1, 2, 5, 10, 20, 50 and so on. */
const DECIMAL = Array.from({ length: POWERS }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const BINARY = Array.from({ length: 3 * POWERS }, (_, power) => 2 ** power);
const TIMES = [
  ...DECIMAL.filter((each) => each < SECOND_MS),
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND_MS),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE_MS),
  ...DECIMAL.filter((each) => each < SECOND_MS).map((hours) => hours * HOUR_MS),
];

/** Counts of something, in steps of this length (s) where they are counts within a step. */
export function countsOf(noun: string, stepS?: number): PlotScale {
  return { unit: stepS === undefined ? noun : `${noun} in ${age(stepS * SECOND_MS)}`, shown: count, distances: DECIMAL };
}

export const DURATIONS: PlotScale = { unit: '', shown: duration, distances: TIMES };
export const BYTES: PlotScale = { unit: '', shown: bytes, distances: BINARY };

/** Values with the symbol of a unit. */
export function symbol(unit: string): PlotScale {
  return { unit: '', shown: (value) => `${Math.round(value)} ${unit}`, distances: DECIMAL };
}

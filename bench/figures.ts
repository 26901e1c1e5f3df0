/** The figures that the bench measures, with their required minimum and their goal. */

export interface Target {
  readonly name: string;
  readonly meaning: string;
  readonly unit: 'ratio' | 'ms';
  readonly floor: number;
  readonly goal: number | null;
}

/** A ratio should be high, a time low. */
export const targets = {
  runParked: {
    name: '/run, no consumer',
    meaning: 'accepted durably a second, of the echo’s requests a second',
    unit: 'ratio',
    floor: 0.3,
    goal: 0.5,
  },
  runConsumed: {
    name: '/run, workers consuming',
    meaning: 'accepted a second while workers run them, of the echo’s',
    unit: 'ratio',
    floor: 0.12,
    goal: 0.25,
  },
  runsync: { name: '/runsync no-op', meaning: 'jobs there and back a second, of the echo’s', unit: 'ratio', floor: 0.12, goal: 0.25 },
  start: { name: 'enqueue → handler start, p50', meaning: 'idle warm worker, one job at a time', unit: 'ms', floor: 2, goal: 0.7 },
  storeDepth: {
    name: 'store cycles, deep : shallow',
    meaning: 'insert+claim+complete at 1M waiting rows, of those at 1k',
    unit: 'ratio',
    floor: 0.8,
    goal: null,
  },
} as const satisfies Record<string, Target>;

export type FigureName = keyof typeof targets;

/** Whether a value is at least as good as a bound. */
function reaches(target: Target, value: number, bound: number): boolean {
  return target.unit === 'ms' ? value <= bound : value >= bound;
}

export function verdict(target: Target, value: number): 'goal' | 'floor' | 'below' {
  if (reaches(target, value, target.goal ?? target.floor)) return target.goal === null ? 'floor' : 'goal';
  return reaches(target, value, target.floor) ? 'floor' : 'below';
}

/** The median; the mean of the two middle values for an even count. NaN for an empty list. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const half = Math.floor(sorted.length / 2);
  const upper = sorted[half] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? Number.NaN) + upper) / 2;
}

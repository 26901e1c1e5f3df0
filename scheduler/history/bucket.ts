/**
 * What happened at an endpoint in one step, and its text in the store. Buckets add up: one of an hour is the sum of those of its
 * minutes, and what two schedulers wrote of one step is what happened in it.
 */
import { classOf, durationOf, type Durations } from '../../lib/duration-classes.ts';
import { addRoutes, decodeRoutes, encodeRoutes, type Routes } from './routes.ts';

/** Events that are counted. */
export const COUNTS = ['submitted', 'completed', 'failed', 'cancelled', 'timedOut', 'expired', 'lost', 'refused'] as const;
/** What is there at one moment. */
export const LEVELS = ['inQueue', 'inProgress', 'idle', 'running', 'initializing', 'throttled', 'unhealthy'] as const;
/** The phases of a worker's start, in order. */
export const PHASES = ['placed', 'artifact', 'started', 'loaded'] as const;

export type Count = (typeof COUNTS)[number];
export type Level = (typeof LEVELS)[number];
export type Phase = (typeof PHASES)[number];

export type Levels = Readonly<Record<Level, number>>;

export interface Bucket {
  readonly counts: Record<Count, number>;
  /** Sums over the samples. */
  readonly levels: Record<Level, number>;
  samples: number;
  /** The longest queue of a sample. */
  longestQueue: number;
  readonly delay: Durations;
  readonly execution: Durations;
  /** Workers that became ready, and the sums of their phases, ms. */
  readonly workerStarts: { total: number } & Record<Phase, number>;
  /** Requests of a load-balanced endpoint. */
  readonly routes: Routes;
}

export function emptyBucket(): Bucket {
  return {
    counts: { submitted: 0, completed: 0, failed: 0, cancelled: 0, timedOut: 0, expired: 0, lost: 0, refused: 0 },
    levels: { inQueue: 0, inProgress: 0, idle: 0, running: 0, initializing: 0, throttled: 0, unhealthy: 0 },
    samples: 0,
    longestQueue: 0,
    delay: new Map(),
    execution: new Map(),
    workerStarts: { total: 0, placed: 0, artifact: 0, started: 0, loaded: 0 },
    routes: new Map(),
  };
}

export function note(durations: Durations, ms: number): void {
  const of = classOf(ms);
  durations.set(of, (durations.get(of) ?? 0) + 1);
}

/** The duration, ms, that this share of them does not exceed; null without any. */
export function percentile(durations: Durations, share: number): number | null {
  return percentiles(durations, [share])[0] ?? null;
}

/** The same for several shares; empty without durations. */
export function percentiles(durations: Durations, shares: readonly number[]): number[] {
  if (durations.size === 0) return [];
  const sorted = [...durations].toSorted(([a], [b]) => a - b);
  const total = sorted.reduce((sum, [, count]) => sum + count, 0);
  return shares.map((share) => {
    let before = 0;
    const [of = 0] = sorted.find(([, count]) => (before += count) >= total * share) ?? sorted.at(-1) ?? [];
    return durationOf(of);
  });
}

/** Adds a bucket to another one. */
export function addTo(sum: Bucket, bucket: Bucket): void {
  for (const name of COUNTS) sum.counts[name] += bucket.counts[name];
  for (const name of LEVELS) sum.levels[name] += bucket.levels[name];
  sum.samples += bucket.samples;
  sum.longestQueue = Math.max(sum.longestQueue, bucket.longestQueue);
  for (const name of ['delay', 'execution'] as const)
    for (const [of, count] of bucket[name]) sum[name].set(of, (sum[name].get(of) ?? 0) + count);
  sum.workerStarts.total += bucket.workerStarts.total;
  for (const phase of PHASES) sum.workerStarts[phase] += bucket.workerStarts[phase];
  addRoutes(sum.routes, bucket.routes);
}

/** Whether nothing happened but what samples show. */
export function isQuiet({ counts, delay, execution, workerStarts, routes }: Bucket): boolean {
  return (
    workerStarts.total === 0 && delay.size === 0 && execution.size === 0 && routes.size === 0 && COUNTS.every((name) => counts[name] === 0)
  );
}

/** JSON; what is zero is left out. */
export function encode({ counts, levels, samples, longestQueue, delay, execution, workerStarts, routes }: Bucket): string {
  const value: Record<string, unknown> = { samples };
  for (const name of COUNTS) if (counts[name] > 0) value[name] = counts[name];
  for (const name of LEVELS) if (levels[name] > 0) value[name] = levels[name];
  if (longestQueue > 0) value['longestQueue'] = longestQueue;
  if (delay.size > 0) value['delay'] = [...delay];
  if (execution.size > 0) value['execution'] = [...execution];
  if (workerStarts.total > 0) value['workerStarts'] = workerStarts;
  if (routes.size > 0) value['routes'] = encodeRoutes(routes);
  return JSON.stringify(value);
}

/** The bucket of a text; what a later version wrote into it is left out, and so are routes if nobody asks for them. */
export function decode(text: string, withRoutes = true): Bucket {
  const value = JSON.parse(text) as Record<string, unknown>;
  const bucket = withRoutes ? { ...emptyBucket(), routes: decodeRoutes(value['routes']) } : emptyBucket();
  const numberAt = (of: Record<string, unknown>, name: string): number => (typeof of[name] === 'number' ? of[name] : 0);
  for (const name of COUNTS) bucket.counts[name] = numberAt(value, name);
  for (const name of LEVELS) bucket.levels[name] = numberAt(value, name);
  bucket.samples = numberAt(value, 'samples');
  bucket.longestQueue = numberAt(value, 'longestQueue');
  for (const name of ['delay', 'execution'] as const)
    for (const [of, count] of (value[name] ?? []) as [number, number][]) bucket[name].set(of, count);
  const starts = (value['workerStarts'] ?? {}) as Record<string, unknown>;
  for (const name of ['total', ...PHASES] as const) bucket.workerStarts[name] = numberAt(starts, name);
  return bucket;
}

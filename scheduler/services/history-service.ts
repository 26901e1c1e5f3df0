/** What happened at endpoints over time, for plots. */
import { CapstanError } from '../../lib/errors.ts';
import type { ControlServiceServer, GetHistoryResponse, HistoryDurations } from '../../proto/gen/capstan/v1/control.ts';
import { endpointNotFound } from '../core/jobs/errors.ts';
import { percentile, type Bucket, type Count, type Durations, type Level, type Phase } from '../history/bucket.ts';
import { chosenStep, readSeries, type Series } from '../history/series.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';

export function historyHandlers({ engine, auth, log, clock, history }: ControlDeps): Pick<ControlServiceServer, 'getHistory'> {
  return {
    getHistory: unary(log, 'GetHistory', async ({ endpointId, fromMs, toMs, stepS }, metadata) => {
      const { account, sees } = auth.reader(metadata);
      const config = engine.state.endpoints.get(endpointId)?.config;
      if (config === undefined || config.account !== account || !sees(config)) throw endpointNotFound(endpointId);
      const now = clock.now().wall;
      const from = timeOf('from', fromMs, now);
      const to = timeOf('to', toMs, now);
      const step = stepS === 0 ? chosenStep(from, to, now) : stepS;
      return response(await readSeries(history, { endpoint: endpointId, from, to, step }, now));
    }),
  };
}

function timeOf(field: string, ms: bigint, now: number): number {
  if (ms < 0n || ms > 8_640_000_000_000_000n)
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be a time in ms since 1970`, { field });
  return ms === 0n ? now : Number(ms);
}

function response({ from, step, buckets }: Series): GetHistoryResponse {
  const counts = (name: Count): bigint[] => buckets.map((bucket) => BigInt(bucket.counts[name]));
  const levels = (name: Level): number[] => buckets.map((bucket) => bucket.levels[name] / Math.max(1, bucket.samples));
  const phases = (name: Phase): number[] =>
    buckets.map(({ workerStarts }) => (workerStarts.total === 0 ? Number.NaN : workerStarts[name] / workerStarts.total));
  return {
    fromMs: BigInt(from),
    stepS: step,
    steps: buckets.length,
    submitted: counts('submitted'),
    completed: counts('completed'),
    failed: counts('failed'),
    cancelled: counts('cancelled'),
    timedOut: counts('timedOut'),
    expired: counts('expired'),
    lost: counts('lost'),
    inQueue: levels('inQueue'),
    inProgress: levels('inProgress'),
    workersIdle: levels('idle'),
    workersRunning: levels('running'),
    workersInitializing: levels('initializing'),
    workersThrottled: levels('throttled'),
    workersUnhealthy: levels('unhealthy'),
    longestQueue: buckets.map(({ longestQueue }) => longestQueue),
    delay: durations(buckets, ({ delay }) => delay),
    execution: durations(buckets, ({ execution }) => execution),
    starts: buckets.map(({ workerStarts }) => BigInt(workerStarts.total)),
    startPlacedMs: phases('placed'),
    startArtifactMs: phases('artifact'),
    startStartedMs: phases('started'),
    startLoadedMs: phases('loaded'),
  };
}

function durations(buckets: readonly Bucket[], of: (bucket: Bucket) => Durations): HistoryDurations {
  const share = (wanted: number): number[] => buckets.map((bucket) => percentile(of(bucket), wanted) ?? Number.NaN);
  return { p50Ms: share(0.5), p95Ms: share(0.95), p99Ms: share(0.99) };
}

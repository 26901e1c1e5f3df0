/** What happened at endpoints over time, for plots. */
import type { Durations } from '../../lib/duration-classes.ts';
import { CapstanError } from '../../lib/errors.ts';
import { endpointNotFound } from '../../lib/job-errors.ts';
import type { ControlServiceServer, GetHistoryResponse, HistoryDurations, RouteHistory } from '../../proto/gen/capstan/v1/control.ts';
import { percentiles, type Count, type Level, type Phase } from '../history/bucket.ts';
import { addRoute, addRoutes, emptyRoute, OTHER_ROUTES, routeAt, type RouteBucket, type Routes } from '../history/routes.ts';
import { chosenStep, readSeries, type Series } from '../history/series.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';

export function historyHandlers({ engine, auth, log, clock, history }: ControlDeps): Pick<ControlServiceServer, 'getHistory'> {
  return {
    getHistory: unary(log, 'GetHistory', async ({ endpointId, fromMs, toMs, stepS, byRoute, noStepPercentiles }, metadata) => {
      const { account, sees } = auth.reader(metadata);
      const config = engine.state.endpoints.get(endpointId)?.config;
      if (config === undefined || config.account !== account || !sees(config)) throw endpointNotFound(endpointId);
      const now = clock.now().wall;
      const from = timeOf('from', fromMs, now);
      const to = timeOf('to', toMs, now);
      const step = stepS === 0 ? chosenStep(from, to, now) : stepS;
      const series = await readSeries(history, { endpoint: endpointId, from, to, step, byRoute }, now);
      return { ...response(series), ...(byRoute ? routesOf(series, !noStepPercentiles) : {}) };
    }),
  };
}

export function timeOf(field: string, ms: bigint, now: number): number {
  if (ms < 0n || ms > 8_640_000_000_000_000n)
    throw new CapstanError('INVALID_ARGUMENT', `${field}: must be a time in ms since 1970`, { field });
  return ms === 0n ? now : Number(ms);
}

function response({ from, step, buckets, open }: Series): GetHistoryResponse {
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
    routes: [],
    openSteps: Math.max(0, open),
  };
}

/** The percentiles that plots show. */
const SHARES = [0.5, 0.95, 0.99];

/** Requests of a route in each step, and whether the steps have percentiles of their own. */
interface RouteSteps {
  readonly steps: readonly RouteBucket[];
  readonly hasSteps: boolean;
}

/** Requests by route, the ones with most requests first, and all together. */
function routesOf({ buckets }: Series, hasSteps: boolean): { routes: RouteHistory[]; allRoutes: RouteHistory } {
  const range: Routes = new Map();
  for (const { routes } of buckets) addRoutes(range, routes);
  const none = emptyRoute();
  // A step may tell routes apart that the range does not.
  const narrowed = buckets.map(({ routes }) => {
    const own: Routes = new Map();
    for (const [name, route] of routes) addRoute(routeAt(own, range.has(name) ? name : OTHER_ROUTES), route);
    return own;
  });
  const routes = [...range].toSorted(([, a], [, b]) => b.requests - a.requests);
  const total = (of: Routes): RouteBucket => {
    const sum = emptyRoute();
    for (const route of of.values()) addRoute(sum, route);
    return sum;
  };
  return {
    routes: routes.map(([name, whole]) => routeHistory(name, whole, { steps: narrowed.map((own) => own.get(name) ?? none), hasSteps })),
    allRoutes: routeHistory('', total(range), { steps: buckets.map((bucket) => total(bucket.routes)), hasSteps }),
  };
}

function routeHistory(route: string, whole: RouteBucket, { steps, hasSteps }: RouteSteps): RouteHistory {
  const [p50Ms = Number.NaN, p95Ms = Number.NaN, p99Ms = Number.NaN] = percentiles(whole.durations, SHARES);
  return {
    route,
    requests: steps.map(({ requests }) => requests),
    refused: steps.map(({ clientErrors }) => clientErrors),
    errors: steps.map(({ errors }) => errors),
    ...(hasSteps ? { durations: durations(steps, ({ durations: of }) => of) } : {}),
    p50Ms,
    p95Ms,
    p99Ms,
  };
}

function durations<T>(buckets: readonly T[], of: (bucket: T) => Durations): HistoryDurations {
  const found = buckets.map((bucket) => percentiles(of(bucket), SHARES));
  const share = (place: number): number[] => found.map((each) => each[place] ?? Number.NaN);
  return { p50Ms: share(0), p95Ms: share(1), p99Ms: share(2) };
}

/** Requests of load-balanced endpoints by route, in GraphQL. */
import type { GetHistoryRequest, GetHistoryResponse, RouteHistory } from '../../proto/gen/capstan/v1/control.ts';
import type * as Schema from './gen/schema.ts';
import { durations, timesOf } from './history-shape.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** Steps of `routeFigures`. */
const STEP_MS = 300_000;
const STEPS = 12;
/** The finest step that is kept, s: the figures are as new as can be. */
const FINEST_S = 10;

export function routeHistoryShape(history: GetHistoryResponse): Schema.RouteHistory {
  const { stepS, steps, routes, allRoutes } = history;
  return {
    step: stepS,
    at: timesOf(history),
    openSteps: history.openSteps,
    all: seriesShape(allRoutes, steps),
    routes: routes.map((route) => ({ ...named(route), ...seriesShape(route, steps) })),
  };
}

/** `of`: undefined from a scheduler of an earlier version. */
function seriesShape(of: RouteHistory | undefined, steps: number): Schema.RouteSeries {
  const none = Array<number>(steps).fill(0);
  return {
    requests: of?.requests ?? none,
    refused: of?.refused ?? none,
    errors: of?.errors ?? none,
    durations: durations(of?.durations, steps),
  };
}

/** The request for the last hour of an endpoint. */
export function lastHourMessage(endpointId: string, now: number): GetHistoryRequest {
  return { endpointId, fromMs: BigInt(firstStep(now)), toMs: 0n, stepS: FINEST_S, byRoute: true, noStepPercentiles: true };
}

export function routeFigureShapes({ fromMs, stepS, routes, allRoutes }: GetHistoryResponse, now: number): Schema.RouteFigures[] {
  const slot = (place: number): number => Math.floor((Number(fromMs) + place * stepS * 1_000 - firstStep(now)) / STEP_MS);
  const byStep = (counts: readonly number[]): number[] => {
    const sums = Array<number>(STEPS).fill(0);
    for (const [place, count] of counts.entries()) sums[slot(place)] = (sums[slot(place)] ?? 0) + count;
    return sums.slice(0, STEPS);
  };
  // A service that began within the hour has its rate since then.
  const first = (allRoutes?.requests ?? []).findIndex((count) => count > 0);
  const minutes = Math.min(HOUR_MS, Math.max(MINUTE_MS, now - Number(fromMs) - first * stepS * 1_000)) / MINUTE_MS;
  return routes.map((route) => {
    const requests = total(route.requests);
    return {
      ...named(route),
      requests,
      refused: total(route.refused),
      errors: total(route.errors),
      perMinute: requests / minutes,
      p50: known(route.p50Ms),
      p95: known(route.p95Ms),
      p99: known(route.p99Ms),
      requestsByStep: byStep(route.requests),
      errorsByStep: byStep(route.errors),
    };
  });
}

/** Begin of the first step of five minutes, wall clock, ms. */
function firstStep(now: number): number {
  return (Math.floor(now / STEP_MS) - STEPS + 1) * STEP_MS;
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** A gateway may have reported requests without durations. */
function known(ms: number): number {
  return Number.isNaN(ms) ? 0 : ms;
}

/** `*` stands for the routes beyond those that are told apart. */
function named({ route }: RouteHistory): { readonly method: string; readonly path: string } {
  if (route === '*') return { method: '', path: route };
  const [method = '', path = ''] = route.split(' ');
  return { method, path };
}

/** Requests of a load-balanced endpoint in one step, by route, as gateways counted them, and their text in the store. */
import { HIGHEST_CLASS, type Durations } from '../../lib/duration-classes.ts';

/** Requests of one route. */
export interface RouteBucket {
  requests: number;
  /** Answered with a status from 400 to 499. */
  clientErrors: number;
  /** Answered with a status from 500. */
  errors: number;
  readonly durations: Durations;
}

/** By `<method> <path>`; the empty name is that of requests without a route. */
export type Routes = Map<string, RouteBucket>;

/** Routes that a bucket tells apart; the later ones share {@link OTHER_ROUTES}. */
export const MAX_ROUTES = 50;
export const OTHER_ROUTES = '*';
/** Longer names count as {@link OTHER_ROUTES}. */
const MAX_NAME = 256;

export function emptyRoute(): RouteBucket {
  return { requests: 0, clientErrors: 0, errors: 0, durations: new Map() };
}

/** Returns the bucket of a route, or of the others. */
export function routeAt(routes: Routes, route: string): RouteBucket {
  const known = routes.get(route);
  if (known !== undefined) return known;
  if (route !== OTHER_ROUTES && (routes.size >= MAX_ROUTES || route.length > MAX_NAME)) return routeAt(routes, OTHER_ROUTES);
  const added = emptyRoute();
  routes.set(route, added);
  return added;
}

/** Adds the requests of one route to another bucket. */
export function addRoute(sum: RouteBucket, { requests, clientErrors, errors, durations }: RouteBucket): void {
  sum.requests += requests;
  sum.clientErrors += clientErrors;
  sum.errors += errors;
  for (const [of, count] of durations) sum.durations.set(of, (sum.durations.get(of) ?? 0) + count);
}

export function addRoutes(sum: Routes, routes: Routes): void {
  for (const [name, route] of routes) addRoute(routeAt(sum, name), route);
}

/** `[name, requests, clientErrors, errors, [[class, count]…]]` for each. */
export function encodeRoutes(routes: Routes): unknown[] {
  return [...routes].map(([name, { requests, clientErrors, errors, durations }]) => [name, requests, clientErrors, errors, [...durations]]);
}

export function decodeRoutes(value: unknown): Routes {
  const routes: Routes = new Map();
  for (const [name, requests, clientErrors, errors, durations] of (value ?? []) as [string, number, number, number, [number, number][]][])
    // Texts that this scheduler wrote name each route once, and no more than it tells apart.
    if (routes.size < MAX_ROUTES && !routes.has(name)) routes.set(name, { requests, clientErrors, errors, durations: new Map(durations) });
    else addRoute(routeAt(routes, name), { requests, clientErrors, errors, durations: new Map(durations) });
  return routes;
}

/** Durations as a gateway reports them: classes, and how many there were of each. */
export function reportedDurations(classes: readonly number[], counts: readonly number[]): Durations {
  const durations: Durations = new Map();
  for (const [place, of] of classes.entries()) {
    const known = Math.min(of, HIGHEST_CLASS);
    durations.set(known, (durations.get(known) ?? 0) + (counts[place] ?? 0));
  }
  return durations;
}

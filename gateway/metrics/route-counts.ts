/**
 * Counts the requests of load-balanced endpoints by route until the scheduler has them, which keeps the history of the whole service.
 * Only declared routes are told apart, so callers cannot add any.
 */
import { classOf } from '../../lib/duration-classes.ts';
import type { RouteCounts as RouteReport } from '../../proto/gen/capstan/v1/invoke.ts';

/** A status from here on is the endpoint's or the service's error. */
const FIRST_ERROR = 500;
const FIRST_REFUSAL = 400;

interface Counts {
  requests: number;
  refused: number;
  errors: number;
  /** By class. */
  readonly durations: Map<number, number>;
}

export class RouteCounts {
  /** False for an endpoint that was removed. */
  readonly #exists: (endpoint: string) => boolean;
  readonly #endpoints = new Map<string, Map<string, Counts>>();

  constructor(exists: (endpoint: string) => boolean) {
    this.#exists = exists;
  }

  /** Counts a request whose response has ended. `route`: `<method> <path>` as declared, or empty. */
  answered(endpoint: string, route: string, status: number, ms: number): void {
    const routes = this.#endpoints.get(endpoint) ?? this.#add(endpoint);
    const counts = routes.get(route) ?? { requests: 0, refused: 0, errors: 0, durations: new Map<number, number>() };
    routes.set(route, counts);
    counts.requests += 1;
    if (status >= FIRST_ERROR) counts.errors += 1;
    else if (status >= FIRST_REFUSAL) counts.refused += 1;
    const of = classOf(ms);
    counts.durations.set(of, (counts.durations.get(of) ?? 0) + 1);
  }

  /** Returns the counts of these endpoints since the last call. */
  take(isWanted: (endpoint: string) => boolean): RouteReport[] {
    const taken: RouteReport[] = [];
    for (const [endpointId, routes] of this.#endpoints) {
      if (!isWanted(endpointId)) continue;
      this.#endpoints.delete(endpointId);
      for (const [route, { durations, ...counts }] of routes)
        taken.push({ endpointId, route, ...counts, classes: [...durations.keys()], classCounts: [...durations.values()] });
    }
    return taken;
  }

  /** Endpoints are created and deleted without limit: removed ones are dropped when another one gets its first request. */
  #add(endpoint: string): Map<string, Counts> {
    for (const known of this.#endpoints.keys()) if (!this.#exists(known)) this.#endpoints.delete(known);
    const routes = new Map<string, Counts>();
    this.#endpoints.set(endpoint, routes);
    return routes;
  }
}

/**
 * What the requests of load-balanced endpoints came to in the last hour, by route. Kept in this gateway's memory, in steps of five
 * minutes, for routes that had requests; each takes at most 3 KB.
 */

/** Length of a step, ms, and how many are kept. */
const STEP_MS = 300_000;
const STEPS = 12;
/** Durations are counted in classes, each so much longer than the one before: the first ends at 1 ms, the last has no end. */
const GROWTH = 1.35;
const CLASSES = 44;
/** A status from here on is the endpoint's or the service's error. */
const FIRST_ERROR = 500;
const FIRST_REFUSAL = 400;

interface Step {
  readonly number: number;
  requests: number;
  /** Answered with a status from 400 to 499. */
  refused: number;
  errors: number;
  readonly durations: Uint32Array;
}

/** The last hour of one route, in this gateway. */
export interface RouteFigure {
  /** `<method> <path>`; empty for requests that no route admitted, and for endpoints without routes. */
  readonly route: string;
  readonly requests: number;
  readonly refused: number;
  readonly errors: number;
  /** Requests a minute, over the time that is known. */
  readonly perMinute: number;
  /** ms, at most 17 % off. */
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  /** By step, oldest first. */
  readonly requestsByStep: readonly number[];
  readonly errorsByStep: readonly number[];
}

export interface RouteFiguresOptions {
  /** False for an endpoint that was removed. */
  readonly exists: (endpoint: string) => boolean;
  /** Monotonic clock, ms. */
  readonly now: () => number;
}

export class RouteFigures {
  readonly #exists: RouteFiguresOptions['exists'];
  readonly #now: () => number;
  readonly #begun: number;
  readonly #endpoints = new Map<string, Map<string, Step[]>>();

  constructor({ exists, now }: RouteFiguresOptions) {
    this.#exists = exists;
    this.#now = now;
    this.#begun = now();
  }

  /** Counts a request whose response has ended. */
  answered(endpoint: string, route: string, status: number, ms: number): void {
    const step = this.#stepOf(endpoint, route);
    step.requests += 1;
    if (status >= FIRST_ERROR) step.errors += 1;
    else if (status >= FIRST_REFUSAL) step.refused += 1;
    const place = classOf(ms);
    step.durations[place] = (step.durations[place] ?? 0) + 1;
  }

  /** The routes of an endpoint that had requests, in the order of their names. */
  of(endpoint: string): RouteFigure[] {
    const now = this.#now();
    const first = Math.floor(now / STEP_MS) - STEPS + 1;
    const minutes = Math.max(1, Math.min(now - this.#begun, now - first * STEP_MS) / 60_000);
    const figures = [...(this.#endpoints.get(endpoint) ?? [])].map(([route, steps]) => {
      const kept = Array.from({ length: STEPS }, (_, n) => steps.find(({ number }) => number === first + n));
      return figureOf(route, kept, minutes);
    });
    return figures.filter(({ requests }) => requests > 0).toSorted((a, b) => (a.route < b.route ? -1 : 1));
  }

  #stepOf(endpoint: string, route: string): Step {
    const routes = this.#endpoints.get(endpoint) ?? this.#add(endpoint);
    const steps = routes.get(route) ?? [];
    if (steps.length === 0) routes.set(route, steps);
    const number = Math.floor(this.#now() / STEP_MS);
    const last = steps.at(-1);
    if (last?.number === number) return last;
    const step = { number, requests: 0, refused: 0, errors: 0, durations: new Uint32Array(CLASSES) };
    steps.push(step);
    while (steps[0] !== undefined && steps[0].number <= number - STEPS) steps.shift();
    return step;
  }

  /** Endpoints are created and deleted without limit: removed ones are dropped when another one gets its first request. */
  #add(endpoint: string): Map<string, Step[]> {
    for (const known of this.#endpoints.keys()) if (!this.#exists(known)) this.#endpoints.delete(known);
    const routes = new Map<string, Step[]>();
    this.#endpoints.set(endpoint, routes);
    return routes;
  }
}

function figureOf(route: string, byStep: readonly (Step | undefined)[], minutes: number): RouteFigure {
  const steps = byStep.filter((step) => step !== undefined);
  const sum = (count: (step: Step) => number): number => steps.reduce((total, step) => total + count(step), 0);
  const requests = sum((step) => step.requests);
  const durations = Array.from({ length: CLASSES }, (_, place) => sum((step) => step.durations[place] ?? 0));
  return {
    route,
    requests,
    refused: sum((step) => step.refused),
    errors: sum((step) => step.errors),
    perMinute: requests / minutes,
    p50: percentile(durations, requests * 0.5),
    p95: percentile(durations, requests * 0.95),
    p99: percentile(durations, requests * 0.99),
    requestsByStep: byStep.map((step) => step?.requests ?? 0),
    errorsByStep: byStep.map((step) => step?.errors ?? 0),
  };
}

function classOf(ms: number): number {
  return Math.min(CLASSES - 1, Math.max(0, Math.ceil(Math.log(ms) / Math.log(GROWTH))));
}

/** The middle of the class in which the request of this rank is. */
function percentile(durations: readonly number[], rank: number): number {
  let seen = 0;
  const place = durations.findIndex((count) => (seen += count) >= rank && count > 0);
  return place <= 0 ? 1 : GROWTH ** (place - 0.5);
}

/**
 * Metrics of load-balanced endpoints (docs/metrics.md), by endpoint. Ids are bounded, because callers cannot invent
 * them.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

import type { ErrorCode } from '../../lib/errors.ts';

/** Levels of an endpoint, read at each scrape. */
export interface LbLevels {
  endpoints(): Iterable<string>;
  level(endpointId: string): { readonly held: number; readonly inFlight: number };
  /** False for an endpoint that was removed. */
  exists(endpointId: string): boolean;
}

const SECONDS_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 330];

interface Series {
  readonly seconds: Histogram.Internal<string>;
  readonly byStatus: Map<number, Counter.Internal>;
  readonly codes: Set<ErrorCode>;
}

export class LbMetrics {
  readonly #requests: Counter;
  readonly #seconds: Histogram;
  readonly #broken: Counter;
  readonly #series = new Map<string, Series>();
  readonly #levels: LbLevels;

  constructor(registry: Registry, levels: LbLevels) {
    this.#levels = levels;
    const registers = [registry];
    this.#requests = new Counter({
      name: 'capstan_lb_requests_total',
      help: 'Completed requests to load-balanced endpoints; 499: the caller disconnected first.',
      labelNames: ['endpoint', 'status'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'capstan_lb_request_duration_seconds',
      help: 'Time from the head of a request to the end of its response, including the wait for a worker.',
      labelNames: ['endpoint'],
      buckets: SECONDS_BUCKETS,
      registers,
    });
    this.#broken = new Counter({
      name: 'capstan_lb_broken_answers_total',
      help: 'Responses of load-balanced endpoints that were cut off after they had begun, by reason.',
      labelNames: ['endpoint', 'code'],
      registers,
    });
    const gauge = (name: string, help: string, value: (endpointId: string) => number): void => {
      const made: Gauge = new Gauge({
        name,
        help,
        labelNames: ['endpoint'],
        registers,
        collect() {
          made.reset();
          for (const endpoint of levels.endpoints()) made.set({ endpoint }, value(endpoint));
        },
      });
    };
    gauge('capstan_lb_requests_held', 'Requests waiting for a worker.', (id) => levels.level(id).held);
    gauge('capstan_lb_requests_in_flight', 'Requests in progress on a worker.', (id) => levels.level(id).inFlight);
  }

  brokeOff(endpoint: string, code: ErrorCode): void {
    this.#of(endpoint).codes.add(code);
    this.#broken.inc({ endpoint, code });
  }

  answered(endpoint: string, status: number, ms: number): void {
    const series = this.#of(endpoint);
    let count = series.byStatus.get(status);
    if (count === undefined) {
      count = this.#requests.labels({ endpoint, status: String(status) });
      series.byStatus.set(status, count);
    }
    count.inc();
    series.seconds.observe(ms / 1000);
  }

  #of(endpoint: string): Series {
    let series = this.#series.get(endpoint);
    if (series === undefined) {
      this.#dropRemoved();
      series = { seconds: this.#seconds.labels({ endpoint }), byStatus: new Map(), codes: new Set() };
      this.#series.set(endpoint, series);
    }
    return series;
  }

  /**
   * Endpoints are created and deleted without limit: the series of a removed one are dropped when the next one is
   * created.
   */
  #dropRemoved(): void {
    for (const [endpoint, { byStatus, codes }] of this.#series) {
      if (this.#levels.exists(endpoint)) continue;
      this.#series.delete(endpoint);
      this.#seconds.remove({ endpoint });
      for (const status of byStatus.keys()) this.#requests.remove({ endpoint, status: String(status) });
      for (const code of codes) this.#broken.remove({ endpoint, code });
    }
  }
}

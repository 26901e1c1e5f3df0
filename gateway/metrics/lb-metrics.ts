/**
 * Metrics of load-balanced endpoints (docs/metrics.md), by endpoint. Ids are bounded, because callers cannot invent
 * them.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

import type { ErrorCode } from '../../lib/errors.ts';
import { RouteCounts } from './route-counts.ts';

/** Why an open WebSocket ended. `closed`: in order, with a Close frame of the worker. */
export type TunnelEnd = 'closed' | 'caller' | 'worker' | 'lost' | 'idle' | 'expired' | 'closing' | 'refused';

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
  readonly reasons: Set<TunnelEnd>;
}

export class LbMetrics {
  readonly #requests: Counter;
  readonly #seconds: Histogram;
  readonly #broken: Counter;
  readonly #series = new Map<string, Series>();
  readonly #closed: Counter;
  /** Open WebSockets by endpoint. */
  readonly #open = new Map<string, number>();
  readonly #levels: LbLevels;
  /** For the history that the scheduler keeps. */
  readonly routes: RouteCounts;

  constructor(registry: Registry, levels: LbLevels) {
    this.#levels = levels;
    this.routes = new RouteCounts((id) => levels.exists(id));
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
    this.#closed = new Counter({
      name: 'capstan_lb_websockets_closed_total',
      help: 'WebSockets that were open and have ended, by the reason: closed (in order), caller, worker, lost (the worker’s host), idle, expired, closing (the gateway).',
      labelNames: ['endpoint', 'reason'],
      registers,
    });
    const open = this.#open;
    const openGauge: Gauge = new Gauge({
      name: 'capstan_lb_websockets_open',
      help: 'Open WebSockets. Each is also a request in progress.',
      labelNames: ['endpoint'],
      registers,
      collect() {
        openGauge.reset();
        for (const [endpoint, count] of open) openGauge.set({ endpoint }, count);
      },
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

  /** A WebSocket is open. */
  opened(endpoint: string): void {
    this.#open.set(endpoint, (this.#open.get(endpoint) ?? 0) + 1);
  }

  /** It has ended. */
  closed(endpoint: string, reason: TunnelEnd): void {
    const left = (this.#open.get(endpoint) ?? 0) - 1;
    if (left > 0) this.#open.set(endpoint, left);
    else this.#open.delete(endpoint);
    this.#of(endpoint).reasons.add(reason);
    this.#closed.inc({ endpoint, reason });
  }

  /** `route`: `<method> <path>`; empty where none was found, and of WebSockets. */
  answered(endpoint: string, status: number, ms: number, route = ''): void {
    this.routes.answered(endpoint, route, status, ms);
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
      series = { seconds: this.#seconds.labels({ endpoint }), byStatus: new Map(), codes: new Set(), reasons: new Set() };
      this.#series.set(endpoint, series);
    }
    return series;
  }

  /**
   * Endpoints are created and deleted without limit: the series of a removed one are dropped when the next one is
   * created.
   */
  #dropRemoved(): void {
    for (const [endpoint, { byStatus, codes, reasons }] of this.#series) {
      if (this.#levels.exists(endpoint)) continue;
      this.#series.delete(endpoint);
      this.#seconds.remove({ endpoint });
      for (const status of byStatus.keys()) this.#requests.remove({ endpoint, status: String(status) });
      for (const code of codes) this.#broken.remove({ endpoint, code });
      for (const reason of reasons) this.#closed.remove({ endpoint, reason });
    }
  }
}

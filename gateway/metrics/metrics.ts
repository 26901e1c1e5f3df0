/**
 * The gateway's metrics (docs/metrics.md). A series is resolved once per route, method and status, so that a request
 * costs a few additions. Labels are bounded: a route is its pattern, never the requested path.
 */
import { Counter, Gauge, Registry, type Histogram } from 'prom-client';

import { metricsText, observeTraced, tracedHistogram, type MetricsFormat } from '../../lib/metrics-text.ts';
import { addProcessMetrics } from '../../lib/process-metrics.ts';
import { LbMetrics, type LbLevels } from './lb-metrics.ts';

/** Levels that are read at each scrape. */
export interface GatewayLevels {
  /** Requests waiting for a reply of the scheduler. */
  pending(): number;
  /** Every cell, and whether the stream to its owner is connected. */
  connected(): readonly (readonly [string, boolean])[];
  /** Memory of request bodies, bytes. */
  bodyMemory(): number;
  readonly lb: LbLevels;
}

/** The series of one route and method. */
export interface RouteSeries {
  readonly seconds: Histogram.Internal<string>;
  readonly requestBytes: Counter.Internal;
  readonly responseBytes: Counter.Internal;
  readonly byStatus: Map<number, Counter.Internal>;
}

/** Includes waits for jobs: /runsync and /status-sync wait up to 300 s. */
const SECONDS_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 90, 300];
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** A request that was answered. */
export interface AnsweredRequest {
  readonly method: string;
  /** The route's pattern; undefined when no route matched. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** Id of the request's trace, if that is recorded. */
  readonly traceId: string | undefined;
}

export class GatewayMetrics {
  readonly #registry = new Registry();
  readonly #series = new Map<string, RouteSeries>();
  readonly #requests: Counter;
  readonly #seconds: Histogram;
  readonly #requestBytes: Counter;
  readonly #responseBytes: Counter;
  /** Requests in progress. */
  inFlight = 0;
  readonly lb: LbMetrics;

  constructor(levels: GatewayLevels) {
    const registers = [this.#registry];
    const labelNames = ['method', 'route'];
    this.#requests = new Counter({
      name: 'capstan_http_requests_total',
      help: 'Completed requests; 499: the caller disconnected first.',
      labelNames: [...labelNames, 'status'],
      registers,
    });
    this.#seconds = tracedHistogram(this.#registry, {
      name: 'capstan_http_request_duration_seconds',
      help: 'Time from the head of a request to the end of its response.',
      labelNames,
      buckets: SECONDS_BUCKETS,
    });
    this.#requestBytes = new Counter({
      name: 'capstan_http_request_body_bytes_total',
      help: 'Bytes of request bodies.',
      labelNames,
      registers,
    });
    this.#responseBytes = new Counter({
      name: 'capstan_http_response_body_bytes_total',
      help: 'Bytes of responses, without their heads.',
      labelNames,
      registers,
    });
    this.#level('capstan_http_requests_in_flight', 'Requests in progress.', () => this.inFlight);
    this.#level('capstan_gateway_pending_requests', 'Requests waiting for a reply from the scheduler.', () => levels.pending());
    const connected: Gauge = new Gauge({
      name: 'capstan_gateway_scheduler_connected',
      help: '1 while the stream to the owner of the cell is connected.',
      labelNames: ['cell'],
      registers,
      collect: () => {
        for (const [cell, isConnected] of levels.connected()) connected.set({ cell }, isConnected ? 1 : 0);
      },
    });
    this.#level('capstan_gateway_body_memory_bytes', 'Memory held by request bodies.', () => levels.bodyMemory());
    this.lb = new LbMetrics(this.#registry, levels.lb);
    addProcessMetrics(this.#registry, 'capstan_gateway_');
  }

  /** Counts a completed request. `route` is its pattern; undefined for an unknown path. */
  answered({ method, route, status, ms, requestBytes, responseBytes, traceId }: AnsweredRequest): void {
    const series = this.#seriesOf(METHODS.has(method) ? method : 'other', route ?? 'none');
    let count = series.byStatus.get(status);
    if (count === undefined) {
      count = this.#requests.labels({ method: METHODS.has(method) ? method : 'other', route: route ?? 'none', status: String(status) });
      series.byStatus.set(status, count);
    }
    count.inc();
    if (traceId === undefined) series.seconds.observe(ms / 1000);
    else {
      const labels = { method: METHODS.has(method) ? method : 'other', route: route ?? 'none' };
      observeTraced(this.#seconds, { labels, value: ms / 1000, traceId });
    }
    if (requestBytes > 0) series.requestBytes.inc(requestBytes);
    if (responseBytes > 0) series.responseBytes.inc(responseBytes);
  }

  /** Returns all metrics. */
  text(format: MetricsFormat): Promise<string> {
    return metricsText(this.#registry, format);
  }

  #seriesOf(method: string, route: string): RouteSeries {
    const key = `${method} ${route}`;
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    const labels = { method, route };
    const series: RouteSeries = {
      seconds: this.#seconds.labels(labels),
      requestBytes: this.#requestBytes.labels(labels),
      responseBytes: this.#responseBytes.labels(labels),
      byStatus: new Map(),
    };
    this.#series.set(key, series);
    return series;
  }

  #level(name: string, help: string, value: () => number): void {
    const gauge: Gauge = new Gauge({ name, help, registers: [this.#registry], collect: () => gauge.set(value()) });
  }
}

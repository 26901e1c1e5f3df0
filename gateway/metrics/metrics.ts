/**
 * The gateway's metrics (docs/metrics.md). A request is counted in plain numbers, by route and method, which the counters
 * of the library take over at each scrape. Labels are bounded: a route is its pattern, never the requested path.
 */
import { Counter, Gauge, Registry } from 'prom-client';

import { metricsText, type MetricsFormat } from '../../lib/metrics-text.ts';
import { PlainHistogram, type HistogramSeries } from '../../lib/plain-histogram.ts';
import { addProcessMetrics } from '../../lib/process-metrics.ts';
import { joinFigures, type GatherFigures, type MetricData } from './joined-figures.ts';
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

/** What was counted of one route and method. */
interface RouteSeries {
  readonly method: string;
  readonly route: string;
  readonly seconds: HistogramSeries;
  requestBytes: number;
  responseBytes: number;
  readonly byStatus: Map<number, number>;
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
  /** By route, then by method. */
  readonly #series = new Map<string, Map<string, RouteSeries>>();
  readonly #seconds: PlainHistogram;
  /** Requests in progress. */
  inFlight = 0;
  readonly lb: LbMetrics;
  readonly #gather: GatherFigures | undefined;

  /** `gather`: undefined where this process is the gateway's only one. */
  constructor(levels: GatewayLevels, gather?: GatherFigures) {
    this.#gather = gather;
    const registers = [this.#registry];
    const labelNames = ['method', 'route'];
    this.#counter(
      { name: 'capstan_http_requests_total', help: 'Completed requests; 499: the caller disconnected first.' },
      [...labelNames, 'status'],
      (counter, { method, route, byStatus }) => {
        for (const [status, count] of byStatus) counter.inc({ method, route, status: String(status) }, count);
      },
    );
    this.#seconds = new PlainHistogram(this.#registry, {
      name: 'capstan_http_request_duration_seconds',
      help: 'Time from the head of a request to the end of its response.',
      buckets: SECONDS_BUCKETS,
    });
    this.#counter(
      { name: 'capstan_http_request_body_bytes_total', help: 'Bytes of request bodies.' },
      labelNames,
      (counter, { method, route, requestBytes }) => counter.inc({ method, route }, requestBytes),
    );
    this.#counter(
      { name: 'capstan_http_response_body_bytes_total', help: 'Bytes of responses, without their heads.' },
      labelNames,
      (counter, { method, route, responseBytes }) => counter.inc({ method, route }, responseBytes),
    );
    this.#level('capstan_http_requests_in_flight', 'Requests in progress.', () => this.inFlight);
    this.#level('capstan_gateway_pending_requests', 'Requests waiting for a reply from the scheduler.', () => levels.pending());
    const connected: Gauge = new Gauge({
      name: 'capstan_gateway_scheduler_connected',
      help: '1 while the stream to the owner of the cell is connected.',
      labelNames: ['cell'],
      registers,
      // Of several processes: 1 while all are connected.
      aggregator: 'min',
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
    series.byStatus.set(status, (series.byStatus.get(status) ?? 0) + 1);
    if (traceId === undefined) series.seconds.observe(ms / 1000);
    else series.seconds.observeTraced(ms / 1000, traceId);
    series.requestBytes += requestBytes;
    series.responseBytes += responseBytes;
  }

  /** Returns all metrics, of all processes of the gateway. */
  async text(format: MetricsFormat): Promise<string> {
    return metricsText(this.#gather === undefined ? this.#registry : joinFigures(await this.#gather()), format);
  }

  /** Returns the figures of this process. */
  async figures(): Promise<readonly MetricData[]> {
    return (await this.#registry.getMetricsAsJSON()) as unknown as MetricData[];
  }

  #seriesOf(method: string, route: string): RouteSeries {
    let methods = this.#series.get(route);
    if (methods === undefined) {
      methods = new Map();
      this.#series.set(route, methods);
    }
    let series = methods.get(method);
    if (series === undefined) {
      const seconds = this.#seconds.series({ method, route });
      series = { method, route, seconds, requestBytes: 0, responseBytes: 0, byStatus: new Map() };
      methods.set(method, series);
    }
    return series;
  }

  /** A counter that a scrape sets to what was counted of each route and method. */
  #counter(
    named: { readonly name: string; readonly help: string },
    labelNames: readonly string[],
    read: (counter: Counter, series: RouteSeries) => void,
  ): void {
    const counter: Counter = new Counter({
      ...named,
      labelNames: [...labelNames],
      registers: [this.#registry],
      collect: () => {
        counter.reset();
        for (const methods of this.#series.values()) for (const series of methods.values()) read(counter, series);
      },
    });
  }

  #level(name: string, help: string, value: () => number): void {
    const gauge: Gauge = new Gauge({ name, help, registers: [this.#registry], collect: () => gauge.set(value()) });
  }
}

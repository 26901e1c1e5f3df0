/**
 * The scheduler's metrics (docs/metrics.md). Counters and gauges are read from the state on each scrape. Only
 * distributions are observed as they happen, in committed batches, so that the core has no metrics code.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

import { joinMetrics, metricsText, type MetricsFormat } from '../../lib/metrics-text.ts';
import { PlainHistogram, type HistogramSeries } from '../../lib/plain-histogram.ts';
import { addProcessMetrics } from '../../lib/process-metrics.ts';
import { sampledTraceId } from '../../lib/trace-context.ts';
import type { Effect, Write } from '../core/effects.ts';
import type { State } from '../core/state.ts';
import type { EndpointRecord, Tallies } from '../core/state/endpoints.ts';
import { inCrashLoop } from '../core/endpoints/crash-loops.ts';
import type { CommitWatcher } from '../engine/engine-options.ts';
import { workerCounts } from '../core/scaling/worker-counts.ts';
import type { Op, Outcome } from '../core/ports/store.ts';
import { KINDS, SEVERITIES, type Incident } from '../incidents/incident.ts';
import { addClusterLevels, type ClusterMetricsSource, type StoreMetrics } from './cluster-metrics.ts';
import { addDevices } from './devices.ts';
import { levelsOf } from './levels.ts';

/** Source of the gauges. */
export interface MetricsSource {
  /** Null while the queue is being taken over. */
  image(): State | null;
  /** Wall clock, ms. */
  wall(): number;
  /** Open streams of gateways. */
  channels(): number;
  /** Inputs kept in memory for dispatch. */
  inputCache(): { readonly jobs: number; readonly bytes: number };
  /** Bytes that may still be written to the data folder's disk; null if the system does not report them. */
  freeBytes(): Promise<number | null>;
  /** @throws CapstanError UNAVAILABLE while this scheduler does not own the queue. */
  readonly incidents: () => Promise<readonly Incident[]>;
  readonly cluster: ClusterMetricsSource;
  /** Null with SQLite. */
  readonly store: StoreMetrics | null;
}

/**
 * Outcome of a webhook delivery: `delivered`, `failed` (tried again later), `exhausted` (given up), `refused` (the
 * address is not allowed).
 */
export type DeliveryOutcome = 'delivered' | 'failed' | 'exhausted' | 'refused';

type WorkerStarted = Extract<Effect, { kind: 'worker-started' }>;
type Finish = Extract<Op, { kind: 'finish' }>;

interface EndpointSeries {
  readonly delay: HistogramSeries;
  readonly execution: HistogramSeries;
  /** Taken over by the counter when it is scraped. */
  readonly finished: Record<Finish['state'], number>;
}

/** From a dispatch within one turn to a job that waited for a host to return, s. */
const DELAY_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86_400];
/** From a trivial handler to a training run, s. */
const EXECUTION_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 7200, 86_400];
const COMMIT_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1];
/** From a spare host that loads a small module to an image that is pulled, s. */
const START_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600, 900];
const FINISHED: readonly Finish['state'][] = ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'];
const BATCH_BUCKETS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000];

const tallyMetrics: Readonly<Record<keyof Tallies, readonly [name: string, help: string]>> = {
  submitted: ['capstan_jobs_submitted_total', 'Jobs submitted.'],
  expired: ['capstan_jobs_expired_total', 'Jobs whose ttl expired before they ended.'],
  started: ['capstan_attempts_started_total', 'Attempts whose handler has started.'],
  lost: ['capstan_attempts_lost_total', 'Attempts whose worker or node was lost.'],
  refused: ['capstan_attempts_refused_total', 'Attempts that an agent rejected.'],
};

export class SchedulerMetrics implements CommitWatcher {
  readonly #registry = new Registry();
  readonly #series = new Map<string, EndpointSeries>();
  readonly #source: MetricsSource;
  readonly #delay: PlainHistogram;
  readonly #execution: PlainHistogram;
  readonly #commitSeconds: HistogramSeries;
  readonly #commitOps: HistogramSeries;
  readonly #deliveries: Counter;
  readonly #starts: Histogram;

  constructor(source: MetricsSource) {
    this.#source = source;
    const registers = [this.#registry];
    this.#delay = new PlainHistogram(this.#registry, {
      name: 'capstan_job_delay_seconds',
      help: 'Time from the submission of a job to the start of its last attempt (delayTime).',
      buckets: DELAY_BUCKETS,
    });
    this.#execution = new PlainHistogram(this.#registry, {
      name: 'capstan_job_execution_seconds',
      help: 'Duration of the last attempt of a job (executionTime).',
      buckets: EXECUTION_BUCKETS,
    });
    const finished: Counter = new Counter({
      name: 'capstan_jobs_finished_total',
      help: 'Ended jobs by final state.',
      labelNames: ['endpoint', 'state'],
      registers,
      collect: () => {
        finished.reset();
        for (const [endpoint, counts] of this.#series)
          for (const state of FINISHED) finished.inc({ endpoint, state }, counts.finished[state]);
      },
    });
    this.#commitSeconds = new PlainHistogram(this.#registry, {
      name: 'capstan_store_commit_duration_seconds',
      help: 'Time from sending a batch to the store until it is durable.',
      buckets: COMMIT_BUCKETS,
    }).series({});
    this.#commitOps = new PlainHistogram(this.#registry, {
      name: 'capstan_store_commit_operations',
      help: 'Operations per batch.',
      buckets: BATCH_BUCKETS,
    }).series({});
    this.#deliveries = new Counter({
      name: 'capstan_webhook_deliveries_total',
      help: 'Attempts to deliver a webhook, by outcome.',
      labelNames: ['outcome'],
      registers,
    });
    this.#starts = new Histogram({
      name: 'capstan_worker_start_seconds',
      help: 'Duration of each phase of a worker’s start: until it is placed, then until its build is on the node, its process has started, its module is loaded.',
      labelNames: ['runtime', 'phase'],
      buckets: START_BUCKETS,
      registers,
    });
    addLevels(this.#registry, source);
    addTallies(this.#registry, source);
    addProcessMetrics(this.#registry, 'capstan_scheduler_');
    addForwarding(this.#registry, source);
    addDisk(this.#registry, source);
    addIncidents(this.#registry, source);
    addClusterLevels(this.#registry, source.cluster);
  }

  committed(writes: readonly Write[], outcomes: readonly Outcome[], ms: number): void {
    this.#commitSeconds.observe(ms / 1000);
    this.#commitOps.observe(writes.length);
    for (const [i, { op, subject }] of writes.entries()) {
      if (op.kind !== 'finish' || subject === null || outcomes[i]?.kind !== 'ok') continue;
      const { endpoint, trace } = subject;
      const { delay, execution, finished } = this.#seriesOf(endpoint);
      finished[op.state] += 1;
      const traceId = sampledTraceId(trace ?? '');
      if (traceId === undefined) {
        if (op.delayMs !== null) delay.observe(op.delayMs / 1000);
        if (op.executionMs !== null) execution.observe(op.executionMs / 1000);
      } else {
        if (op.delayMs !== null) delay.observeTraced(op.delayMs / 1000, traceId);
        if (op.executionMs !== null) execution.observeTraced(op.executionMs / 1000, traceId);
      }
    }
  }

  /** Counts a try of a webhook. */
  delivery(outcome: DeliveryOutcome): void {
    this.#deliveries.inc({ outcome });
  }

  /** Observes the start of a worker: the durations of its phases, ms. */
  workerStarted({ runtime, placedMs, artifactMs, startedMs, loadedMs }: Omit<WorkerStarted, 'effect' | 'endpoint'>): void {
    const phases = { placed: placedMs, artifact: artifactMs, started: startedMs, loaded: loadedMs };
    for (const [phase, ms] of Object.entries(phases)) this.#starts.observe({ runtime, phase }, ms / 1000);
  }

  /** Returns all metrics. */
  async text(format: MetricsFormat): Promise<string> {
    const { store } = this.#source;
    return joinMetrics([await metricsText(this.#registry, format), store === null ? '' : await store.text(format)], format);
  }

  #seriesOf(endpoint: string): EndpointSeries {
    const known = this.#series.get(endpoint);
    if (known !== undefined) return known;
    this.#forgetRemoved();
    const series: EndpointSeries = {
      delay: this.#delay.series({ endpoint }),
      execution: this.#execution.series({ endpoint }),
      finished: { COMPLETED: 0, FAILED: 0, CANCELLED: 0, TIMED_OUT: 0 },
    };
    this.#series.set(endpoint, series);
    return series;
  }

  /**
   * Endpoints are created and deleted without limit, so the series of removed ones are dropped when the next one is
   * created.
   */
  #forgetRemoved(): void {
    const endpoints = this.#source.image()?.endpoints;
    if (endpoints === undefined) return;
    for (const [endpoint, { delay, execution }] of this.#series) {
      if (endpoints.has(endpoint)) continue;
      this.#series.delete(endpoint);
      this.#delay.remove(delay);
      this.#execution.remove(execution);
    }
  }
}

/** Counters since this scheduler's take-over; they restart at 0 with each take-over, as counters may. */
function addTallies(registry: Registry, { image }: MetricsSource): void {
  for (const [key, [name, help]] of Object.entries(tallyMetrics) as [keyof Tallies, readonly [string, string]][]) {
    const counter: Counter = new Counter({
      name,
      help,
      labelNames: ['endpoint'],
      registers: [registry],
      collect: () => {
        counter.reset();
        for (const [endpoint, { tallies }] of image()?.endpoints ?? []) counter.inc({ endpoint }, tallies[key]);
      },
    });
  }
}

/** Counted by each agent since its start. */
function addForwarding(registry: Registry, { image }: MetricsSource): void {
  const counter: Counter = new Counter({
    name: 'capstan_forwarded_log_lines_total',
    help: 'Log lines that agents forwarded to a receiver of OpenTelemetry, or could not forward.',
    labelNames: ['node', 'outcome'],
    registers: [registry],
    collect: () => {
      counter.reset();
      for (const [node, { inventory, session }] of image()?.nodes ?? []) {
        if (session === null || inventory?.logForwarding === undefined) continue;
        counter.inc({ node, outcome: 'sent' }, Number(inventory.logForwarding.sent));
        counter.inc({ node, outcome: 'dropped' }, Number(inventory.logForwarding.dropped));
      }
    },
  });
}

function addDisk(registry: Registry, { freeBytes }: MetricsSource): void {
  const gauge: Gauge = new Gauge({
    name: 'capstan_data_folder_free_bytes',
    help: 'Bytes that can still be written to the disk of the data folder.',
    registers: [registry],
    collect: async () => {
      const free = await freeBytes();
      if (free === null) gauge.remove();
      else gauge.set(free);
    },
  });
}

/** A series for each kind and severity, so that an alert sees how one begins. */
function addIncidents(registry: Registry, { image, incidents }: MetricsSource): void {
  const gauge: Gauge = new Gauge({
    name: 'capstan_incidents',
    help: 'Incidents: what needs a person now, one a cause, by kind and severity (capstan status).',
    labelNames: ['kind', 'severity'],
    registers: [registry],
    collect: async () => {
      const found = image() === null ? null : await incidents().catch(() => null);
      gauge.reset();
      // While the queue is taken over nothing is known.
      if (found === null) return;
      for (const kind of KINDS) for (const severity of SEVERITIES) gauge.set({ kind, severity: severity.toLowerCase() }, 0);
      for (const { kind, severity } of found) gauge.inc({ kind, severity: severity.toLowerCase() });
    },
  });
}

function addLevels(registry: Registry, { image, wall, channels, inputCache }: MetricsSource): void {
  const level = levelsOf(registry, image);
  const perEndpoint = (name: string, help: string, value: (endpoint: EndpointRecord) => number): void =>
    level(name, help, ['endpoint'], (gauge, { endpoints }) => {
      for (const [id, endpoint] of endpoints) gauge.set({ endpoint: id }, value(endpoint));
    });

  level(
    'capstan_endpoint_info',
    'Always 1; joins an endpoint’s id with its name.',
    ['endpoint', 'name', 'environment', 'kind'],
    (gauge, { endpoints }) => {
      for (const [endpoint, { config }] of endpoints)
        gauge.set({ endpoint, name: config.name, environment: config.environment, kind: config.kind.toLowerCase() }, 1);
    },
  );
  level('capstan_queue_jobs', 'Queued jobs.', ['endpoint', 'priority'], (gauge, { endpoints }) => {
    for (const [endpoint, { lanes }] of endpoints) {
      gauge.set({ endpoint, priority: 'normal' }, lanes[0].count);
      gauge.set({ endpoint, priority: 'low' }, lanes[1].count);
    }
  });
  perEndpoint(
    'capstan_queue_oldest_job_age_seconds',
    'Age of the oldest queued job of normal priority; 0 when the queue is empty.',
    (endpoint) => {
      const [{ window, head }] = endpoint.lanes;
      const oldest = window.slice(head).find((job) => job.phase === 'QUEUED');
      return oldest === undefined ? 0 : Math.max(0, wall() - oldest.submittedAt) / 1000;
    },
  );
  perEndpoint('capstan_jobs_in_progress', 'Jobs leased to a worker.', ({ counts }) => counts.inProgress);
  level('capstan_workers', 'Workers by state.', ['endpoint', 'state'], (gauge, present) => {
    for (const [endpoint, each] of present.endpoints)
      for (const [state, count] of Object.entries(workerCounts(present, each))) gauge.set({ endpoint, state }, count);
  });
  level('capstan_nodes', 'Nodes that have joined.', ['connected'], (gauge, { nodes }) => {
    const connected = [...nodes.values()].filter(({ session }) => session !== null).length;
    gauge.set({ connected: 'true' }, connected);
    gauge.set({ connected: 'false' }, nodes.size - connected);
  });
  level('capstan_devices', 'GPUs and MIG slices of the connected nodes.', ['health'], (gauge, { nodes }) => {
    const connected = [...nodes.values()].filter(({ session }) => session !== null);
    const devices = connected.flatMap(({ inventory }) => inventory?.devices ?? []);
    const healthy = devices.filter((device) => device.healthy).length;
    gauge.set({ health: 'healthy' }, healthy);
    gauge.set({ health: 'unhealthy' }, devices.length - healthy);
  });
  addDevices(level);
  perEndpoint('capstan_endpoint_crash_loop', '1 while consecutive starts of the endpoint’s workers fail.', (endpoint) =>
    inCrashLoop(endpoint) ? 1 : 0,
  );
  level('capstan_waiting_requests', 'Requests waiting for the end of a job or its next chunk.', [], (gauge, present) => {
    let waiting = 0;
    for (const open of present.channels.values()) waiting += open.size;
    gauge.set(waiting);
  });
  level('capstan_gateways_connected', 'Open streams from gateways.', [], (gauge) => gauge.set(channels()));
  level('capstan_input_cache_jobs', 'Jobs whose input is kept in memory for dispatch.', [], (gauge) => gauge.set(inputCache().jobs));
  level('capstan_input_cache_bytes', 'Memory used by those inputs.', [], (gauge) => gauge.set(inputCache().bytes));
}

/**
 * Metrics of the store on a database server, of the ownership of the cell, and of the other schedulers (docs/metrics.md).
 * With SQLite there are those of the ownership alone.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

import type { ClusterSeen } from '../cluster/cluster.ts';
import { metricsText, type MetricsFormat } from '../../lib/metrics-text.ts';
import { levelsOf } from './levels.ts';
import type { LossCause, RoundTrip, StoreWatcher, TakeOverCause } from '../store/store-watcher.ts';

export interface ClusterMetricsSource {
  /** Name of the cell that this scheduler serves. */
  readonly cell: string;
  readonly isOwner: () => boolean;
  /** What the schedulers' rows say; null where there are none, or before they were read. */
  readonly seen: () => ClusterSeen | null;
}

/** From a local socket to a synchronous standby in another region, s. */
const COMMIT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3];
const ROUND_TRIPS: readonly RoundTrip[] = ['batch', 'read', 'term'];
const TAKE_OVERS: readonly TakeOverCause[] = ['first', 'itself', 'lock', 'unchanged'];
const LOSSES: readonly LossCause[] = ['released', 'stale', 'doubt'];

/** Counts from the opening of the store on, before the scheduler's other metrics exist. */
export class StoreMetrics implements StoreWatcher {
  readonly #registry = new Registry();
  readonly #roundTrips: Counter;
  readonly #batches: Counter;
  readonly #operations: Counter;
  readonly #renewals: Counter;
  readonly #commit: Histogram;
  readonly #takeOvers: Counter;
  readonly #losses: Counter;
  /** Time of earlier terms, ms, and when the present one began, monotonic. */
  #ownedMs = 0;
  #ownedSince: number | null = null;

  constructor() {
    const counter = (name: string, help: string, labelNames: string[] = []): Counter =>
      new Counter({ name, help, labelNames, registers: [this.#registry] });
    this.#roundTrips = counter(
      'capstan_store_round_trips_total',
      'Requests to the database that were answered or failed, by kind: batch, read, term.',
      ['kind'],
    );
    this.#batches = counter('capstan_store_batches_total', 'Batches that the database confirmed, renewals of the term included.');
    this.#operations = counter('capstan_store_operations_total', 'Operations in those batches.');
    this.#renewals = counter('capstan_store_term_renewals_total', 'Batches without operations: an idle owner confirms its term.');
    this.#commit = new Histogram({
      name: 'capstan_store_database_commit_seconds',
      help: 'Time from sending a batch to the database until it is confirmed.',
      buckets: COMMIT_BUCKETS,
      registers: [this.#registry],
    });
    this.#takeOvers = counter(
      'capstan_scheduler_take_overs_total',
      'Terms that this scheduler began: first (no previous owner), itself (after a batch of unknown outcome), lock (the previous owner was gone), unchanged (the previous owner was silent).',
      ['cause'],
    );
    this.#losses = counter(
      'capstan_scheduler_terms_lost_total',
      'Terms of this scheduler that ended: released, stale (another scheduler took the cell), doubt (a batch of unknown outcome).',
      ['cause'],
    );
    for (const kind of ROUND_TRIPS) this.#roundTrips.inc({ kind }, 0);
    for (const cause of TAKE_OVERS) this.#takeOvers.inc({ cause }, 0);
    for (const cause of LOSSES) this.#losses.inc({ cause }, 0);
    const owned: Counter = new Counter({
      name: 'capstan_scheduler_owner_seconds_total',
      help: 'Time for which this scheduler has owned its cell.',
      registers: [this.#registry],
      collect: () => {
        owned.reset();
        owned.inc((this.#ownedMs + (this.#ownedSince === null ? 0 : performance.now() - this.#ownedSince)) / 1_000);
      },
    });
  }

  roundTrip(kind: RoundTrip): void {
    this.#roundTrips.inc({ kind });
  }

  committed(operations: number, ms: number): void {
    this.#batches.inc();
    this.#operations.inc(operations);
    if (operations === 0) this.#renewals.inc();
    this.#commit.observe(ms / 1_000);
  }

  taken(_cell: number, cause: TakeOverCause): void {
    this.#takeOvers.inc({ cause });
    this.#ownedSince = performance.now();
  }

  lost(_cell: number, cause: LossCause): void {
    this.#losses.inc({ cause });
    if (this.#ownedSince !== null) this.#ownedMs += performance.now() - this.#ownedSince;
    this.#ownedSince = null;
  }

  /** The scheduler ends, and its metrics with it: its log says why. */
  behind(): void {}

  text(format: MetricsFormat): Promise<string> {
    return metricsText(this.#registry, format);
  }
}

/** Adds what the schedulers' rows say. */
export function addClusterLevels(registry: Registry, { cell, isOwner, seen }: ClusterMetricsSource): void {
  const level = levelsOf(registry, seen);
  const owner: Gauge = new Gauge({
    name: 'capstan_scheduler_owner',
    help: '1 while this scheduler owns its cell.',
    labelNames: ['cell'],
    registers: [registry],
    collect: () => owner.set({ cell }, isOwner() ? 1 : 0),
  });
  level(
    'capstan_cell_standbys',
    'Standbys of the cell seen within the last 10 seconds; not ready: without the current master key, or too old for the schema.',
    ['cell', 'ready'],
    (gauge, { standbys, readyStandbys }) => {
      gauge.set({ cell, ready: 'true' }, readyStandbys);
      gauge.set({ cell, ready: 'false' }, standbys - readyStandbys);
    },
  );
  const takeOvers: Counter = new Counter({
    name: 'capstan_cell_take_overs_total',
    help: 'How often one scheduler took the cell over from another, restarts included; counted in the database.',
    labelNames: ['cell'],
    registers: [registry],
    collect: () => {
      takeOvers.reset();
      const present = seen();
      if (present !== null) takeOvers.inc({ cell }, present.takeOvers);
    },
  });
  level(
    'capstan_scheduler_clock_offset_seconds',
    'Clock of a scheduler’s host minus that of the database.',
    ['cell', 'scheduler'],
    (gauge, { clockOffsetsMs }) => {
      for (const [scheduler, ms] of clockOffsetsMs) gauge.set({ cell, scheduler }, ms / 1_000);
    },
  );
}

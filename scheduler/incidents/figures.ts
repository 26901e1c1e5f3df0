/**
 * What incidents need beyond the present state: ends of jobs and requests of the last minutes, GPUs whose workers do nothing, and the
 * usual delay of an endpoint. It is kept in memory: a scheduler that takes over learns it anew.
 */
import type { Durations } from '../../lib/duration-classes.ts';
import type { RouteCounts } from '../../proto/gen/capstan/v1/invoke.ts';
import type { Write } from '../core/effects.ts';
import { isWithoutRequests } from '../core/scaling/scaling-requests.ts';
import type { State } from '../core/state.ts';
import type { WorkerRecord } from '../core/state/fleet.ts';
import { decode, percentile } from '../history/bucket.ts';
import { MAX_ROUTES, OTHER_ROUTES } from '../history/routes.ts';
import type { HistoryStore } from '../store/history.ts';
import type { Outcome } from '../core/ports/store.ts';

/** Ends of jobs, or of the requests of a route. */
export interface Ends {
  ended: number;
  failedEnds: number;
}

export interface EndpointFigures {
  /** Wall time of the first failure before which none happened for that time; undefined without failures. */
  readonly failingSince: number | undefined;
  readonly jobs: Ends;
  readonly routes: ReadonlyMap<string, Ends>;
}

/** What incidents read. */
export interface Figures {
  /** Of the last {@link WINDOW_MS}; undefined if nothing ended. */
  recent(endpoint: string): EndpointFigures | undefined;
  /** The delay that 95 % of the jobs of the last days did not exceed, ms; null without such; undefined while it is read. */
  usualDelayMs(endpoint: string): number | null | undefined;
  /** Wall time since which a worker has not used its GPUs; undefined if it uses them or has none. */
  idleSince(worker: string): number | undefined;
}

/** Time over which failures are counted, ms. */
export const WINDOW_MS = 300_000;
const SLOT_MS = 10_000;
/** Agents report changed gauges every 30 s. */
const SAMPLE_MS = 10_000;

const HOUR_MS = 3_600_000;
const USUAL_MS = 7 * 24 * HOUR_MS;
/** Share of the jobs that the usual delay covers. */
const USUAL_SHARE = 0.95;

export interface FigureDeps {
  /** Null while the queue is being taken over. */
  readonly state: () => State | null;
  /** Wall clock, ms. */
  readonly wall: () => number;
  readonly history: Pick<HistoryStore, 'read'>;
  readonly log: { warn(fields: object, message: string): void };
}

interface Slot {
  readonly begin: number;
  readonly jobs: Ends;
  readonly routes: Map<string, Ends>;
}

export class RecentFigures implements Figures {
  readonly #deps: FigureDeps;
  /** By endpoint, the oldest first. */
  readonly #slots = new Map<string, Slot[]>();
  /** First and last failure of a row of failures, wall time. */
  readonly #failures = new Map<string, { readonly first: number; readonly last: number }>();
  readonly #idle = new Map<string, number>();
  readonly #usual = new Map<string, { readonly readAt: number; ms: number | null | undefined }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: FigureDeps) {
    this.#deps = deps;
  }

  /** Takes samples from now on. */
  start(): void {
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Counts the ends of jobs. */
  committed(writes: readonly Write[], outcomes: readonly Outcome[]): void {
    for (const [i, { op, subject }] of writes.entries()) {
      if (op.kind !== 'finish' || subject === null || outcomes[i]?.kind !== 'ok' || op.state === 'CANCELLED') continue;
      const { jobs } = this.#slot(subject.endpoint);
      jobs.ended += 1;
      if (op.state === 'COMPLETED') continue;
      jobs.failedEnds += 1;
      this.#failed(subject.endpoint);
    }
  }

  /** Counts requests that ended at a gateway. */
  requestsEnded({ endpointId, route, requests, errors }: RouteCounts): void {
    if (this.#deps.state()?.endpoints.has(endpointId) !== true) return;
    const { routes } = this.#slot(endpointId);
    const name = routes.has(route) || routes.size < MAX_ROUTES ? route : OTHER_ROUTES;
    add(routes, name, { ended: requests, failedEnds: errors });
    if (errors > 0) this.#failed(endpointId);
  }

  /** Notes which workers do not use their GPUs, and forgets what has ended. */
  sample(): void {
    const state = this.#deps.state();
    if (state === null) return;
    const now = this.#deps.wall();
    for (const worker of state.workers.values()) {
      if (!leavesDevicesIdle(state, worker)) this.#idle.delete(worker.id);
      else if (!this.#idle.has(worker.id)) this.#idle.set(worker.id, now);
    }
    for (const id of this.#idle.keys()) if (!state.workers.has(id)) this.#idle.delete(id);
    for (const known of [this.#slots, this.#failures]) for (const id of known.keys()) if (!state.endpoints.has(id)) known.delete(id);
    for (const [id, { readAt }] of this.#usual) if (!state.endpoints.has(id) || now - readAt > 2 * HOUR_MS) this.#usual.delete(id);
  }

  recent(endpoint: string): EndpointFigures | undefined {
    const slots = this.#present(endpoint);
    if (slots.length === 0) return undefined;
    const jobs: Ends = { ended: 0, failedEnds: 0 };
    const routes = new Map<string, Ends>();
    for (const slot of slots) {
      jobs.ended += slot.jobs.ended;
      jobs.failedEnds += slot.jobs.failedEnds;
      for (const [name, ends] of slot.routes) add(routes, name, ends);
    }
    const failures = this.#failures.get(endpoint);
    return { jobs, routes, failingSince: failures !== undefined && this.#isRecent(failures.last) ? failures.first : undefined };
  }

  idleSince(worker: string): number | undefined {
    return this.#idle.get(worker);
  }

  usualDelayMs(endpoint: string): number | null | undefined {
    const known = this.#usual.get(endpoint);
    const now = this.#deps.wall();
    if (known !== undefined && now - known.readAt <= HOUR_MS) return known.ms;
    // What was known serves until it is read again: an incident that lasts does not end for that time.
    const reading: { readonly readAt: number; ms: number | null | undefined } = { readAt: now, ms: known?.ms };
    this.#usual.set(endpoint, reading);
    this.#readUsual(endpoint).then(
      (ms) => {
        reading.ms = ms;
      },
      (err: unknown) => {
        this.#deps.log.warn({ err, endpoint }, 'the usual delay of an endpoint cannot be read');
        reading.ms ??= null;
      },
    );
    return reading.ms;
  }

  /** Without the open hour, which the delay that is looked at is part of. */
  async #readUsual(endpoint: string): Promise<number | null> {
    const until = Math.floor(this.#deps.wall() / HOUR_MS) * HOUR_MS;
    const rows = await this.#deps.history.read({ endpoint, step: HOUR_MS / 1_000, from: until - USUAL_MS, until });
    const all: Durations = new Map();
    for (const { value } of rows) for (const [of, count] of decode(value, false).delay) all.set(of, (all.get(of) ?? 0) + count);
    return percentile(all, USUAL_SHARE);
  }

  #failed(endpoint: string): void {
    const known = this.#failures.get(endpoint);
    const now = this.#deps.wall();
    this.#failures.set(endpoint, { first: known !== undefined && this.#isRecent(known.last) ? known.first : now, last: now });
  }

  #isRecent(at: number): boolean {
    return this.#deps.wall() - at <= WINDOW_MS;
  }

  #present(endpoint: string): Slot[] {
    const slots = this.#slots.get(endpoint) ?? [];
    const from = this.#deps.wall() - WINDOW_MS;
    while ((slots[0]?.begin ?? Number.POSITIVE_INFINITY) <= from) slots.shift();
    if (slots.length === 0) this.#slots.delete(endpoint);
    return slots;
  }

  #slot(endpoint: string): Slot {
    const slots = this.#present(endpoint);
    const begin = Math.floor(this.#deps.wall() / SLOT_MS) * SLOT_MS;
    const last = slots.at(-1);
    if (last !== undefined && last.begin >= begin) return last;
    const slot: Slot = { begin, jobs: { ended: 0, failedEnds: 0 }, routes: new Map() };
    slots.push(slot);
    this.#slots.set(endpoint, slots);
    return slot;
  }
}

/** For tests and for readers without figures. */
export const NO_FIGURES: Figures = { recent: () => undefined, usualDelayMs: () => undefined, idleSince: () => undefined };

function add(routes: Map<string, Ends>, name: string, { ended, failedEnds }: Ends): void {
  const sum = routes.get(name) ?? { ended: 0, failedEnds: 0 };
  sum.ended += ended;
  sum.failedEnds += failedEnds;
  routes.set(name, sum);
}

/** A ready worker with GPUs that all report no use; where one does not report it, a worker without work. */
function leavesDevicesIdle(state: State, worker: WorkerRecord): boolean {
  const node = state.nodes.get(worker.node);
  if (worker.devices.length === 0 || !worker.ready || (node?.session ?? null) === null) return false;
  const hasNoWork = worker.attempts.size === 0 && isWithoutRequests(worker);
  return worker.devices.every((uuid) => {
    const used = node?.inventory?.devices.find((device) => device.uuid === uuid)?.utilizationPercent;
    return used === undefined ? hasNoWork : used === 0;
  });
}

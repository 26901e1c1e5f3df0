/**
 * Records what happens at endpoints in steps of 10 s, a minute and an hour. A step is written only when something happened in it, or
 * when its levels differ from those that stand, see {@link heldMs}.
 *
 *   committed batches, started workers ──▶ the step's bucket ──every 10 s, with a sample of the levels──▶ 10 s row
 *                                                                └──added up──▶ rows of the minute and the hour, every minute
 *
 * A step ends with the first event after it, or by a timer, which may be late: what happens is in the step of its time.
 *
 * An end of the process loses what is not written: at most 10 s of the finest step, a minute of the others.
 */
import type { Write } from '../core/effects.ts';
import type { RouteCounts } from '../../proto/gen/capstan/v1/invoke.ts';
import type { State } from '../core/state.ts';
import type { EndpointRecord, Tallies } from '../core/state/endpoints.ts';
import { workerCounts } from '../core/scaling/worker-counts.ts';
import { heldMs, HISTORY_STEPS, type HistoryRow, type HistoryStore } from '../store/history.ts';
import type { Op, Outcome } from '../core/ports/store.ts';
import { addRoute, reportedDurations, routeAt } from './routes.ts';
import { ToldRoutes } from './told-routes.ts';
import { addTo, emptyBucket, encode, isQuiet, LEVELS, note, PHASES, type Bucket, type Count, type Phase } from './bucket.ts';

type Finish = Extract<Op, { kind: 'finish' }>;

export interface RecorderOptions {
  /** Null while the queue is being taken over. */
  readonly image: () => State | null;
  /** Wall clock, ms. */
  readonly wall: () => number;
  readonly store: HistoryStore;
  readonly log: { warn(fields: object, message: string): void };
}

/** Endpoints of an account whose history is kept: those that come first in order of id. */
export const MAX_ENDPOINTS = 200;
/** Rows of one write: about a millisecond. */
const ROWS = 200;
/** Rows that may wait while the store is slow; later ones are dropped. */
const MAX_WAITING = 20_000;

/** Interval of samples: the finest step, ms. */
const SAMPLE_MS = 10_000;
/** Interval at which rows of longer steps are written, ms. */
const LONGER_MS = 60_000;

const COUNT_OF: Readonly<Record<Finish['state'], Count>> = {
  COMPLETED: 'completed',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
  TIMED_OUT: 'timedOut',
};
const TALLIES = ['submitted', 'expired', 'lost', 'refused'] as const satisfies readonly (Count & keyof Tallies)[];

/** The open step of one length. */
interface Open {
  bucket: Bucket;
  /** Mean levels of the last row, as a text; empty before the first. */
  standing: string;
  /** Begin of the last row, ms. */
  writtenAt: number;
  /** Something happened that no row has. */
  hasNews: boolean;
}

interface Recorded {
  /** What happened since the last sample. */
  unsampled: Bucket;
  tallies: Tallies;
  /** For each of {@link HISTORY_STEPS}. */
  readonly steps: readonly Open[];
}

export class HistoryRecorder {
  readonly #options: RecorderOptions;
  readonly #endpoints = new Map<string, Recorded>();
  readonly #toldRoutes = new ToldRoutes();
  /** The state whose tallies are known. */
  #state: State | null = null;
  /** When the recording of this state began, ms: no row begins before it. */
  #since: number;
  /** The last sample, ms: what is not sampled happened since then, in the step that holds it. */
  #sampledAt: number;
  /** Begin of the open step of each length, ms. */
  #begins: number[] = [];
  #waiting = 0;
  #saved: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #isFailing = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#since = options.wall();
    this.#sampledAt = this.#since;
  }

  /** Takes samples from now on, at multiples of 10 s. */
  start(): void {
    const wait = SAMPLE_MS - (this.#options.wall() % SAMPLE_MS);
    this.#timer = setTimeout(() => {
      this.start();
      this.advance();
    }, wait);
    this.#timer.unref();
  }

  /** Ends the step before the present one, if it goes on. Called before each event, with its time. */
  advance(wall = this.#options.wall()): void {
    if (wall >= (Math.floor(this.#sampledAt / SAMPLE_MS) + 1) * SAMPLE_MS) this.sample();
  }

  /** Writes what is not written, and ends. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.sample(true);
    await this.#saved;
  }

  /** Counts the ends of jobs. */
  committed(writes: readonly Write[], outcomes: readonly Outcome[]): void {
    this.advance();
    for (const [i, { op, subject }] of writes.entries()) {
      if (op.kind !== 'finish' || subject === null || outcomes[i]?.kind !== 'ok') continue;
      const { unsampled } = this.#of(subject.endpoint);
      unsampled.counts[COUNT_OF[op.state]]++;
      if (op.delayMs !== null) note(unsampled.delay, op.delayMs);
      if (op.executionMs !== null) note(unsampled.execution, op.executionMs);
    }
  }

  /** Counts a worker that became ready, with the durations of its phases, ms. */
  workerStarted({ endpoint, ...phases }: { readonly endpoint: string } & Readonly<Record<`${Phase}Ms`, number>>): void {
    this.advance();
    const { workerStarts } = this.#of(endpoint).unsampled;
    workerStarts.total++;
    for (const phase of PHASES) workerStarts[phase] += Math.round(phases[`${phase}Ms`]);
  }

  /** Counts requests that ended at a gateway. Only routes that the endpoint declares are told apart. */
  requestsEnded(report: RouteCounts): void {
    this.advance();
    const state = this.#options.image();
    const config = state?.endpoints.get(report.endpointId)?.config;
    if (state === null || config === undefined) return;
    const { requests, refused, errors } = report;
    const durations = reportedDurations(report.classes, report.classCounts);
    const { routes } = this.#of(config.id).unsampled;
    const name = this.#toldRoutes.nameOf(state, config.id, report.route);
    addRoute(routeAt(routes, name), { requests, clientErrors: refused, errors, durations });
  }

  /** Takes a sample of the levels for the step of the last one, and writes what is due; with `last` all that is not written. */
  sample(last = false): void {
    const state = this.#options.image();
    if (state === null) return;
    const now = this.#options.wall();
    if (state !== this.#state) this.#begin(state, now);
    const within = Math.max(this.#since, this.#sampledAt);
    this.#sampledAt = now;
    const rows: HistoryRow[] = [];
    for (const [i, { step }] of HISTORY_STEPS.entries()) {
      const begin = Math.max(this.#since, Math.floor(within / (step * 1000)) * step * 1000);
      if (begin === this.#begins[i]) continue;
      this.#write(i, rows);
      for (const { steps } of this.#endpoints.values()) renew(steps[i]);
      this.#begins[i] = begin;
    }
    for (const endpoint of recorded(state)) this.#sampleOf(state, endpoint);
    for (const id of this.#endpoints.keys()) if (!state.endpoints.has(id)) this.#endpoints.delete(id);
    this.#toldRoutes.keepOnly(state);
    this.#write(0, rows);
    const isMinute = Math.floor(within / LONGER_MS) !== Math.floor(now / LONGER_MS);
    if (isMinute || last) for (let i = 1; i < HISTORY_STEPS.length; i++) this.#write(i, rows);
    this.#save(rows);
  }

  /** A state that was taken over within the last step: its tallies begin at 0. */
  #begin(state: State, now: number): void {
    this.#state = state;
    this.#since = Math.max(this.#sampledAt, now - SAMPLE_MS + 1);
    this.#begins = HISTORY_STEPS.map(() => this.#since);
    for (const [id, { unsampled }] of this.#endpoints) this.#endpoints.set(id, { ...unrecorded(), unsampled });
  }

  #of(id: string): Recorded {
    const known = this.#endpoints.get(id);
    if (known !== undefined) return known;
    const endpoint = unrecorded();
    this.#endpoints.set(id, endpoint);
    return endpoint;
  }

  #sampleOf(state: State, endpoint: EndpointRecord): void {
    const { config, lanes, counts, tallies } = endpoint;
    const own = this.#of(config.id);
    const { unsampled, steps } = own;
    for (const name of TALLIES) unsampled.counts[name] += Math.max(0, tallies[name] - own.tallies[name]);
    own.tallies = { ...tallies };
    const inQueue = lanes[0].count + lanes[1].count;
    Object.assign(unsampled.levels, { ...workerCounts(state, endpoint), inQueue, inProgress: counts.inProgress });
    unsampled.longestQueue = inQueue;
    unsampled.samples = 1;
    const isNews = !isQuiet(unsampled);
    for (const open of steps) {
      addTo(open.bucket, unsampled);
      open.hasNews ||= isNews;
    }
    own.unsampled = emptyBucket();
  }

  /** Adds the rows of the open step of a length that say something new. */
  #write(place: number, rows: HistoryRow[]): void {
    const { step } = HISTORY_STEPS[place] ?? { step: 0 };
    const at = this.#begins[place] ?? 0;
    for (const [endpoint, { steps }] of this.#endpoints) {
      const open = steps[place];
      if (open === undefined || open.bucket.samples === 0) continue;
      const levels = LEVELS.map((name) => (open.bucket.levels[name] / open.bucket.samples).toFixed(2)).join(' ');
      const stands = levels === open.standing && (/^[0. ]*$/.test(levels) || at - open.writtenAt < heldMs(step));
      if (stands && !open.hasNews) continue;
      rows.push({ endpoint, step, at, value: encode(open.bucket) });
      open.standing = levels;
      open.writtenAt = at;
      open.hasNews = false;
    }
  }

  #save(rows: readonly HistoryRow[]): void {
    for (let from = 0; from < rows.length; from += ROWS) {
      const some = rows.slice(from, from + ROWS);
      if (this.#waiting + some.length > MAX_WAITING) {
        this.#failed(new Error(`the store is slow: dropping ${rows.length - from} rows`));
        return;
      }
      this.#waiting += some.length;
      this.#saved = this.#saved
        .then(() => this.#options.store.save(some))
        .then(
          () => {
            this.#isFailing = false;
          },
          (error: unknown) => this.#failed(error),
        )
        .finally(() => {
          this.#waiting -= some.length;
        });
    }
  }

  /** A plot has a gap, and the queue goes on: told once until it works again. */
  #failed(err: unknown): void {
    if (!this.#isFailing) this.#options.log.warn({ err }, 'the history of endpoints is not written');
    this.#isFailing = true;
  }
}

function unrecorded(): Recorded {
  return {
    unsampled: emptyBucket(),
    tallies: { submitted: 0, expired: 0, started: 0, lost: 0, refused: 0 },
    steps: HISTORY_STEPS.map(() => ({ bucket: emptyBucket(), standing: '', writtenAt: 0, hasNews: false })),
  };
}

function renew(open: Open | undefined): void {
  if (open === undefined) return;
  open.bucket = emptyBucket();
  open.hasNews = false;
}

/** The endpoints whose history is kept: {@link MAX_ENDPOINTS} of each account. */
function recorded({ endpoints }: State): EndpointRecord[] {
  const byAccount = Map.groupBy(endpoints.values(), ({ config }) => config.account);
  return [...byAccount.values()].flatMap((own) => {
    const live = own.filter(({ config }) => config.removing === undefined);
    if (live.length <= MAX_ENDPOINTS) return live;
    return live.toSorted((a, b) => (a.config.id < b.config.id ? -1 : 1)).slice(0, MAX_ENDPOINTS);
  });
}

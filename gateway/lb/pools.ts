/**
 * The workers that serve an endpoint's requests, and the requests waiting for one. A request goes to the worker with
 * the fewest in flight, ties to the most recently used one, so that idle workers become idle. Waiting requests are
 * served in order of arrival, also those that a worker returned; their number and time are limited.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { ServingWorker } from '../../proto/gen/capstan/v1/invoke.ts';

/** The stream of the worker's agent. */
export interface WorkerHost {
  readonly node: string;
}

export interface PoolWorker<Host extends WorkerHost> {
  readonly id: string;
  readonly endpointId: string;
  readonly releaseId: string;
  readonly host: Host;
  /** Its functions; empty for a worker that listens itself. */
  readonly functions: ReadonlySet<string>;
  slots: number;
  inFlight: number;
  /** Grows with each use. */
  lastUsed: number;
  /** It rejected a request and gets no other before this time. */
  notBefore: number;
  /** Its request may end it: it gets no other meanwhile. */
  isTaken: boolean;
}

/** A request that waits for a worker. Exactly one of the two callbacks is called, possibly at once. */
export interface WaitingRequest<Host extends WorkerHost> {
  /** Function of the request's route; empty for workers that listen themselves. */
  readonly functionName: string;
  /** When it started to wait, monotonic ms; set here. */
  waitingSince: number | undefined;
  /** It may end its worker, and gets one without other requests. */
  readonly alone: boolean;
  /** When it started to wait for such a worker, monotonic ms; set here. */
  aloneSince: number | undefined;
  /** Whether a key admitted its caller, who may then read errors of the endpoint's code and names of nodes. */
  readonly hasKey: boolean;
  placed(worker: PoolWorker<Host>): void;
  refused(error: CapstanError): void;
}

export interface PoolSettings {
  /** Maximum number of waiting requests per endpoint. */
  readonly maxHeld: number;
  /** How long one may wait, ms. */
  readonly holdMs: number;
  /** Why a request of the endpoint need not wait for a worker; undefined while one may become free. */
  readonly refusalOf?: (endpointId: string, hasKey: boolean) => CapstanError | undefined;
  /** The release whose workers get the endpoint's requests. */
  readonly releaseOf: (endpointId: string) => string | undefined;
  /** Monotonic, ms. */
  readonly now: () => number;
  /** The endpoint's numbers have changed. `begun`: a first request waits. */
  readonly onChange: (endpointId: string, begun: boolean) => void;
}

/** A worker as its agent tells it. */
export type Served = Pick<ServingWorker, 'workerId' | 'endpointId' | 'releaseId' | 'slots' | 'functions'>;

const NONE: ReadonlySet<never> = new Set();

interface Pool<Host extends WorkerHost> {
  readonly workers: Map<string, PoolWorker<Host>>;
  /** In order of arrival. */
  held: Set<WaitingRequest<Host>>;
  inFlight: number;
  /** When a request was last refused because no worker would serve it, monotonic ms. */
  refusedAt: number | undefined;
  /** Fires when the oldest waiting request times out, a worker that rejected one may be tried again, or refused requests count no more. */
  timer: NodeJS.Timeout | undefined;
}

/** What a request finds a worker by. */
interface Choice<Host extends WorkerHost> {
  readonly waiting: WaitingRequest<Host>;
  readonly now: number;
  readonly reserved?: ReadonlySet<PoolWorker<Host>>;
}

/** How long a refused request counts as demand, ms: its caller tries again within this time (Retry-After). */
const DEMAND_MS = 65_000;
/** A request that runs alone waits this long for a worker that is empty by chance, ms; then one gets no others until it is. */
const RESERVE_AFTER_MS = 1_000;
/** For so long, ms: a WebSocket may stay on that worker for hours. The request then waits for one that is empty by chance. */
const RESERVE_FOR_MS = 10_000;
/** Pause after a worker rejected a request, ms; its agent also reports when it is ready again. */
const REFUSED_MS = 25;

export class Pools<Host extends WorkerHost> {
  readonly #settings: PoolSettings;
  readonly #pools = new Map<string, Pool<Host>>();
  #uses = 1;

  constructor(settings: PoolSettings) {
    this.#settings = settings;
  }

  /** Finds a worker for a request, or lets it wait. The returned function removes it again. */
  requestWorker(endpointId: string, waiting: WaitingRequest<Host>): () => void {
    const pool = this.#poolOf(endpointId);
    const now = this.#settings.now();
    const worker = pool.held.size === 0 ? this.#choose(endpointId, pool, { waiting, now }) : undefined;
    if (worker !== undefined) {
      waiting.waitingSince ??= this.#settings.now();
      this.#use(pool, worker, waiting);
      waiting.placed(worker);
      return () => undefined;
    }
    const refusal = this.#refusalOf(endpointId, pool, waiting);
    if (refusal !== undefined) {
      this.#refuse(endpointId, pool, [{ waiting, refusal }]);
      return () => undefined;
    }
    const cameBefore = waiting.waitingSince !== undefined;
    if (!cameBefore && pool.held.size >= this.#settings.maxHeld) {
      waiting.refused(
        new CapstanError('UNAVAILABLE', `the endpoint already has ${pool.held.size} requests waiting for a worker`, { retryAfterMs: 1000 }),
      );
      return () => undefined;
    }
    waiting.waitingSince ??= this.#settings.now();
    if (waiting.alone) waiting.aloneSince ??= this.#settings.now();
    // One that waits for a worker of its own keeps no other from a free slot.
    const mayOvertake = pool.held.size > 0 && hasRoom(pool.workers.values());
    if (cameBefore) pool.held = new Set([...pool.held, waiting].sort((one, other) => sinceOf(one) - sinceOf(other)));
    else pool.held.add(waiting);
    this.#settings.onChange(endpointId, pool.held.size === 1);
    if (mayOvertake) this.serve(endpointId);
    else this.#arm(endpointId, pool, now);
    return () => {
      if (pool.held.delete(waiting)) this.#settings.onChange(endpointId, false);
    };
  }

  /** A worker has one request less. `refused`: it did not accept it. */
  release(worker: PoolWorker<Host>, refused: boolean): void {
    worker.inFlight -= 1;
    worker.isTaken = false;
    if (refused) worker.notBefore = this.#settings.now() + REFUSED_MS;
    const pool = this.#pools.get(worker.endpointId);
    if (pool === undefined) return;
    pool.inFlight -= 1;
    this.#settings.onChange(worker.endpointId, false);
    this.serve(worker.endpointId);
  }

  /** The request of a worker that is taken has shown that it does not end it at once: the worker gets others, too. */
  share(worker: PoolWorker<Host>): void {
    if (!worker.isTaken) return;
    worker.isTaken = false;
    this.serve(worker.endpointId);
  }

  /** Replaces the set of workers behind a host. */
  setServing(host: Host, workers: readonly Served[]): void {
    const named = new Set(workers.map(({ workerId }) => workerId));
    for (const pool of this.#pools.values()) {
      for (const worker of pool.workers.values()) if (worker.host === host && !named.has(worker.id)) pool.workers.delete(worker.id);
    }
    const touched = new Set<string>();
    for (const { workerId, endpointId, releaseId, slots, functions } of workers) {
      const pool = this.#poolOf(endpointId);
      const known = pool.workers.get(workerId);
      touched.add(endpointId);
      if (known?.host === host) {
        known.slots = slots;
        continue;
      }
      pool.workers.set(workerId, {
        id: workerId,
        endpointId,
        releaseId,
        host,
        functions: new Set(functions),
        slots: Math.max(1, slots),
        inFlight: 0,
        lastUsed: 0,
        notBefore: 0,
        isTaken: false,
      });
    }
    for (const endpointId of touched) {
      // They served from here on: what was refused before is not repeated.
      const pool = this.#pools.get(endpointId);
      if (pool !== undefined) pool.refusedAt = undefined;
      this.serve(endpointId);
      this.#settings.onChange(endpointId, false);
    }
  }

  /** Assigns free workers to waiting requests. */
  serve(endpointId: string): void {
    const pool = this.#pools.get(endpointId);
    if (pool === undefined) return;
    const reserved = new Set<PoolWorker<Host>>();
    // One time for the choice and the timer: a worker that may be tried again between the two would be forgotten.
    const now = this.#settings.now();
    for (const waiting of pool.held) {
      const worker = this.#choose(endpointId, pool, { waiting, now, reserved });
      if (worker === undefined) {
        const emptied = this.#emptiedFor(endpointId, pool, waiting, reserved);
        if (emptied !== undefined) reserved.add(emptied);
        // It waits for a worker of its own, or for a function that only the new release has; others need not wait.
        if (hasRoom(pool.workers.values(), reserved)) continue;
        break;
      }
      pool.held.delete(waiting);
      this.#use(pool, worker, waiting);
      waiting.placed(worker);
    }
    this.#arm(endpointId, pool, now);
  }

  /** The reasons for refusals have changed, of one endpoint or of all: refuses those that wait in vain. */
  recheck(only?: string): void {
    for (const [endpointId, pool] of this.#pools) {
      if (pool.held.size === 0 || (only !== undefined && only !== endpointId)) continue;
      const refused = [...pool.held].flatMap((waiting) => {
        const refusal = this.#refusalOf(endpointId, pool, waiting);
        return refusal === undefined ? [] : [{ waiting, refusal }];
      });
      if (refused.length === 0) continue;
      for (const { waiting } of refused) pool.held.delete(waiting);
      this.#refuse(endpointId, pool, refused);
    }
  }

  /** A refused request remains demand for a while: without any the scheduler would not notice that a worker can start again. */
  #refuse(
    endpointId: string,
    pool: Pool<Host>,
    refused: readonly { readonly waiting: WaitingRequest<Host>; readonly refusal: CapstanError }[],
  ): void {
    const isFirst = !this.#hasDemand(pool);
    pool.refusedAt = this.#settings.now();
    for (const { waiting, refusal } of refused) waiting.refused(refusal);
    this.#settings.onChange(endpointId, isFirst);
    this.#arm(endpointId, pool, this.#settings.now());
  }

  #hasDemand({ held, refusedAt }: Pool<Host>): boolean {
    return held.size > 0 || (refusedAt !== undefined && this.#settings.now() - refusedAt < DEMAND_MS);
  }

  /** An endpoint with a worker here may serve: waiting is not in vain. */
  #refusalOf(endpointId: string, pool: Pool<Host>, { hasKey }: WaitingRequest<Host>): CapstanError | undefined {
    return pool.workers.size > 0 ? undefined : this.#settings.refusalOf?.(endpointId, hasKey);
  }

  /** Returns the numbers of waiting and in-flight requests, and the age of the oldest waiting one, ms. */
  level(endpointId: string): { readonly held: number; readonly inFlight: number; readonly oldestHeldMs: number } {
    const pool = this.#pools.get(endpointId);
    if (pool === undefined) return { held: 0, inFlight: 0, oldestHeldMs: 0 };
    const [first] = pool.held;
    return {
      held: pool.held.size,
      inFlight: pool.inFlight,
      oldestHeldMs: first === undefined ? 0 : Math.max(0, Math.round(this.#settings.now() - sinceOf(first))),
    };
  }

  /** Returns the same, with requests that were refused a moment ago as one that waits: what the scheduler scales by. */
  demand(endpointId: string): ReturnType<Pools<Host>['level']> {
    const level = this.level(endpointId);
    const pool = this.#pools.get(endpointId);
    return level.held === 0 && pool?.workers.size === 0 && this.#hasDemand(pool) ? { ...level, held: 1 } : level;
  }

  /** Returns every endpoint that has requests or workers. */
  endpoints(): IterableIterator<string> {
    return this.#pools.keys();
  }

  /** Refuses all that wait. */
  close(error: CapstanError): void {
    for (const pool of this.#pools.values()) {
      clearTimeout(pool.timer);
      for (const waiting of pool.held) {
        pool.held.delete(waiting);
        waiting.refused(error);
      }
    }
  }

  #poolOf(endpointId: string): Pool<Host> {
    let pool = this.#pools.get(endpointId);
    if (pool === undefined) {
      this.#dropIdle();
      pool = { workers: new Map(), held: new Set(), inFlight: 0, refusedAt: undefined, timer: undefined };
      this.#pools.set(endpointId, pool);
    }
    return pool;
  }

  /** Endpoints are created and deleted without limit: an empty pool is removed when the next one is created. */
  #dropIdle(): void {
    for (const [endpointId, pool] of this.#pools) {
      if (pool.workers.size > 0 || pool.inFlight > 0 || this.#hasDemand(pool)) continue;
      clearTimeout(pool.timer);
      this.#pools.delete(endpointId);
    }
  }

  /**
   * Returns a worker of the current release; as long as it has none, one of the previous release that has the function.
   */
  #choose(
    endpointId: string,
    pool: Pool<Host>,
    { waiting: { functionName: fn, alone }, now, reserved = NONE }: Choice<Host>,
  ): PoolWorker<Host> | undefined {
    const release = this.#settings.releaseOf(endpointId);
    let best: PoolWorker<Host> | undefined;
    let present = false;
    for (const worker of pool.workers.values()) {
      if (worker.releaseId === release) {
        if (!present) best = undefined;
        present = true;
      } else if (present || (fn !== '' && !worker.functions.has(fn))) continue;
      if (worker.inFlight >= (alone ? 1 : worker.slots) || worker.isTaken || reserved.has(worker)) continue;
      if (best !== undefined) {
        const less = best.inFlight - worker.inFlight;
        if (less < 0 || (less === 0 && worker.lastUsed < best.lastUsed)) continue;
      }
      if (worker.notBefore > now) continue;
      best = worker;
    }
    return best;
  }

  /** Returns the worker that takes no other requests until this one can run alone on it: the one with the fewest in flight. */
  #emptiedFor(
    endpointId: string,
    pool: Pool<Host>,
    { functionName: fn, alone, aloneSince }: WaitingRequest<Host>,
    reserved: ReadonlySet<PoolWorker<Host>>,
  ): PoolWorker<Host> | undefined {
    const waited = this.#settings.now() - (aloneSince ?? 0);
    if (!alone || waited < RESERVE_AFTER_MS || waited >= RESERVE_AFTER_MS + RESERVE_FOR_MS) return undefined;
    const release = this.#settings.releaseOf(endpointId);
    const all = [...pool.workers.values()];
    const present = all.filter(({ releaseId }) => releaseId === release);
    const fit = present.length > 0 ? present : all.filter(({ functions }) => fn === '' || functions.has(fn));
    const workers = fit.filter((worker) => !worker.isTaken && !reserved.has(worker));
    return workers.sort((one, other) => one.inFlight - other.inFlight)[0];
  }

  #use(pool: Pool<Host>, worker: PoolWorker<Host>, { alone }: WaitingRequest<Host>): void {
    const { endpointId } = worker;
    worker.isTaken = alone;
    worker.inFlight += 1;
    worker.notBefore = 0;
    worker.lastUsed = this.#uses++;
    pool.inFlight += 1;
    this.#settings.onChange(endpointId, false);
  }

  /** `now`: the time by which workers were chosen. */
  #arm(endpointId: string, pool: Pool<Host>, now: number): void {
    clearTimeout(pool.timer);
    pool.timer = undefined;
    const [first] = pool.held;
    if (first === undefined) {
      if (pool.refusedAt === undefined) return;
      const left = pool.refusedAt + DEMAND_MS - now;
      if (left > 0) pool.timer = setTimeout(() => this.#settings.onChange(endpointId, false), left + 1).unref();
      else pool.refusedAt = undefined;
      return;
    }
    let wait = sinceOf(first) + this.#settings.holdMs - now;
    for (const { notBefore } of pool.workers.values()) if (notBefore > now) wait = Math.min(wait, notBefore - now);
    for (const { alone, aloneSince } of pool.held) {
      if (!alone) continue;
      // The begin and the end of a reservation.
      const waited = now - (aloneSince ?? 0);
      if (waited < RESERVE_AFTER_MS) wait = Math.min(wait, RESERVE_AFTER_MS - waited);
      else if (waited < RESERVE_AFTER_MS + RESERVE_FOR_MS) wait = Math.min(wait, RESERVE_AFTER_MS + RESERVE_FOR_MS - waited);
    }
    pool.timer = setTimeout(() => this.#due(endpointId, pool), Math.max(1, wait));
  }

  #due(endpointId: string, pool: Pool<Host>): void {
    const { holdMs, now } = this.#settings;
    for (const waiting of pool.held) {
      if (sinceOf(waiting) + holdMs > now()) break;
      pool.held.delete(waiting);
      this.#settings.onChange(endpointId, false);
      waiting.refused(new CapstanError('UNAVAILABLE', `no worker became free within ${holdMs / 1000} s`, { retryAfterMs: 5000 }));
    }
    this.serve(endpointId);
  }
}

function sinceOf({ waitingSince }: { readonly waitingSince: number | undefined }): number {
  return waitingSince ?? 0;
}

function hasRoom<W extends PoolWorker<WorkerHost>>(workers: Iterable<W>, reserved: ReadonlySet<W> = new Set()): boolean {
  for (const worker of workers) if (worker.inFlight < worker.slots && !worker.isTaken && !reserved.has(worker)) return true;
  return false;
}

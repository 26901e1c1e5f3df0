/**
 * What must hold of idle workers that make room for the jobs of other endpoints (scheduler/core/scaling/preemption.ts),
 * from outside: what was ready when is remembered here.
 */
import { usageWithout } from '../../scheduler/core/fleet/placement/claims.ts';
import { fitOn, wanted } from '../../scheduler/core/fleet/placement/feasible.ts';
import { isReady } from '../../scheduler/core/jobs/slots.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { EndpointRecord } from '../../scheduler/core/state/endpoints.ts';
import type { WorkerRecord } from '../../scheduler/core/state/fleet.ts';

/** The least time for which a worker stays that was started, ms. */
const LEAST_STAY_MS = 1_000;
/** An idle worker that could make room for so long has been overlooked, ms. */
const OVERLOOKED_MS = 3_000;
/** A scheduler that runs looks at waiting endpoints at least so often: what is longer, it was paused, ms. */
const LONGEST_STEP_MS = 1_100;

export class PreemptionRules {
  /** What was seen of the state of each scheduler's life. */
  readonly #seen = new WeakMap<State, SeenState>();

  /** Looks at the state after a step; throws when a rule is broken. */
  check(state: State, now: number): void {
    let seen = this.#seen.get(state);
    if (seen === undefined) this.#seen.set(state, (seen = new SeenState(state)));
    seen.check(state, now);
  }
}

class SeenState {
  /** Since when workers are ready. */
  readonly #ready = new Map<string, number>();
  readonly #drained: Set<string>;
  /** Since when a worker could make room for an endpoint. */
  #could = new Map<string, number>();
  #lastStep = Number.NEGATIVE_INFINITY;

  constructor(state: State) {
    this.#drained = new Set([...state.workers.values()].filter(({ drain }) => drain).map(({ id }) => id));
  }

  check(state: State, now: number): void {
    for (const worker of state.workers.values()) {
      if (worker.ready && !this.#ready.has(worker.id)) this.#ready.set(worker.id, now);
      if (!worker.ready) this.#ready.delete(worker.id);
      if (!worker.drain || this.#drained.has(worker.id)) continue;
      this.#drained.add(worker.id);
      if (worker.decision.includes('makes room')) this.#checkDrained(state, worker, now);
    }
    const pausedMs = Number.isFinite(this.#lastStep) ? Math.max(0, now - this.#lastStep - LONGEST_STEP_MS) : 0;
    this.#lastStep = now;
    const could = new Map<string, number>();
    if (!state.recovering)
      for (const endpoint of state.endpoints.values()) {
        const worker = hasNoPlace(endpoint, state) ? this.#couldLeaveFor(state, endpoint, now) : null;
        if (worker === null) continue;
        const since = (this.#could.get(endpoint.config.id) ?? now - pausedMs) + pausedMs;
        could.set(endpoint.config.id, since);
        if (now - since > OVERLOOKED_MS)
          fail(`jobs of ${endpoint.config.id} wait for a place, although the idle worker ${worker.id} could make room`);
      }
    this.#could = could;
  }

  #checkDrained(state: State, worker: WorkerRecord, now: number): void {
    const { id, attempts } = worker;
    if (attempts.size > 0) fail(`the worker ${id} ended to make room, although it holds ${attempts.size} leases`);
    const endpoint = state.endpoints.get(worker.endpoint);
    if (endpoint === undefined) return;
    const { workersMin, keepIdle } = endpoint.config;
    const left = staying(state, endpoint).length;
    if (left < workersMin) fail(`the worker ${id} ended to make room, and leaves ${left} of the ${workersMin} of workersMin`);
    if (keepIdle) fail(`the worker ${id} ended to make room, although its endpoint keeps idle ones`);
    const ready = this.#ready.get(id);
    const stayed = now - (ready ?? Number.NEGATIVE_INFINITY);
    // What the state was told and what is remembered here may differ by a step.
    if (stayed < LEAST_STAY_MS - 10) fail(`the worker ${id} ended ${stayed.toFixed(0)} ms after it was ready to make room`);
  }

  /** An idle worker, ready for long enough, without which a worker of the endpoint has a place. */
  #couldLeaveFor(state: State, endpoint: EndpointRecord, now: number): WorkerRecord | null {
    const release = state.releases.get(endpoint.config.release);
    if (release === undefined) return null;
    const want = wanted(state, endpoint.config, release);
    for (const worker of state.workers.values()) {
      const owner = state.endpoints.get(worker.endpoint);
      const node = state.nodes.get(worker.node);
      if (owner === undefined || owner === endpoint || node === undefined || !isReady(worker) || worker.attempts.size > 0) continue;
      if (now - (this.#ready.get(worker.id) ?? now) < 2 * LEAST_STAY_MS || owner.lanes.some(({ count }) => count > 0)) continue;
      if (worker.release !== owner.config.release || owner.config.removing !== undefined) continue;
      if (staying(state, owner).length <= owner.config.workersMin) continue;
      if (!('reason' in fitOn(want, node, usageWithout(state, node, [worker])))) return worker;
    }
    return null;
  }
}

function hasNoPlace({ config, unplaced, claims, starts, lanes, workers }: EndpointRecord, state: State): boolean {
  if (config.removing !== undefined || starts.failures > 0 || claims.length > 0) return false;
  if (unplaced.count === 0 || lanes[0].count === 0) return false;
  return [...workers].every((id) => state.workers.get(id)?.drain !== false);
}

function staying(state: State, { workers, config }: EndpointRecord): WorkerRecord[] {
  return [...workers].flatMap((id) => state.workers.get(id) ?? []).filter(({ drain, release }) => !drain && release === config.release);
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}

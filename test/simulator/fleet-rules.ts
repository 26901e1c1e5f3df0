/**
 * What must hold of workers, releases, nodes and devices after every step of the scheduler
 * (scheduler/core/scaling/rollout.ts, nodes.ts; invariant 7).
 */
import { isReady } from '../../scheduler/core/jobs/slots.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { EndpointRecord } from '../../scheduler/core/state/endpoints.ts';
import type { WorkerRecord } from '../../scheduler/core/state/fleet.ts';
import type { JobRecord } from '../../scheduler/core/state/jobs.ts';
import { placementsOf } from '../../scheduler/core/fleet/placement/placed-workers.ts';

export class FleetRules {
  /** Leases that were looked at, `<job> <token>`. */
  readonly #seen = new Set<string>();
  /** Endpoints with a worker of the present release that took jobs after the step before, and which release that was. */
  #fresh = new Map<string, string>();

  /** Looks at the state after a step; throws when a rule is broken. */
  check(state: State): void {
    const fresh = new Map<string, string>();
    for (const endpoint of state.endpoints.values()) if (hasFresh(state, endpoint)) fresh.set(endpoint.config.id, endpoint.config.release);
    for (const job of state.jobs.values()) if (job.lease !== null) this.#checkLease(state, job, fresh);
    this.#fresh = fresh;
    for (const node of state.nodes.values()) {
      for (const id of node.workers) {
        const worker = state.workers.get(id);
        if (worker === undefined) fail(`node ${node.config.id} lists the worker ${id}, which is not there`);
        if (worker.node !== node.config.id) fail(`node ${node.config.id} lists the worker ${id} of node ${worker.node}`);
        if (node.config.draining && !worker.drain) fail(`the drained node ${node.config.id} has the worker ${id}, which is to stay`);
        const lost = worker.drain ? undefined : node.facts?.devices.find(({ uuid, healthy }) => !healthy && worker.devices.includes(uuid));
        if (!worker.drain) checkLevel(state, worker);
        if (lost !== undefined) fail(`the worker ${id} is to stay, although its device ${lost.uuid} is lost`);
      }
    }
    checkPlacements(state);
  }

  #checkLease(state: State, job: JobRecord, fresh: ReadonlyMap<string, string>): void {
    const key = `${job.id} ${job.token}`;
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const config = state.endpoints.get(job.endpoint)?.config;
    const worker = state.workers.get(job.lease?.worker ?? '');
    if (config === undefined || worker === undefined || worker.release === config.release) return;
    if (job.queuePosition >= config.releaseFrom)
      fail(`job ${job.id}, submitted after a deployment, was given to a worker of an older release`);
    const { id } = config;
    if (fresh.get(id) === config.release && this.#fresh.get(id) === config.release)
      fail(`job ${job.id} was given to an old worker, although one of the present release was ready`);
  }
}

/** A worker that is to stay is isolated as its account requires, as far as its node has reported. */
function checkLevel(state: State, { id, endpoint, node }: WorkerRecord): void {
  const account = state.endpoints.get(endpoint)?.config.account ?? '';
  const least = state.accounts.get(account)?.leastIsolation ?? 'none';
  const level = state.nodes.get(node)?.inventory?.isolation?.processes ?? least;
  if (least === 'sandbox' && level !== 'sandbox')
    fail(`the worker ${id} is to stay on node ${node}, which isolates it less than its account requires`);
}

/** Gateways were told exactly the placed workers of load-balanced endpoints. */
function checkPlacements(state: State): void {
  for (const id of new Set([...state.nodes.keys(), ...state.toldPlacements.keys()])) {
    const node = state.nodes.get(id);
    const placed = node === undefined ? [] : placementsOf(state, node).workers.map(({ workerId }) => workerId);
    const told = state.toldPlacements.get(id) ?? '';
    if (placed.join(' ') !== told) fail(`gateways were told the workers "${told}" of node ${id}, which has "${placed.join(' ')}"`);
  }
}

function hasFresh(state: State, endpoint: EndpointRecord): boolean {
  for (const id of endpoint.workers) {
    const worker = state.workers.get(id);
    if (worker === undefined || worker.release !== endpoint.config.release || !isReady(worker)) continue;
    if (state.nodes.get(worker.node)?.session != null) return true;
  }
  return false;
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}

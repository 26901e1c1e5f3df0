/**
 * Places new workers: feasible → rank → plan, over the current state. Each node that cannot take the worker gives a
 * reason; the reasons are kept for users.
 */
import { present } from '../../../lib/invariant.ts';
import type { WorkerRuntime } from '../../../lib/isolation.ts';
import type { State } from '../state.ts';
import type { EndpointRecord, Release } from '../state/endpoints.ts';
import type { NodeRecord } from '../state/fleet.ts';
import { usageFor } from './placement/claims.ts';
import { fitOn, wanted, type Fit, type Wanted } from './placement/feasible.ts';
import { RejectionCollector, type Rejected, type RejectionGroup } from '../state/rejections.ts';
import { rankOf, ranksBefore, type Rank } from './placement/rank.ts';

/** A place for a worker and the resources it would get. */
export interface Plan {
  readonly endpoint: string;
  readonly release: string;
  readonly node: string;
  readonly runtime: WorkerRuntime;
  readonly devices: readonly string[];
  /** Reserved for it. */
  readonly cpuMillis: number;
  readonly memoryBytes: number;
}

/** A plan, or the reasons why there is none. */
export type Placement = { readonly plan: Plan } | { readonly plan: null; readonly rejections: readonly RejectionGroup[] };

const none: ReadonlySet<string> = new Set();
const startsFail: Rejected = { reason: 'STARTS_FAIL', detail: '' };

interface Candidate {
  readonly node: NodeRecord;
  readonly fit: Fit;
  readonly rank: Rank;
}

/**
 * Plans the workers of one endpoint one after the other. Each node is checked once, and again after a worker was placed
 * on it. For use within one step, while nothing else changes the state.
 */
export class Placer {
  readonly #state: State;
  readonly #want: Wanted;
  readonly #candidates: Candidate[] = [];
  readonly #rejections = new RejectionCollector();
  #last: NodeRecord | null = null;

  /** `avoid` names nodes to skip. */
  constructor(state: State, endpoint: EndpointRecord, release: Release, avoid: ReadonlySet<string> = none) {
    this.#state = state;
    this.#want = wanted(state, endpoint.config, release);
    for (const node of state.nodes.values()) {
      if (avoid.has(node.config.id)) this.#rejections.add(node.config, startsFail);
      else this.#consider(node);
    }
  }

  /** Returns a plan for one more worker, provided that the earlier plans were carried out. */
  next(): Placement {
    if (this.#last !== null) this.#consider(this.#last);
    this.#last = null;
    let best = 0;
    for (let i = 1; i < this.#candidates.length; i++) {
      if (ranksBefore(this.#candidates[i] as Candidate, this.#candidates[best] as Candidate)) best = i;
    }
    const chosen = this.#candidates[best];
    if (chosen === undefined) return { plan: null, rejections: this.#rejections.groups() };
    const last = present(this.#candidates.pop(), 'a node was chosen among the candidates', { endpoint: this.#want.endpoint });
    if (last !== chosen) this.#candidates[best] = last;
    this.#last = chosen.node;
    const { endpoint, release, reserve } = this.#want;
    const plan: Plan = {
      endpoint,
      release: release.id,
      node: chosen.node.config.id,
      runtime: chosen.fit.runtime,
      devices: chosen.fit.devices.map(({ uuid }) => uuid),
      cpuMillis: reserve.cpuMillis,
      memoryBytes: reserve.memoryBytes,
    };
    return { plan };
  }

  #consider(node: NodeRecord): void {
    const usage = node.claims.length === 0 ? node.usage : usageFor(this.#state, node, this.#want.endpoint);
    const fit = fitOn(this.#want, node, usage);
    if ('reason' in fit) this.#rejections.add(node.config, fit);
    else this.#candidates.push({ node, fit, rank: rankOf(this.#want, node, usage, fit) });
  }
}

/** Plans one more worker of an endpoint. */
export function place(state: State, endpoint: EndpointRecord, release: Release, avoid: ReadonlySet<string> = none): Placement {
  return new Placer(state, endpoint, release, avoid).next();
}

/** Returns why a plan cannot be carried out in the current state; null if it can. */
export function staleness(state: State, plan: Plan): Rejected | null {
  // A plan of an earlier step may be out of date.
  const node = state.nodes.get(plan.node);
  const release = state.releases.get(plan.release);
  const endpoint = state.endpoints.get(plan.endpoint);
  if (node === undefined || release === undefined || endpoint === undefined || endpoint.config.release !== plan.release)
    return { reason: 'NODE_DISCONNECTED', detail: 'the placement is out of date' };
  const fit = fitOn(wanted(state, endpoint.config, release), node, usageFor(state, node, plan.endpoint));
  if ('reason' in fit) return fit;
  if (fit.runtime !== plan.runtime) return { reason: 'RUNTIME_MISSING', detail: `${plan.runtime} is no longer the runtime of this node` };
  const facts = new Map(node.facts?.devices.map((device) => [device.uuid, device]));
  for (const uuid of plan.devices) {
    const device = facts.get(uuid);
    if (device === undefined) return { reason: 'GPU_MISSING', detail: `${uuid} is no longer present` };
    if (!device.healthy) return { reason: 'DEVICE_PROBLEM', detail: `${uuid}: ${device.problem}` };
    if (node.usage.devices.has(uuid) || node.usage.orphans.has(uuid)) return { reason: 'GPU_BUSY', detail: `${uuid} is in use` };
  }
  return null;
}

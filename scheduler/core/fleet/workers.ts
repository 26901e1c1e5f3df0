/** The desired workers of each node: kept in the store and sent to agents as a whole set with an epoch. */
import { invariant, present } from '../../../lib/invariant.ts';
import type { WorkerRuntime } from '../../../lib/isolation.ts';
import type { StepContext } from '../context.ts';
import { noteDecision } from '../endpoints/decisions.ts';
import { emptyUpdate } from './directory.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { NodeRecord, WorkerRecord } from '../state/fleet.ts';
import { listedWorker, listedWorkers, nodeOfWorker } from '../references.ts';
import type { Now } from '../now.ts';
import { changedPlacements } from './placement/placed-workers.ts';
import { staleness, type Plan } from './placement.ts';
import { reserveUsage, releaseUsage } from './placement/node-usage.ts';
import type { Rejected } from '../state/rejections.ts';
import { putRow } from '../rows.ts';
import { randomName } from '../random.ts';

/** The entry of a worker in a desired row. */
export interface DesiredWorker {
  readonly id: string;
  readonly endpoint: string;
  readonly release: string;
  readonly devices: readonly string[];
  readonly runtime: WorkerRuntime;
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly maxConcurrency: number;
  readonly decision: string;
  readonly drain: boolean;
  /** Id of the master key that its token is made with; empty for the first one. */
  readonly tokenKey: string;
}

/** The desired row of a node. */
export interface DesiredRow {
  readonly epoch: number;
  readonly workers: readonly DesiredWorker[];
  /** The most recent past workers, `[id, endpoint]`, oldest first. */
  readonly past: readonly (readonly [string, string])[];
}

/** Past workers that are remembered per node, in memory and in its row. */
const MAX_PAST = 4_096;
const MAX_PAST_STORED = 64;
/** Other endpoints of which one past worker is stored. */
const MAX_PAST_ENDPOINTS = 512;

/** Requests the worker of a plan, unless the plan is out of date. */
export function requestWorker(
  { state, now }: Pick<StepContext, 'state' | 'now'>,
  endpoint: EndpointRecord,
  plan: Plan,
  decision: string,
): WorkerRecord | Rejected {
  const stale = staleness(state, plan);
  if (stale !== null) return stale;
  const release = present(state.releases.get(endpoint.config.release), 'a worker is planned for a known release', {
    release: plan.release,
  });
  const worker: WorkerRecord = {
    id: freshId(state),
    endpoint: endpoint.config.id,
    release: endpoint.config.release,
    node: plan.node,
    devices: plan.devices,
    runtime: plan.runtime,
    cpuMillis: plan.cpuMillis,
    memoryBytes: plan.memoryBytes,
    maxConcurrency: release.maxConcurrency,
    decision,
    drain: false,
    // Empty before the service first records its master key.
    tokenKey: state.masterKey?.id ?? '',
    ...initialWorkerState(state, now),
    placedMs: endpoint.unplaced.count === 0 ? 0 : Math.round(now.mono - endpoint.unplaced.since),
    start: null,
  };
  addWorker(state, worker);
  state.dirtyNodes.add(plan.node);
  noteDecision(endpoint, now, { kind: 'REQUEST', worker: worker.id, node: worker.node, reason: decision });
  return worker;
}

/** Returns the state of a worker before its agent has reported it. */
export function initialWorkerState(
  state: State,
  now: Now,
): Pick<
  WorkerRecord,
  | 'status'
  | 'ready'
  | 'failuresSeen'
  | 'askedAt'
  | 'placedMs'
  | 'start'
  | 'attempts'
  | 'lastUsed'
  | 'idleSince'
  | 'notBefore'
  | 'readySince'
  | 'drainingSince'
  | 'yieldsTo'
> {
  return {
    status: null,
    ready: false,
    failuresSeen: 0,
    askedAt: now.mono,
    placedMs: null,
    start: null,
    attempts: new Map(),
    lastUsed: state.nextUse++,
    idleSince: now.mono,
    notBefore: 0,
    readySince: now.mono,
    drainingSince: now.mono,
    yieldsTo: null,
  };
}

export function addWorker(state: State, worker: WorkerRecord): void {
  invariant(!state.workers.has(worker.id), 'a worker is added once', { worker: worker.id, node: worker.node });
  const node = nodeOfWorker(state, worker);
  state.workers.set(worker.id, worker);
  node.workers.add(worker.id);
  reserveUsage(node.usage, worker);
  // A database that was restored in part lacks the endpoint's row.
  state.endpoints.get(worker.endpoint)?.workers.add(worker.id);
}

/** Tells a worker to finish its work and stop. */
export function drainWorker(state: State, now: Now, worker: WorkerRecord, decision: string): void {
  if (worker.drain) return;
  worker.drain = true;
  worker.drainingSince = now.mono;
  worker.decision = decision;
  state.dirtyNodes.add(worker.node);
  const endpoint = state.endpoints.get(worker.endpoint);
  if (endpoint !== undefined) noteDecision(endpoint, now, { kind: 'DRAIN', worker: worker.id, node: worker.node, reason: decision });
}

/** Deletes a worker that is gone, or whose node is gone. */
export function forgetWorker(state: State, id: string): void {
  const worker = listedWorker(state, id);
  const node = nodeOfWorker(state, worker);
  state.workers.delete(id);
  node.workers.delete(id);
  releaseUsage(node.usage, worker);
  notePast(node, id, worker.endpoint);
  state.capacityVersion++;
  if (worker.yieldsTo !== null) state.dirtyEndpoints.add(worker.yieldsTo);
  state.endpoints.get(worker.endpoint)?.workers.delete(id);
  state.dirtyNodes.add(worker.node);
  state.dirtyEndpoints.add(worker.endpoint);
}

/** Remembers that a node ran a worker, so that its logs can be requested later. */
export function notePast(node: NodeRecord, worker: string, endpoint: string): void {
  node.pastWorkers.set(worker, endpoint);
  if (node.pastWorkers.size <= MAX_PAST) return;
  const [oldest] = node.pastWorkers.keys();
  node.pastWorkers.delete(present(oldest, 'a list beyond its limit has an oldest entry', { node: node.config.id }));
}

/** Returns the workers of an endpoint by the node that runs or ran them: the nodes that hold the endpoint's logs. */
export function workersByNode(state: State, endpoint: string): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const [id, node] of state.nodes) {
    const workers = new Set<string>();
    for (const [worker, of] of node.pastWorkers) if (of === endpoint) workers.add(worker);
    for (const worker of node.workers) if (listedWorker(state, worker).endpoint === endpoint) workers.add(worker);
    if (workers.size > 0) found.set(id, workers);
  }
  return found;
}

/** Returns a function that tells whether a worker is known, present or past. */
export function knownWorkers(state: State): (worker: string) => boolean {
  return (worker) => state.workers.has(worker) || [...state.nodes.values()].some((node) => node.pastWorkers.has(worker));
}

/** The latest past workers of a node, and the latest one of each other endpoint: its logs are still on the node. */
function storedPast({ pastWorkers }: NodeRecord): [string, string][] {
  const all = [...pastWorkers];
  const latest = all.slice(-MAX_PAST_STORED);
  const stored = new Set(latest.map(([, endpoint]) => endpoint));
  const others: [string, string][] = [];
  for (let at = all.length - latest.length - 1; at >= 0 && others.length < MAX_PAST_ENDPOINTS; at -= 1) {
    const past = all[at];
    if (past === undefined || stored.has(past[1])) continue;
    stored.add(past[1]);
    others.push(past);
  }
  return [...others.reverse(), ...latest];
}

/** Writes and sends the desired set of every node that changed in this step. */
export function flushDesired(ctx: StepContext): void {
  for (const id of ctx.state.dirtyNodes) {
    const node = ctx.state.nodes.get(id);
    const placements = changedPlacements(ctx.state, id);
    const update = placements === null ? null : { ...emptyUpdate(), placements: [placements] };
    // It was removed in this step.
    if (node === undefined) {
      if (update !== null) ctx.emit({ kind: 'directory', update });
      continue;
    }
    node.epoch++;
    const workers = listedWorkers(ctx.state, node.workers);
    const row: DesiredRow = { epoch: node.epoch, workers: workers.map(toDesired), past: storedPast(node) };
    const write = putRow(ctx, 'desired', id, row);
    if (update !== null) ctx.emit({ kind: 'directory', update }, write);
    if (node.session !== null)
      ctx.emit(
        { kind: 'send-desired', node: id, session: node.session, epoch: node.epoch, workers: workers.map((worker) => ({ ...worker })) },
        write,
      );
  }
  ctx.state.dirtyNodes.clear();
}

function toDesired(worker: WorkerRecord): DesiredWorker {
  const { id, endpoint, release, devices, runtime, cpuMillis, memoryBytes, maxConcurrency, decision, drain, tokenKey } = worker;
  return { id, endpoint, release, devices, runtime, cpuMillis, memoryBytes, maxConcurrency, decision, drain, tokenKey };
}

function freshId(state: State): string {
  for (;;) {
    const id = randomName(state.random, 14);
    if (!state.workers.has(id)) return id;
  }
}

/** Nodes, workers and the scaler's decisions, for operators. */
import { compareTexts } from '../../lib/text-order.ts';
import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointInfo, GetEndpointResponse, JoinTokenInfo, NodeInfo, WorkerInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Now } from '../core/now.ts';
import type { State } from '../core/state.ts';
import type { EndpointConfig, EndpointRecord } from '../core/state/endpoints.ts';
import type { JoinTokenRow, NodeRecord, WorkerRecord } from '../core/state/fleet.ts';
import { tokenId } from '../core/fleet/nodes.ts';
import { capacityOf } from '../core/fleet/placement/feasible.ts';
import type { Reader } from './auth.ts';
import { slotsOf } from '../core/jobs/slots.ts';
import { workerCounts } from '../core/scaling/worker-counts.ts';

const MAX_UINT32 = 0xffff_ffff;

export function nodeInfo(state: State, node: NodeRecord): NodeInfo {
  let jobs = 0;
  for (const id of node.workers) jobs += state.workers.get(id)?.attempts.size ?? 0;
  return {
    id: node.config.id,
    name: node.config.name,
    connected: node.session !== null,
    incarnation: node.incarnation,
    agentVersion: node.agentVersion,
    ...(node.inventory === null ? {} : { inventory: node.inventory }),
    workers: node.workers.size,
    draining: node.config.draining,
    jobs,
    offerOnly: false,
    ...allocated(node),
    ...allocatable(state, node),
  };
}

/** When the scheduler last received a message of the node's agent; nothing before the first one since the scheduler's start. */
export function lastSeen({ reported, lastHeard }: NodeRecord, { wall, mono }: Now): Pick<NodeInfo, 'lastSeenMs'> {
  return reported ? { lastSeenMs: BigInt(Math.trunc(wall - (mono - lastHeard))) } : {};
}

/** Returns the resources reserved for the node's workers. */
function allocated({ usage }: NodeRecord): Pick<NodeInfo, 'cpuMillisAllocated' | 'memoryBytesAllocated' | 'devicesAllocated'> {
  return { cpuMillisAllocated: usage.cpuMillis, memoryBytesAllocated: BigInt(usage.memoryBytes), devicesAllocated: usage.devices.size };
}

/** Returns the allocatable resources of a node; 0 where its agent does not report them. */
export function allocatable({ settings }: State, { facts }: NodeRecord): Pick<NodeInfo, 'cpuMillisAllocatable' | 'memoryBytesAllocatable'> {
  const all = facts === null ? null : capacityOf(facts, settings);
  // An agent may report amounts that no message can carry. Such a node must not hide the others from operators.
  const bounded = (amount: number | undefined, most: number): number =>
    amount === undefined || !Number.isFinite(amount) ? 0 : Math.min(most, Math.round(amount));
  return {
    cpuMillisAllocatable: bounded(all?.cpuMillis, MAX_UINT32),
    memoryBytesAllocatable: BigInt(bounded(all?.memoryBytes, Number.MAX_SAFE_INTEGER)),
  };
}

/** Returns the workers that a reader may see, of all endpoints or of one. */
export function workerInfos(state: State, { account, sees }: Omit<Reader, 'operator' | 'listsJobs'>, endpointId: string): WorkerInfo[] {
  const infos: WorkerInfo[] = [];
  for (const worker of state.workers.values()) {
    const config = state.endpoints.get(worker.endpoint)?.config;
    if (config === undefined || config.account !== account || !sees(config) || (endpointId !== '' && worker.endpoint !== endpointId))
      continue;
    infos.push(workerInfo(worker, config));
  }
  return infos.toSorted((a, b) => compareTexts(a.status?.workerId ?? '', b.status?.workerId ?? ''));
}

/** Returns an endpoint with its workers and the decisions about it. */
export function endpointDetail(
  state: State,
  endpoint: EndpointRecord,
  info: EndpointInfo,
  envNames: readonly string[],
): GetEndpointResponse {
  const { rejections, decisions, starts } = endpoint;
  return {
    info,
    workerCounts: workerCounts(state, endpoint),
    workers: [...endpoint.workers]
      .sort(compareTexts)
      .flatMap((id) => state.workers.get(id) ?? [])
      .map((worker) => workerInfo(worker, endpoint.config)),
    rejections: rejections.map(({ reason, nodes, examples }) => ({
      reason,
      nodes,
      examples: examples.map(({ name, detail }) => ({ node: name, detail })),
    })),
    decisions: decisions.map(({ at, kind, worker, node, reason }) => ({
      atMs: BigInt(Math.trunc(at)),
      kind,
      workerId: worker,
      nodeId: node,
      reason,
    })),
    failedStarts: starts.failures,
    lastStartError: starts.lastError,
    envNames: [...envNames].sort(),
  };
}

/** Returns the join tokens that were not revoked. */
export function tokenInfos(state: State): JoinTokenInfo[] {
  return [...state.joinTokens].filter(([, { revoked }]) => !revoked).map(([hash, token]) => tokenInfo(hash, token));
}

function tokenInfo(hash: string, { name, createdAt, expiresAt, maxUses, uses }: JoinTokenRow): JoinTokenInfo {
  return {
    id: tokenId(hash),
    name,
    createdAtMs: BigInt(Math.trunc(createdAt)),
    expiresAtMs: BigInt(Math.trunc(expiresAt ?? 0)),
    maxUses: maxUses ?? 0,
    uses,
  };
}

/**
 * Agents report a worker when it starts, fails or ends, and jobs one by one; only the scheduler's state shows whether
 * it runs a job.
 */
function stateNow(reported: WorkerState, worker: WorkerRecord, { kind }: EndpointConfig): WorkerState {
  if (reported !== WorkerState.IDLE && reported !== WorkerState.RUNNING) return reported;
  if (worker.attempts.size > 0) return WorkerState.RUNNING;
  return kind === 'LOAD_BALANCED' ? reported : WorkerState.IDLE;
}

function workerInfo(worker: WorkerRecord, config: EndpointConfig): WorkerInfo {
  const status = worker.status ?? {
    workerId: worker.id,
    endpointId: worker.endpoint,
    releaseId: worker.release,
    state: WorkerState.INITIALIZING,
    reason: '',
    detail: '',
    failures: 0,
    deviceUuids: [...worker.devices],
    artifactMs: 0,
    startedMs: 0,
    loadedMs: 0,
  };
  return {
    status: { ...status, state: stateNow(status.state, worker, config) },
    nodeId: worker.node,
    jobs: worker.attempts.size,
    maxConcurrency: slotsOf(worker),
    decision: worker.decision,
    runtime: worker.runtime,
  };
}

/**
 * Current problems that need a person. Everything is derived from the present state, so that an item disappears with its
 * cause.
 */
import { AttentionKind, type AttentionItem, type ListAttentionResponse } from '../../proto/gen/capstan/v1/control.ts';
import { queueReason } from '../core/jobs/reasons.ts';
import type { Now } from '../core/now.ts';
import { inCrashLoop } from '../core/scaling/crash-loops.ts';
import { requestLoad } from '../core/scaling/scaling-requests.ts';
import type { State } from '../core/state.ts';
import type { EndpointRecord } from '../core/state/endpoints.ts';
import type { NodeRecord } from '../core/state/fleet.ts';
import type { DiskSpace } from '../files/disk-watch.ts';
import type { HookHead } from '../store/store.ts';
import type { Reader } from './auth.ts';

/** Limit of items in a reply. */
const MAX_ITEMS = 500;
/** Share of a node's disk below which it is reported, percent. */
const NODE_MIN_FREE_PERCENT = 5;
/** Characters of a message; errors of users' code are part of it. */
const LONGEST_MESSAGE = 1_000;

export interface AttentionSources {
  readonly state: State;
  readonly now: Now;
  readonly reader: Pick<Reader, 'account' | 'operator'>;
  /** Undelivered webhooks of the reader's account. */
  readonly hooks: readonly HookHead[];
  readonly disk: SchedulerDisk;
}

export interface SchedulerDisk {
  /** Null if the system does not report it. */
  readonly space: DiskSpace | null;
  /** Below it the scheduler accepts no new jobs; 0: no limit. */
  readonly minFreePercent: number;
}

/**
 * Returns the problems that the reader may see: those of its account, and for operators also those of other accounts'
 * endpoints, of nodes and of disks. Endpoints come first, longest wait first in each kind.
 */
export function attention({ state, now, reader, hooks, disk }: AttentionSources): ListAttentionResponse {
  const endpoints = [...state.endpoints.values()].filter(
    ({ config }) => (reader.operator || config.account === reader.account) && config.removing === undefined,
  );
  const items = [
    ...endpoints.flatMap((endpoint) => ofEndpoint(state, endpoint, now)),
    ...webhooksOf(state, hooks),
    ...(reader.operator ? schedulerDisk(disk) : []),
    ...[...state.nodes.values()].flatMap((node) => ofNode(state, node, now, reader)),
  ];
  const order = items.toSorted((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || since(a) - since(b));
  return { items: order.slice(0, MAX_ITEMS), omitted: Math.max(0, items.length - MAX_ITEMS) };
}

/** The order of kinds in a reply, the most urgent first. */
const KINDS: readonly AttentionKind[] = [
  AttentionKind.DISK_LOW,
  AttentionKind.CRASH_LOOP,
  AttentionKind.NO_CAPACITY,
  AttentionKind.NODE_DISCONNECTED,
  AttentionKind.GATEWAY_UNREACHABLE,
  AttentionKind.DEVICE_UNHEALTHY,
  AttentionKind.WEBHOOKS_FAILING,
];

const RUNBOOKS = {
  [AttentionKind.CRASH_LOOP]: 'runbook.md#workers-fail-to-start',
  [AttentionKind.NO_CAPACITY]: 'runbook.md#jobs-wait-and-none-runs',
  [AttentionKind.WEBHOOKS_FAILING]: 'runbook.md#webhooks-are-given-up',
  [AttentionKind.DISK_LOW]: 'runbook.md#the-disk-fills',
  [AttentionKind.NODE_DISCONNECTED]: 'runbook.md#a-host-is-disconnected',
  [AttentionKind.GATEWAY_UNREACHABLE]: 'runbook.md#a-host-does-not-reach-a-gateway',
  [AttentionKind.DEVICE_UNHEALTHY]: 'runbook.md#a-gpu-is-unhealthy',
} as const;

type Known = keyof typeof RUNBOOKS;

interface Subject {
  readonly endpoint?: EndpointRecord;
  readonly node?: NodeRecord;
  /** Wall time, ms; undefined if unknown. */
  readonly sinceMs?: number | undefined;
}

function item(kind: Known, message: string, { endpoint, node, sinceMs }: Subject): AttentionItem {
  return {
    kind,
    ...(sinceMs === undefined ? {} : { sinceMs: BigInt(Math.max(0, Math.trunc(sinceMs))) }),
    endpointId: endpoint?.config.id ?? '',
    nodeId: node?.config.id ?? '',
    accountId: endpoint?.config.account ?? '',
    message: message.slice(0, LONGEST_MESSAGE),
    runbook: RUNBOOKS[kind],
  };
}

function since({ sinceMs }: AttentionItem): number {
  return sinceMs === undefined ? Number.MAX_SAFE_INTEGER : Number(sinceMs);
}

function ofEndpoint(state: State, endpoint: EndpointRecord, now: Now): AttentionItem[] {
  if (inCrashLoop(endpoint)) {
    const { failures, lastError } = endpoint.starts;
    const sinceMs = endpoint.decisions.findLast(({ kind }) => kind === 'CRASH_LOOP')?.at;
    return [item(AttentionKind.CRASH_LOOP, `${failures} consecutive starts failed; last error: ${lastError}`, { endpoint, sinceMs })];
  }
  const requests = requestLoad(endpoint, now).waiting;
  const waiting = endpoint.lanes[0].count + endpoint.lanes[1].count + requests;
  if (waiting === 0) return [];
  const { reason, detail } = queueReason(state, endpoint, now);
  if (reason !== 'NO_CAPACITY') return [];
  const oldest = endpoint.lanes.flatMap(
    ({ window, head }) => window.find((job, index) => index >= head && job.phase === 'QUEUED')?.submittedAt ?? [],
  );
  const sinceMs = oldest.length === 0 ? undefined : Math.min(...oldest);
  return [item(AttentionKind.NO_CAPACITY, `${waiting} waiting: ${detail}`, { endpoint, sinceMs })];
}

function webhooksOf(state: State, hooks: readonly HookHead[]): AttentionItem[] {
  const failing = Map.groupBy(
    hooks.filter((hook) => hook.state === 'FAILED' || hook.tries > 0),
    (hook) => hook.endpoint,
  );
  return [...failing].flatMap(([id, failed]) => {
    const endpoint = state.endpoints.get(id);
    const givenUp = failed.filter((hook) => hook.state === 'FAILED').length;
    const message = `failed webhooks: ${failed.length - givenUp} to be retried, ${givenUp} given up`;
    return endpoint === undefined ? [] : [item(AttentionKind.WEBHOOKS_FAILING, message, { endpoint })];
  });
}

function schedulerDisk({ space, minFreePercent }: SchedulerDisk): AttentionItem[] {
  if (space === null || !isLow(space, minFreePercent)) return [];
  const message = `the disk of the scheduler's data folder has less than ${minFreePercent} % free space: new jobs, bodies and builds are rejected`;
  return [item(AttentionKind.DISK_LOW, message, {})];
}

function isLow({ free, total }: DiskSpace, percent: number): boolean {
  return free < (total * percent) / 100;
}

/** Accounts share nodes: only operators see the state of a host, and others the GPUs of hosts that run their workers. */
function ofNode(state: State, node: NodeRecord, now: Now, { account, operator }: AttentionSources['reader']): AttentionItem[] {
  const { config, session, grace, reported, lastHeard, inventory } = node;
  const { name } = config;
  if (session === null) {
    if (!operator || grace !== null) return [];
    const sinceMs = reported ? now.wall - (now.mono - lastHeard) : undefined;
    return [item(AttentionKind.NODE_DISCONNECTED, `the agent of ${name} is not connected`, { node, sinceMs })];
  }
  if (inventory === null) return [];
  const items: AttentionItem[] = [];
  const space = { free: Number(inventory.diskAvailableBytes), total: Number(inventory.diskBytes) };
  if (operator && isLow(space, NODE_MIN_FREE_PERCENT))
    items.push(item(AttentionKind.DISK_LOW, `the disk of ${name} has less than ${NODE_MIN_FREE_PERCENT} % free space`, { node }));
  if (operator)
    for (const { address, dialed, reason } of inventory.unreachableGateways) {
      const as = dialed === address ? '' : ` (announced as ${address})`;
      items.push(
        item(AttentionKind.GATEWAY_UNREACHABLE, `the agent of ${name} does not reach the gateway at ${dialed}${as}: ${reason}`, { node }),
      );
    }
  const runsOwn = [...node.workers].some((id) => {
    const worker = state.workers.get(id);
    return worker !== undefined && state.endpoints.get(worker.endpoint)?.config.account === account;
  });
  if (!operator && !runsOwn) return items;
  const sick = inventory.devices.filter(({ healthy }) => !healthy);
  if (sick.length > 0) {
    const problems = [...new Set(sick.map(({ model, problem }) => `${model}: ${problem}`))].join('; ');
    items.push(item(AttentionKind.DEVICE_UNHEALTHY, `${sick.length} unhealthy on ${name}: ${problems}`, { node }));
  }
  if (inventory.deviceProblem !== '')
    items.push(item(AttentionKind.DEVICE_UNHEALTHY, `the GPUs of ${name} cannot be read: ${inventory.deviceProblem}`, { node }));
  return items;
}

/** Incidents of hosts: nodes, their disks and GPUs, and the disk of the scheduler. */
import type { Now } from '../core/now.ts';
import type { State } from '../core/state.ts';
import type { NodeRecord } from '../core/state/fleet.ts';
import type { DiskSpace } from '../files/disk-watch.ts';
import { ofNode, ofSubject, type Action, type Incident } from './incident.ts';
import { counted, nodeArgument } from './titles.ts';

/** Share of a node's disk below which it is reported, percent. */
const NODE_MIN_FREE_PERCENT = 5;

export interface SchedulerDisk {
  /** Null if the system does not report it. */
  readonly space: DiskSpace | null;
  /** Below it the scheduler accepts no new jobs; 0: no limit. */
  readonly minFreePercent: number;
}

export interface HostReader {
  readonly account: string;
  readonly operator: boolean;
}

export function schedulerDiskIncidents({ space, minFreePercent }: SchedulerDisk): Incident[] {
  if (space === null || !isBelow(space, minFreePercent)) return [];
  const text = ` (data folder) has less than ${minFreePercent} % free disk: new jobs, bodies and builds are rejected`;
  return [ofSubject('the scheduler', text, { kind: 'DISK_LOW', severity: 'CRITICAL', sinceMs: undefined })];
}

function isBelow({ free, total }: DiskSpace, percent: number): boolean {
  return free < (total * percent) / 100;
}

/** Accounts share nodes: only operators see the state of a host, and others the GPUs of hosts that run their workers. */
export function nodeIncidents(state: State, node: NodeRecord, now: Now, reader: HostReader): Incident[] {
  if (node.session === null) return reader.operator ? gone(node, now) : [];
  const { inventory } = node;
  if (inventory === null) return [];
  const devices = deviceIncidents(node, inventory);
  const seesDevices = devices.length > 0 && (reader.operator || runsWorkersOf(state, node, reader.account));
  return [...(reader.operator ? hostIncidents(state, node, inventory) : []), ...(seesDevices ? devices : [])];
}

/**
 * A node that left is listed at once: its jobs wait for the end of the grace period. One that has not reported since the scheduler
 * started has until then.
 */
function gone(node: NodeRecord, now: Now): Incident[] {
  const { config, grace, reported, lastHeard } = node;
  if (grace !== null && !reported) return [];
  const sinceMs = reported ? now.wall - (now.mono - lastHeard) : undefined;
  const text = grace === null ? ' is gone' : ' is gone; its jobs move to other hosts if it does not return';
  const actions = [{ label: 'Remove', command: `capstan node remove ${nodeArgument(config)} --force` }];
  return [ofNode(node, text, { kind: 'NODE_DISCONNECTED', severity: 'CRITICAL', sinceMs, actions })];
}

type Inventory = NonNullable<NodeRecord['inventory']>;

function hostIncidents({ settings }: State, node: NodeRecord, inventory: Inventory): Incident[] {
  const found: Incident[] = [];
  const space = { free: Number(inventory.diskAvailableBytes), total: Number(inventory.diskBytes) };
  const disk = diskText(space, settings.diskReserveBytes);
  if (disk !== '') found.push(ofNode(node, disk, { kind: 'DISK_LOW', severity: 'CRITICAL', sinceMs: undefined, actions: drain(node) }));
  for (const { address, dialed, reason } of inventory.unreachableGateways) {
    const as = dialed === address ? '' : ` (announced as ${address})`;
    const text = ` does not reach the gateway at ${dialed}${as}: ${reason}`;
    found.push(ofNode(node, text, { kind: 'GATEWAY_UNREACHABLE', severity: 'CRITICAL', sinceMs: undefined }));
  }
  if (inventory.gatewayUnknown) {
    const text = ' knows no address of a gateway: functions there cannot call other endpoints';
    found.push(ofNode(node, text, { kind: 'GATEWAY_UNKNOWN', severity: 'WARNING', sinceMs: undefined }));
  }
  return found;
}

/** Why the disk is too full; empty if it is not, or if the node does not report it. */
function diskText(space: DiskSpace, reserveBytes: number): string {
  if (space.total === 0) return '';
  if (isBelow(space, NODE_MIN_FREE_PERCENT)) return ` has less than ${NODE_MIN_FREE_PERCENT} % free disk`;
  if (space.free < reserveBytes) return ' has less free disk than its reserve: it unpacks no new build';
  return '';
}

function deviceIncidents(node: NodeRecord, { devices, deviceProblem, devicesUnread }: Inventory): Incident[] {
  const sick = devices.filter(({ healthy }) => !healthy);
  const details = { kind: 'DEVICE_UNHEALTHY', severity: 'CRITICAL', sinceMs: undefined, actions: drain(node) } as const;
  // A driver that fails makes all of them unhealthy: that is one cause.
  if (deviceProblem !== '' && !devicesUnread) return [ofNode(node, `: its GPUs cannot be read: ${deviceProblem}`, details)];
  if (sick.length === 0) return [];
  const problems = [...new Set(sick.map(({ model, problem }) => `${model}: ${problem}`))].join('; ');
  return [ofNode(node, `: ${counted(sick.length, 'unhealthy GPU')}: ${problems}`, details)];
}

function drain({ config }: NodeRecord): Action[] {
  return config.draining ? [] : [{ label: 'Drain', command: `capstan node drain ${nodeArgument(config)}` }];
}

function runsWorkersOf(state: State, { workers }: NodeRecord, account: string): boolean {
  return [...workers].some((id) => {
    const worker = state.workers.get(id);
    return worker !== undefined && state.endpoints.get(worker.endpoint)?.config.account === account;
  });
}

/**
 * What is given out on a node: counted as workers come and go, so that a placement does not look at
 * every worker. Recounted at take-over; the simulator compares it with a recount after each step.
 */
import type { State } from '../../state.ts';
import { noUsage, type NodeRecord, type NodeUsage, type WorkerRecord } from '../../state/fleet.ts';

/** A worker was placed on its node. */
export function reserveUsage(usage: NodeUsage, worker: WorkerRecord): void {
  usage.cpuMillis += worker.cpuMillis;
  usage.memoryBytes += worker.memoryBytes;
  for (const device of worker.devices) usage.devices.set(device, worker.id);
  usage.endpoints.set(worker.endpoint, (usage.endpoints.get(worker.endpoint) ?? 0) + 1);
}

/** A worker is gone from its node. */
export function releaseUsage(usage: NodeUsage, worker: WorkerRecord): void {
  usage.cpuMillis -= worker.cpuMillis;
  usage.memoryBytes -= worker.memoryBytes;
  for (const device of worker.devices) if (usage.devices.get(device) === worker.id) usage.devices.delete(device);
  const left = (usage.endpoints.get(worker.endpoint) ?? 0) - 1;
  if (left > 0) usage.endpoints.set(worker.endpoint, left);
  else usage.endpoints.delete(worker.endpoint);
}

/** Devices that the node's agent holds for workers which are not the state's (any more). */
export function noteOrphans(
  state: State,
  node: NodeRecord,
  reported: Iterable<{ readonly workerId: string; readonly deviceUuids: readonly string[] }>,
): void {
  const orphans = new Set<string>();
  for (const { workerId, deviceUuids } of reported) if (!node.workers.has(workerId)) for (const device of deviceUuids) orphans.add(device);
  if (orphans.size === 0 && node.usage.orphans.size === 0) return;
  // Some of them may be free now.
  if (node.usage.orphans.size > 0) state.capacity++;
  node.usage.orphans = orphans;
}

/** The same, counted anew. */
export function recount(state: State, node: NodeRecord): NodeUsage {
  const usage = noUsage();
  for (const id of node.workers) {
    const worker = state.workers.get(id);
    if (worker !== undefined) reserveUsage(usage, worker);
  }
  return usage;
}

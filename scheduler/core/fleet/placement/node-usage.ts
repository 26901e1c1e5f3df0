/**
 * Allocated resources of a node, counted as workers come and go, so that a placement does not have to visit every
 * worker. Recounted at take-over. The simulator compares it with a recount after each step.
 */
import { invariant, present } from '../../../../lib/invariant.ts';
import type { State } from '../../state.ts';
import { listedWorker } from '../../references.ts';
import { noUsage, type NodeRecord, type NodeUsage, type WorkerRecord } from '../../state/fleet.ts';

/** Counts a worker that was placed on its node. */
export function reserveUsage(usage: NodeUsage, worker: WorkerRecord): void {
  usage.cpuMillis += worker.cpuMillis;
  usage.memoryBytes += worker.memoryBytes;
  for (const device of worker.devices) usage.devices.set(device, worker.id);
  usage.endpoints.set(worker.endpoint, (usage.endpoints.get(worker.endpoint) ?? 0) + 1);
}

/** Discounts a worker that left its node. */
export function releaseUsage(usage: NodeUsage, worker: WorkerRecord): void {
  usage.cpuMillis -= worker.cpuMillis;
  usage.memoryBytes -= worker.memoryBytes;
  const ids = { worker: worker.id, node: worker.node };
  invariant(usage.cpuMillis >= 0 && usage.memoryBytes >= 0, 'what a worker frees was reserved for it', ids);
  // Rows of a database that was restored in part may name a device twice.
  for (const device of worker.devices) if (usage.devices.get(device) === worker.id) usage.devices.delete(device);
  const left = present(usage.endpoints.get(worker.endpoint), 'a worker that leaves its node was counted there', ids) - 1;
  if (left > 0) usage.endpoints.set(worker.endpoint, left);
  else usage.endpoints.delete(worker.endpoint);
}

/** Records the devices that the node's agent holds for workers that are not (or no longer) in the state. */
export function noteOrphans(
  state: State,
  node: NodeRecord,
  reported: Iterable<{ readonly workerId: string; readonly deviceUuids: readonly string[] }>,
): void {
  const orphans = new Set<string>();
  for (const { workerId, deviceUuids } of reported) if (!node.workers.has(workerId)) for (const device of deviceUuids) orphans.add(device);
  if (orphans.size === 0 && node.usage.orphans.size === 0) return;
  // Some of them may be free now.
  if (node.usage.orphans.size > 0) state.capacityVersion++;
  node.usage.orphans = orphans;
}

/** Returns the same usage, recounted. */
export function recount(state: State, node: NodeRecord): NodeUsage {
  const usage = noUsage();
  for (const id of node.workers) {
    reserveUsage(usage, listedWorker(state, id));
  }
  return usage;
}

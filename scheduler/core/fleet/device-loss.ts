/**
 * Retires workers whose devices can no longer be used because the node's inventory reports them as unhealthy or does
 * not list them. Such a worker is drained and its endpoint keeps its number of workers, so that placement starts
 * another one on healthy devices. Every inventory is evaluated anew; a device that is healthy again becomes an ordinary
 * free device.
 */
import type { StepContext } from '../context.ts';
import type { NodeRecord, WorkerRecord } from '../state/fleet.ts';
import { listedWorker } from '../references.ts';
import type { NodeFacts } from '../state/node-facts.ts';
import { retireWorkers, type RetiredWorker } from './retire-workers.ts';

/** Drains the workers of a node that hold a device which the node's latest inventory does not report as healthy. */
export function retireFromLostDevices(ctx: StepContext, node: NodeRecord): void {
  const { facts } = node;
  if (facts === null || facts.devicesUnread) return;
  const retired: RetiredWorker[] = [];
  for (const id of node.workers) {
    const worker = listedWorker(ctx.state, id);
    if (worker.drain) continue;
    const problem = deviceProblemOf(facts, worker);
    if (problem !== null) retired.push({ worker, reason: `${problem} on node ${node.config.name}` });
  }
  retireWorkers(ctx, retired, 'draining worker: its GPU is lost');
}

/** Returns why a worker cannot continue on its devices; null if it can. */
function deviceProblemOf(facts: NodeFacts, worker: WorkerRecord): string | null {
  for (const uuid of worker.devices) {
    const device = facts.devices.find((known) => known.uuid === uuid);
    if (device === undefined) return `${uuid} is missing`;
    if (!device.healthy) return `${uuid} is unhealthy (${device.problem})`;
  }
  return null;
}

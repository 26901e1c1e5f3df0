/**
 * The placements that gateways receive: which node runs which worker of a load-balanced endpoint. Gateways send
 * requests only to these workers, whatever a node announces. Workers that drain, or yield their place, are left out.
 */
import type { NodePlacements } from '../../../../proto/gen/capstan/v1/control.ts';

import type { State } from '../../state.ts';
import type { NodeRecord } from '../../state/fleet.ts';
import { listedWorker } from '../../references.ts';

/** Returns the placed workers of a node. */
export function placementsOf(state: State, node: NodeRecord): NodePlacements {
  const placements: NodePlacements = { nodeId: node.config.id, workers: [] };
  for (const id of node.workers) {
    const worker = listedWorker(state, id);
    if (worker.drain || worker.yieldsTo !== null) continue;
    if (state.endpoints.get(worker.endpoint)?.config.kind !== 'LOAD_BALANCED') continue;
    const slots = Math.max(1, worker.maxConcurrency);
    placements.workers.push({ workerId: id, endpointId: worker.endpoint, releaseId: worker.release, slots });
  }
  return placements;
}

/** Returns the placements of a node if they differ from those sent to gateways last, otherwise null. */
export function changedPlacements(state: State, id: string): NodePlacements | null {
  const node = state.nodes.get(id);
  const placements = node === undefined ? { nodeId: id, workers: [] } : placementsOf(state, node);
  // The ids suffice: a worker never moves, and its endpoint and release never change.
  const named = placements.workers.map(({ workerId }) => workerId).join(' ');
  if (named === (state.toldPlacements.get(id) ?? '')) return null;
  if (named === '') state.toldPlacements.delete(id);
  else state.toldPlacements.set(id, named);
  return placements;
}

/**
 * References between parts of the state that always lead somewhere. A worker enters the state, its node and its endpoint in one
 * function, and leaves them in one (fleet/workers.ts); a node is removed after its workers.
 *
 * Other references may lead nowhere, and their readers say when: a database that was restored in part may hold jobs and workers
 * without the row of their endpoint or release.
 */
import { present } from '../../lib/invariant.ts';
import type { State } from './state.ts';
import type { NodeRecord, WorkerRecord } from './state/fleet.ts';

/** Returns a worker that a node or an endpoint lists. */
export function listedWorker({ workers }: Pick<State, 'workers'>, id: string): WorkerRecord {
  return present(workers.get(id), 'a worker that a node or an endpoint lists is in the state', { worker: id });
}

/** Returns the workers that a node or an endpoint lists. */
export function listedWorkers(state: Pick<State, 'workers'>, ids: Iterable<string>): WorkerRecord[] {
  return Array.from(ids, (id) => listedWorker(state, id));
}

/** Returns the node of a worker in the state. */
export function nodeOfWorker({ nodes }: Pick<State, 'nodes'>, { id, node }: Pick<WorkerRecord, 'id' | 'node'>): NodeRecord {
  return present(nodes.get(node), 'the node of a worker is in the state', { worker: id, node });
}

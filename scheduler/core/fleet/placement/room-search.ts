/**
 * Finds room for a worker that fits no node now: which workers would have to leave a node so that it fits. The fewest
 * that suffice, and of these the first in the order of the candidates.
 */
import { present } from '../../../../lib/invariant.ts';
import { usageWithout } from './claims.ts';
import type { State } from '../../state.ts';
import type { NodeRecord, WorkerRecord } from '../../state/fleet.ts';
import { fitOn, type Fit, type Wanted } from './feasible.ts';

/** Workers that could leave. */
export interface RoomPool {
  /** Those that may be ended, in the order in which they should be. */
  readonly candidates: readonly WorkerRecord[];
  /** Those that drain and hold nothing, by node: their room is free soon. */
  readonly leaving: ReadonlyMap<string, readonly WorkerRecord[]>;
  /** How many workers an endpoint may lose. */
  surplusOf(endpoint: string): number;
}

/** Room on a node. */
export interface Room {
  readonly node: NodeRecord;
  readonly fit: Fit;
  /** Workers to end; empty if those that leave suffice. */
  readonly victims: readonly WorkerRecord[];
  /** Those and the ones that leave already. */
  readonly workers: readonly WorkerRecord[];
}

/** Returns room for a worker; null if no node has any. `avoid` names nodes to skip. */
export function findRoom(state: State, want: Wanted, pool: RoomPool, avoid: ReadonlySet<string>): Room | null {
  const search = new Search(state, want, pool, avoid);
  return search.withoutVictims() ?? search.withOne() ?? search.withSeveral();
}

class Search {
  readonly #state: State;
  readonly #want: Wanted;
  readonly #pool: RoomPool;
  /** Candidates on the nodes that have room without all of theirs. */
  readonly #byNode = new Map<string, WorkerRecord[]>();

  constructor(state: State, want: Wanted, pool: RoomPool, avoid: ReadonlySet<string>) {
    this.#state = state;
    this.#want = want;
    this.#pool = pool;
    for (const worker of pool.candidates) {
      if (worker.endpoint === want.endpoint || avoid.has(worker.node)) continue;
      const others = this.#byNode.get(worker.node);
      if (others === undefined) this.#byNode.set(worker.node, [worker]);
      else others.push(worker);
    }
    for (const [node, workers] of this.#byNode) if (this.#without(node, workers) === null) this.#byNode.delete(node);
    for (const node of pool.leaving.keys()) if (!avoid.has(node) && !this.#byNode.has(node)) this.#byNode.set(node, []);
  }

  withoutVictims(): Room | null {
    for (const node of this.#pool.leaving.keys()) {
      const room = this.#byNode.has(node) ? this.#without(node, []) : null;
      if (room !== null) return room;
    }
    return null;
  }

  withOne(): Room | null {
    for (const worker of this.#pool.candidates) {
      if (this.#byNode.get(worker.node)?.includes(worker) !== true || this.#pool.surplusOf(worker.endpoint) < 1) continue;
      const room = this.#without(worker.node, [worker]);
      if (room !== null) return room;
    }
    return null;
  }

  withSeveral(): Room | null {
    let best: Room | null = null;
    for (const [node, candidates] of this.#byNode) {
      const room = this.#fewest(node, candidates);
      if (room !== null && (best === null || room.victims.length < best.victims.length)) best = room;
    }
    return best;
  }

  /** Takes candidates in their order until the worker fits, then leaves out those that are not needed. */
  #fewest(node: string, candidates: readonly WorkerRecord[]): Room | null {
    const taken: WorkerRecord[] = [];
    let room: Room | null = null;
    for (const worker of candidates) {
      if (taken.filter(({ endpoint }) => endpoint === worker.endpoint).length >= this.#pool.surplusOf(worker.endpoint)) continue;
      taken.push(worker);
      room = this.#without(node, taken);
      if (room !== null) break;
    }
    if (room === null) return null;
    for (const worker of taken.toReversed()) {
      const fewer = this.#without(
        node,
        room.victims.filter((each) => each !== worker),
      );
      if (fewer !== null) room = fewer;
    }
    return room;
  }

  #without(id: string, victims: readonly WorkerRecord[]): Room | null {
    const node = present(this.#state.nodes.get(id), 'room is searched on nodes of workers', { node: id });
    const workers = [...(this.#pool.leaving.get(id) ?? []), ...victims];
    const fit = fitOn(this.#want, node, usageWithout(this.#state, node, workers));
    return 'reason' in fit ? null : { node, fit, victims, workers };
  }
}

/** The searches for room of the endpoints that one step scales: the workers that could leave are gathered once. */
import { findRoom, type Room, type RoomPool } from '../fleet/placement/room-search.ts';
import type { Wanted } from '../fleet/placement/feasible.ts';
import { needsOf } from '../fleet/placement/refusals.ts';
import type { Now } from '../now.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import { aboveMin, isLeaving, isSpare, isTurnOver } from './preemptible.ts';

/** Searches without success in a round: each visits every worker that could leave. */
const MAX_FAILED = 64;
/** Pause after the first search of a round that found nothing, ms; longer after the later ones, so that others are next. */
const RETRY_MS = 500;

/** Idle workers, or also busy ones whose turn is over. */
type Kind = 'idle' | 'after-turn';

interface Need {
  readonly want: Wanted;
  /** Nodes to skip. */
  readonly avoid: ReadonlySet<string>;
}

export class PreemptionRound {
  readonly #state: State;
  readonly #now: Now;
  readonly #leaving = new Map<string, WorkerRecord[]>();
  #idle: WorkerRecord[] | null = null;
  #turnOver: WorkerRecord[] | null = null;
  /** Needs for which there is no room. */
  readonly #failed = new Set<string>();
  #wasSearched = true;

  constructor(state: State, now: Now) {
    this.#state = state;
    this.#now = now;
  }

  /** Pause after a search that found nothing, ms: 0 if the round had no time for it. */
  get pauseMs(): number {
    return this.#failed.size >= MAX_FAILED && !this.#wasSearched ? 0 : RETRY_MS * Math.max(1, this.#failed.size);
  }

  /** Returns room for a worker of the endpoint; null if there is none. */
  find(kind: Kind, endpoint: EndpointRecord, { want, avoid }: Need): Room | null {
    const needs = `${kind} ${avoid.size === 0 ? needsOf(this.#state, endpoint, want.release) : endpoint.config.id}`;
    this.#wasSearched = this.#failed.has(needs) || this.#failed.size < MAX_FAILED;
    if (this.#failed.has(needs) || !this.#wasSearched) return null;
    const candidates = kind === 'idle' ? this.#spare() : [...this.#spare(), ...this.#afterTurn()];
    const room = findRoom(this.#state, want, this.#poolOf(candidates), avoid);
    if (room === null) this.#failed.add(needs);
    return room;
  }

  #poolOf(candidates: readonly WorkerRecord[]): RoomPool {
    const surplus = new Map<string, number>();
    return {
      candidates: [...new Set(candidates)],
      leaving: this.#leaving,
      surplusOf: (endpoint) => {
        const known = surplus.get(endpoint) ?? aboveMin(this.#state, endpoint, ({ yieldsTo }) => yieldsTo === null);
        surplus.set(endpoint, known);
        return known;
      },
    };
  }

  /** Those still starting first, then the least recently used. */
  #spare(): readonly WorkerRecord[] {
    this.#idle ??= this.#gather();
    // Earlier endpoints of the round may have taken some.
    return this.#idle.filter((worker) => isSpare(this.#state, worker, this.#now));
  }

  /** Those that have run the longest first. */
  #afterTurn(): readonly WorkerRecord[] {
    this.#turnOver ??= [...this.#state.workers.values()]
      .filter((worker) => isTurnOver(this.#state, worker, this.#now))
      .sort((a, b) => a.readySince - b.readySince);
    return this.#turnOver.filter((worker) => isTurnOver(this.#state, worker, this.#now));
  }

  #gather(): WorkerRecord[] {
    const idle: WorkerRecord[] = [];
    for (const worker of this.#state.workers.values()) {
      if (isSpare(this.#state, worker, this.#now)) idle.push(worker);
      else if (isLeaving(this.#state, worker, this.#now)) {
        const others = this.#leaving.get(worker.node);
        if (others === undefined) this.#leaving.set(worker.node, [worker]);
        else others.push(worker);
      }
    }
    return idle.sort((a, b) => (a.ready === b.ready ? a.lastUsed - b.lastUsed : a.ready ? 1 : -1));
  }
}

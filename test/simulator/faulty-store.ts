/**
 * The scheduler's store in the simulated world: the real SQLite engine behind the commit loop's callbacks, with the order
 * that the store thread keeps. Batches and reads take simulated time, one after the other; a batch may find the
 * disk full, another scheduler may take the cell, and the process may crash before a batch is applied, or
 * after it was and before anyone learnt the outcome.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { Acquisition, Completion, LoopStore } from '../../scheduler/engine/loop-store.ts';
import type { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import { StaleTermError, type Fence, type Op, type Outcome, type Reads } from '../../scheduler/core/ports/store.ts';
import type { World } from './world.ts';

/** Chances at each commit. */
export interface StoreFaults {
  readonly crash: number;
  readonly diskFull: number;
  /** Another scheduler takes the cell. */
  readonly rival: number;
}

export const NO_FAULTS: StoreFaults = { crash: 0, diskFull: 0, rival: 0 };

export interface FaultyStoreOptions {
  readonly world: World;
  readonly sqlite: SqliteEngine;
  /** Calls later, unless the process has ended by then. */
  readonly later: (ms: number, run: () => void) => void;
  readonly faults: () => StoreFaults;
  readonly crash: () => void;
  /** Every operation and its outcome, as the store took them. */
  readonly observe: (op: Op, outcome: Outcome) => void;
  readonly isForgotten: (op: Op) => boolean;
  /** Every outcome is said to be good. */
  readonly hidesRefusals: boolean;
  /** A batch came while another had no outcome. */
  readonly besideAnother: () => void;
}

const DISK_FULL = new CapstanError('DISK_FULL', 'the simulated disk is full');
/** Chance that a full disk still is when the cell is acquired again. */
const STILL_FULL = 0.3;

export class FaultyStore implements LoopStore {
  readonly fenceMs = null;
  readonly #options: FaultyStoreOptions;
  /** When the thread is done with all that it was sent. */
  #freeAt = 0;
  #isFull = false;
  /** Batches without an outcome. */
  #open = 0;

  constructor(options: FaultyStoreOptions) {
    this.#options = options;
  }

  commit(fence: Fence, ops: readonly Op[], { done, failed }: Completion<readonly Outcome[]>): void {
    const { world, faults, crash, later, besideAnother } = this.#options;
    if (this.#open++ > 0) besideAnother();
    this.#inTurn(0.1 + world.random.next() * 3, () => {
      if (world.random.chance(faults().crash / 2)) {
        crash();
        return;
      }
      const outcomes = this.#apply(fence, ops);
      if (!(outcomes instanceof Error) && world.random.chance(faults().crash / 2)) {
        crash();
        return;
      }
      later(0.05, () => {
        this.#open--;
        if (outcomes instanceof Error) failed(outcomes);
        else done(outcomes);
      });
    });
  }

  /** Sees what was committed before; its result comes later. */
  read<K extends keyof Reads>(query: K, args: Parameters<Reads[K]>, { done }: Completion<ReturnType<Reads[K]>>): void {
    const { world, sqlite, later } = this.#options;
    this.#inTurn(0, () => {
      const result = sqlite.read(query, ...args);
      later(world.random.chance(0.5) ? 0 : world.random.next() * 4, () => done(result));
    });
  }

  search<K extends keyof Reads>(query: K, args: Parameters<Reads[K]>, completion: Completion<ReturnType<Reads[K]>>): void {
    this.read(query, args, completion);
  }

  acquire({ cell, owner, forMs }: Acquisition, { done, failed }: Completion<{ readonly term: bigint }>): void {
    const { world, sqlite } = this.#options;
    this.#inTurn(0.1, () => {
      this.#isFull = this.#isFull && world.random.chance(STILL_FULL);
      if (this.#isFull) failed(DISK_FULL);
      else done(sqlite.acquire(cell, owner, forMs));
    });
  }

  #apply(fence: Fence, ops: readonly Op[]): Outcome[] | Error {
    const { world, sqlite, faults, observe, isForgotten, hidesRefusals } = this.#options;
    this.#isFull ||= world.random.chance(faults().diskFull);
    if (this.#isFull) return DISK_FULL;
    if (world.random.chance(faults().rival)) sqlite.acquire(fence.cell, 'rival', 1);
    const written = ops.filter((op) => !isForgotten(op));
    let outcomes: Outcome[];
    try {
      outcomes = sqlite.commit(fence, written);
    } catch (error) {
      if (error instanceof StaleTermError) return error;
      throw error;
    }
    for (const [i, op] of written.entries()) observe(op, outcomes[i] as Outcome);
    const applied = outcomes.values();
    return ops.map((op) => (isForgotten(op) || hidesRefusals ? { kind: 'ok' } : (applied.next().value as Outcome)));
  }

  #inTurn(ms: number, run: () => void): void {
    const { world, later } = this.#options;
    this.#freeAt = Math.max(this.#freeAt, world.now) + ms;
    later(this.#freeAt - world.now, run);
  }
}

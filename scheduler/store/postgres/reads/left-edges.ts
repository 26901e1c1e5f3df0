/**
 * Where the live rows of an index begin. Rows that went leave entries in it until a vacuum, and while a reader holds an old
 * snapshot open no vacuum removes them: a look from the left end would go through all of them, each time.
 */
import { assertNever } from '../../../../lib/errors.ts';
import type { Op } from '../../store.ts';

/** A bound below every live key: writes lower it, looks raise it. */
export class LeftEdge {
  readonly #least: number;
  #at: number;
  /** The lowest key that was written since a look began: the look may not have seen it. */
  readonly #looks = new Set<{ lowest: number }>();

  constructor(least: number) {
    this.#least = least;
    this.#at = least;
  }

  get at(): number {
    return this.#at;
  }

  get isLeast(): boolean {
    return this.#at === this.#least;
  }

  /** A row with this key is about to be written. */
  lower(key: number): void {
    this.#at = Math.min(this.#at, key);
    for (const look of this.#looks) look.lowest = Math.min(look.lowest, key);
  }

  /** Anything may have been written. */
  reset(): void {
    this.lower(this.#least);
  }

  /** `read` looks from a key on, and says which live key it found first: MAX_SAFE_INTEGER if there is none. */
  async look<T>(read: (from: number) => Promise<readonly [result: T, first: number]>): Promise<T> {
    const look = { lowest: Number.MAX_SAFE_INTEGER };
    this.#looks.add(look);
    try {
      const [result, first] = await read(this.#at);
      this.#at = Math.max(this.#at, Math.min(first, look.lowest));
      return result;
    } finally {
      this.#looks.delete(look);
    }
  }
}

/** Edges of queues that are remembered; with more of them all are forgotten. */
const MOST_QUEUES = 10_000;

/** The left edges of the indexes that are read from the left. */
export class LeftEdges {
  /** By `delete_at`. */
  readonly due = new LeftEdge(0);
  /** By `seq`. */
  readonly leased = new LeftEdge(1);
  /** Of hosts with deliveries that wait, by the time of the first. */
  readonly hooks = new LeftEdge(0);
  /** By `queue_position`, for each endpoint and priority that was looked at. */
  readonly #queues = new Map<string, LeftEdge>();

  queue(endpoint: string, priority: 0 | 1): LeftEdge {
    const key = `${priority} ${endpoint}`;
    let edge = this.#queues.get(key);
    if (edge === undefined) {
      if (this.#queues.size >= MOST_QUEUES) this.#queues.clear();
      edge = new LeftEdge(1);
      this.#queues.set(key, edge);
    }
    return edge;
  }

  /** Another owner may have written. */
  reset(): void {
    this.due.reset();
    this.leased.reset();
    this.hooks.reset();
    this.#lowerQueues(0);
  }

  /** These operations are about to be written, or refused. */
  note(ops: readonly Op[]): void {
    for (const op of ops) {
      switch (op.kind) {
        case 'submit': {
          const { state, seq, endpoint, priority, queuePosition, deleteAt } = op.job;
          this.due.lower(Math.trunc(deleteAt));
          if (state === 'LEASED') this.leased.lower(seq);
          else this.#queues.get(`${priority} ${endpoint}`)?.lower(queuePosition);
          break;
        }
        case 'lease':
          this.leased.lower(op.seq);
          break;
        case 'finish':
          this.due.lower(Math.trunc(op.deleteAt));
          if (op.hook !== null) this.hooks.lower(Math.trunc(op.hook.dueAt));
          break;
        case 'hook':
          if (op.to !== null) this.hooks.lower(Math.trunc(op.to.dueAt));
          break;
        case 'retry':
          this.due.lower(Math.trunc(op.deleteAt));
          this.#lowerQueues(op.queuePosition);
          break;
        case 'requeue':
          // At its old position, which is not at hand here.
          this.#lowerQueues(0);
          break;
        case 'started':
        case 'delete':
        case 'drain':
        case 'reencrypt':
        case 'put':
          break;
        default:
          assertNever(op);
      }
    }
  }

  #lowerQueues(position: number): void {
    for (const edge of this.#queues.values()) edge.lower(position);
  }
}

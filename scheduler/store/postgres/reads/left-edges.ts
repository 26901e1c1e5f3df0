/** The left edges of a cell's indexes, as its owner knows them: see {@link LeftEdge}. */
import { assertNever } from '../../../../lib/errors.ts';
import type { Op } from '../../../core/ports/store.ts';
import { DeliveryHosts } from './delivery-hosts.ts';
import { LeftEdge } from './left-edge.ts';

/** Edges of queues that are remembered; with more of them all are forgotten. */
const MAX_QUEUES = 10_000;

/** The left edges of the indexes that are read from the left. */
export class LeftEdges {
  /** By `delete_at`. */
  readonly due = new LeftEdge(0);
  /** By `seq`. */
  readonly leased = new LeftEdge(1);
  readonly deliveries: DeliveryHosts;
  /** By `queue_position`, for each endpoint and priority that was looked at. */
  readonly #queues = new Map<string, LeftEdge>();

  constructor({ deliveryHosts = new DeliveryHosts() }: { readonly deliveryHosts?: DeliveryHosts } = {}) {
    this.deliveries = deliveryHosts;
  }

  queue(endpoint: string, priority: 0 | 1): LeftEdge {
    const key = `${priority} ${endpoint}`;
    let edge = this.#queues.get(key);
    if (edge === undefined) {
      if (this.#queues.size >= MAX_QUEUES) this.#queues.clear();
      edge = new LeftEdge(1);
      this.#queues.set(key, edge);
    }
    return edge;
  }

  /** Another owner may have written. */
  reset(): void {
    this.due.reset();
    this.leased.reset();
    this.deliveries.reset();
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
          if (op.delivery !== null) this.deliveries.lower(Math.trunc(op.delivery.dueAt), op.delivery.host);
          break;
        case 'delivery':
          if (op.to?.state === 'PENDING') this.deliveries.lower(Math.trunc(op.to.dueAt));
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

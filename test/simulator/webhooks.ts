/**
 * Receivers of webhooks in the simulated world, and what holds of deliveries, checked from what the store took and from what the receivers saw.
 */
import { DELIVERY_KEEP_MS, DELIVERY_SPACING_MS, DELIVERY_TRIES } from '../../scheduler/core/webhooks/webhooks.ts';
import type { CoreEvent } from '../../scheduler/core/events.ts';
import type { DeliveryRow, NewDelivery, Op } from '../../scheduler/core/ports/store.ts';
import type { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import type { World } from './world.ts';

type DeliveryOp = Extract<Op, { kind: 'delivery' }>;
type Finish = Extract<Op, { kind: 'finish' }>;

/** Where webhooks may go: one takes all, one refuses some, one never answers in time, one is slow. */
export const receivers: readonly string[] = ['https://good/', 'https://moody/', 'https://dead/', 'https://slow/'];

/** Longest time from a decision to its commit: a shared database may take so long, before its owner gives the batch up. */
const UNDER_WAY_MS = 5_000;

interface Delivery {
  readonly row: NewDelivery;
  /** Failed tries recorded since the end, or since it was last sent anew. */
  tries: number;
  state: 'PENDING' | 'DELIVERED' | 'FAILED';
  dueAt: number;
  /** The receiver took it. */
  taken: boolean;
}

/** A delivery that a scheduler sends. */
export interface Posting {
  readonly delivery: DeliveryRow;
  readonly sender: string;
  readonly isOwner: boolean;
}

export class Receivers {
  readonly #world: World;
  readonly #deliveries = new Map<string, Delivery>();
  /** What each scheduler is sending in its present life. */
  readonly #senders = new Map<string, Map<string, { readonly host: string }>>();
  readonly #limits: { readonly open: number; readonly perHost: number };

  constructor(world: World, limits: { readonly open: number; readonly perHost: number }) {
    this.#world = world;
    this.#limits = limits;
  }

  /** A job ended: with a webhook exactly when it was asked for, under an id that was never used. */
  ended(op: Finish, webhook: string | null, job: string): void {
    const { delivery } = op;
    if ((delivery?.url ?? null) !== webhook) fail(`job ${job} wants ${webhook ?? 'no webhook'} and ended with ${delivery?.url ?? 'none'}`);
    if (delivery === null) return;
    const { status, id } = JSON.parse(delivery.envelope) as { status: string; id: string };
    if (status !== op.state || id !== job) fail(`webhook ${delivery.id} says ${id} ${status}; ${job} ended ${op.state}`);
    if (this.#deliveries.has(delivery.id)) fail(`webhook ${delivery.id} was made twice`);
    this.#deliveries.set(delivery.id, { row: delivery, tries: 0, state: 'PENDING', dueAt: delivery.dueAt, taken: false });
  }

  /** The job's row is gone, and its id may come again with another life. */
  forgotten(job: string): void {
    for (const [id, delivery] of this.#deliveries)
      if (delivery.row.id.startsWith(`${job}_`) && delivery.state !== 'PENDING') this.#deliveries.delete(id);
  }

  /** A recorded try, or a delivery sent anew. */
  recorded(op: DeliveryOp, wall: number): void {
    const delivery = this.#deliveries.get(op.id);
    if (delivery === undefined) throw new Error(`webhook ${op.id} was changed, but is not there`);
    if (op.to === null) {
      if (!delivery.taken) fail(`webhook ${op.id} was struck off, but nobody took it`);
      delivery.state = 'DELIVERED';
      return;
    }
    const { tries, state, dueAt } = op.to;
    if (op.after !== null) {
      if (delivery.state !== 'PENDING') fail(`webhook ${op.id} was tried while ${delivery.state}`);
      if (tries !== delivery.tries + 1) fail(`webhook ${op.id}: tries went from ${delivery.tries} to ${tries}`);
      if ((tries === DELIVERY_TRIES) !== (state === 'FAILED')) fail(`webhook ${op.id} is ${state} after ${tries} tries`);
      // The commit comes after the decision: at most as long as a batch may be under way.
      const gap = dueAt - wall;
      const wanted = state === 'FAILED' ? DELIVERY_KEEP_MS : DELIVERY_SPACING_MS;
      if (gap > wanted || gap < wanted - UNDER_WAY_MS) fail(`webhook ${op.id} is put off by ${gap} ms`);
    } else if (tries !== 0 || state !== 'PENDING') fail(`webhook ${op.id} was sent anew as ${state} with ${tries} tries`);
    Object.assign(delivery, { tries, state, dueAt });
  }

  /** The scheduler is gone, and with it all connections; the receivers saw what they saw. */
  schedulerDown(sender: string): void {
    this.#senders.get(sender)?.clear();
  }

  #openOf(sender: string): Map<string, { readonly host: string }> {
    const open = this.#senders.get(sender) ?? new Map<string, { readonly host: string }>();
    this.#senders.set(sender, open);
    return open;
  }

  /**
   * A try begins; `tell` is called when it ends. A scheduler that is not the owner any more, and does not know it yet, may
   * send once more what the next one has sent.
   */
  post({ delivery: row, sender, isOwner }: Posting, tell: (event: Extract<CoreEvent, { kind: 'delivery-tried' }>) => void): void {
    const { id, host } = row;
    const open = this.#openOf(sender);
    const delivery = this.#deliveries.get(id);
    if (delivery === undefined) throw new Error(`webhook ${id} is sent, but no job ended with it`);
    if (open.has(id)) fail(`webhook ${id} is sent twice at once`);
    if (isOwner && delivery.state !== 'PENDING') fail(`webhook ${id} is sent while ${delivery.state}`);
    if (isOwner && this.#world.clock().wall < delivery.dueAt)
      fail(`webhook ${id} is sent ${delivery.dueAt - this.#world.clock().wall} ms early`);
    if (!('inline' in row.input) || Buffer.from(row.input.inline).toString() !== '{}') fail(`webhook ${id} lost its input`);
    const completed = (JSON.parse(row.envelope) as { status: string }).status === 'COMPLETED';
    if (completed !== (row.output !== null)) fail(`webhook ${id} ${completed ? 'lost its' : 'has an'} output`);
    const sending = { host };
    open.set(id, sending);
    if (open.size > this.#limits.open) fail(`${open.size} webhooks are sent at once`);
    const atHost = [...open.values()].filter((other) => other.host === host).length;
    if (atHost > this.#limits.perHost) fail(`${atHost} webhooks are sent to ${host} at once`);
    const { random } = this.#world;
    const takes = host !== 'dead' && (host !== 'moody' || random.chance(0.5));
    const duration = host === 'dead' || host === 'slow' ? random.int(300, 1_000) : random.int(1, 30);
    this.#world.after(duration, () => {
      if (takes) delivery.taken = true;
      if (open.get(id) !== sending) return;
      open.delete(id);
      tell(
        takes ? { kind: 'delivery-tried', id, result: 'delivered' } : { kind: 'delivery-tried', id, result: 'failed', error: 'not taken' },
      );
    });
    this.#world.trace(`post ${id} to ${host}`);
  }

  /** One that was not delivered yet, or null. */
  anyUndelivered(): string | null {
    const undelivered = [...this.#deliveries.values()].filter(({ state }) => state !== 'DELIVERED');
    return undelivered.length === 0 ? null : this.#world.random.pick(undelivered).row.id;
  }

  get isAnyPending(): boolean {
    return [...this.#deliveries.values()].some(({ state }) => state === 'PENDING');
  }

  /** After healing nothing is pending: each was taken, or given up after all its tries; the store says the same. */
  judge(store: SqliteEngine): void {
    const stored = new Map(store.read('deliveryPage', 'acc', '', 100_000).map((delivery) => [delivery.id, delivery]));
    for (const [id, delivery] of this.#deliveries) {
      if (delivery.state === 'PENDING') fail(`webhook ${id} to ${delivery.row.host} is still pending after the world healed`);
      const row = stored.get(id);
      if ((delivery.state === 'FAILED') !== (row !== undefined))
        fail(`webhook ${id} is ${delivery.state}, the store has ${row?.state ?? 'nothing'}`);
      if (delivery.row.host === 'good' && delivery.state !== 'DELIVERED') fail(`webhook ${id} did not reach a receiver that takes all`);
      stored.delete(id);
    }
    const { deliveries, nextAt } = store.read('deliveries', {
      wall: Number.MAX_SAFE_INTEGER,
      skipHosts: [],
      skipIds: [],
      perHost: 1_000,
      limit: 1_000,
    });
    if (deliveries.length > 0 || nextAt !== null) fail(`${deliveries.length} webhooks are left undelivered`);
  }
}

function fail(what: string): never {
  throw new Error(`invariant broken: ${what}`);
}

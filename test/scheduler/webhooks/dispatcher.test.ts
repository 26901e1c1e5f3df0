/** Whose webhooks are sent when there is not room for all: however many receivers are dead, the others' leave at once. */
import test from 'ava';

import { StepContext } from '../../../scheduler/core/context.ts';
import { StepResult } from '../../../scheduler/core/effects.ts';
import {
  deliveriesRead,
  deliveryTried,
  checkDeliveries,
  nextDeliveryCheck,
  noteDelivery,
} from '../../../scheduler/core/webhooks/webhooks.ts';
import { newState, type State } from '../../../scheduler/core/state.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import type { DeliveryHead } from '../../../scheduler/core/ports/store.ts';

const now = { wall: 1_000_000, mono: 0 };

/** Deliveries in memory behind the dispatcher. */
class MemoryDispatcher {
  readonly state: State;
  readonly rows = new Map<string, DeliveryHead>();
  readonly sent: string[] = [];
  looks = 0;

  constructor(settings: Partial<typeof defaultSettings>) {
    this.state = newState({ ...defaultSettings, ...settings }, [1, 2, 3, 4]);
  }

  add(id: string, host: string): void {
    const row = {
      id,
      account: 'a',
      endpoint: 'e',
      url: `http://${host}/`,
      host,
      state: 'PENDING',
      dueAt: now.wall,
      tries: 0,
      error: null,
    } as const;
    this.rows.set(id, row);
    this.do((ctx) => noteDelivery(ctx, now.wall));
  }

  end(id: string, result: 'delivered' | 'failed'): void {
    this.do((ctx) =>
      deliveryTried(ctx, result === 'failed' ? { kind: 'delivery-tried', id, result, error: 'e' } : { kind: 'delivery-tried', id, result }),
    );
  }

  do(work: (ctx: StepContext) => void): void {
    const out = new StepResult();
    work(new StepContext(this.state, now, out));
    for (const { op } of out.writes) {
      if (op.kind !== 'delivery') continue;
      const row = this.rows.get(op.id) as DeliveryHead;
      if (op.to === null) this.rows.delete(op.id);
      else this.rows.set(op.id, { ...row, ...op.to });
    }
    for (const { effect } of out.effects) {
      if (effect.kind === 'deliver') this.sent.push(effect.id);
      if (effect.kind !== 'read-deliveries') continue;
      this.looks++;
      const { skipHosts, skipIds, perHost, limit } = effect;
      const deliveries: DeliveryHead[] = [];
      const perHostCount = new Map<string, number>();
      for (const row of this.rows.values()) {
        const count = perHostCount.get(row.host) ?? 0;
        if (row.state !== 'PENDING' || row.dueAt > now.wall || skipHosts.includes(row.host) || skipIds.includes(row.id)) continue;
        if (deliveries.length >= limit || count >= perHost) continue;
        perHostCount.set(row.host, count + 1);
        deliveries.push(row);
      }
      const later = [...this.rows.values()].map(({ dueAt }) => dueAt).filter((at) => at > now.wall);
      this.do((next) =>
        deliveriesRead(next, { kind: 'deliveries-read', deliveries, nextAt: later.length === 0 ? null : Math.min(...later), limit }),
      );
    }
  }
}

test('one host has its share of the room, and its next delivery takes the place of one that ended', (t) => {
  const dispatcher = new MemoryDispatcher({ deliveriesOpen: 10, deliveriesPerHost: 3 });
  for (let i = 0; i < 6; i++) dispatcher.add(`slow-${i}`, 'slow');
  t.deepEqual(dispatcher.sent, ['slow-0', 'slow-1', 'slow-2']);
  dispatcher.add('other', 'other');
  t.is(dispatcher.sent.at(-1), 'other');
  dispatcher.end('slow-1', 'delivered');
  t.is(dispatcher.sent.at(-1), 'slow-3');
  for (const id of ['slow-0', 'slow-2', 'slow-3', 'other']) dispatcher.end(id, 'delivered');
  for (const id of ['slow-4', 'slow-5']) dispatcher.end(id, 'delivered');
  t.is(dispatcher.rows.size, 0);
  t.is(dispatcher.state.deliveries.open.size, 0);
  t.is(dispatcher.state.deliveries.perHost.size, 0);
});

test('hosts that failed share half of the room, however many they are', (t) => {
  const dispatcher = new MemoryDispatcher({ deliveriesOpen: 8, deliveriesPerHost: 2 });
  const dead = Array.from({ length: 20 }, (_, i) => `dead-${i}`);
  for (const host of dead) dispatcher.add(`${host} first`, host);
  // Each fails once and is known from then on.
  for (const host of dead) dispatcher.end(`${host} first`, 'failed');
  t.is(dispatcher.state.deliveries.open.size, 0);
  dispatcher.sent.length = 0;
  for (const host of dead) for (let i = 0; i < 5; i++) dispatcher.add(`${host} ${i}`, host);
  t.is(dispatcher.state.deliveries.open.size, 4);
  for (let i = 0; i < 4; i++) dispatcher.add(`good-${i}`, `good-${i}`);
  t.is(dispatcher.state.deliveries.open.size, 8, 'the other half is there for the others');
  t.deepEqual(dispatcher.sent.slice(-4), ['good-0', 'good-1', 'good-2', 'good-3']);
});

test('a host that took one is no longer counted among those that failed', (t) => {
  const dispatcher = new MemoryDispatcher({ deliveriesOpen: 4, deliveriesPerHost: 4 });
  dispatcher.add('a', 'moody');
  dispatcher.end('a', 'failed');
  for (const id of ['b', 'c', 'd', 'e']) dispatcher.add(id, 'moody');
  t.is(dispatcher.state.deliveries.open.size, 2);
  dispatcher.end('b', 'delivered');
  t.is(dispatcher.state.deliveries.open.size, 3);
});

test('nobody looks again and again for what has no room, and somebody does when there is some', (t) => {
  const dispatcher = new MemoryDispatcher({ deliveriesOpen: 100, deliveriesPerHost: 1 });
  for (let i = 0; i < 50; i++) dispatcher.add(`${i}`, 'slow');
  const { looks } = dispatcher;
  t.is(dispatcher.state.deliveries.open.size, 1);
  t.true(looks <= 51);
  dispatcher.do((ctx) => checkDeliveries(ctx));
  t.is(dispatcher.looks, looks);
  t.is(nextDeliveryCheck(dispatcher.state), Number.POSITIVE_INFINITY);
  for (let i = 0; i < 50; i++) dispatcher.end(dispatcher.sent.at(-1) as string, 'delivered');
  t.is(dispatcher.rows.size, 0);
});

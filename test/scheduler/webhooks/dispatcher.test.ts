/** Whose webhooks are sent when there is not room for all: however many receivers are dead, the others' leave at once. */
import test from 'ava';

import { StepContext } from '../../../scheduler/core/context.ts';
import { StepResult } from '../../../scheduler/core/effects.ts';
import { hooksRead, hookTried, checkHooks, nextHookCheck, noteHook } from '../../../scheduler/core/webhooks/webhooks.ts';
import { newState, type State } from '../../../scheduler/core/state.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import type { HookHead } from '../../../scheduler/store/store.ts';

const now = { wall: 1_000_000, mono: 0 };

/** An outbox in memory behind the dispatcher. */
class Outbox {
  readonly state: State;
  readonly rows = new Map<string, HookHead>();
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
    this.do((ctx) => noteHook(ctx, now.wall));
  }

  end(id: string, result: 'delivered' | 'failed'): void {
    this.do((ctx) =>
      hookTried(ctx, result === 'failed' ? { kind: 'hook-tried', id, result, error: 'e' } : { kind: 'hook-tried', id, result }),
    );
  }

  do(work: (ctx: StepContext) => void): void {
    const out = new StepResult();
    work(new StepContext(this.state, now, out));
    for (const { op } of out.writes) {
      if (op.kind !== 'hook') continue;
      const row = this.rows.get(op.id) as HookHead;
      if (op.to === null) this.rows.delete(op.id);
      else this.rows.set(op.id, { ...row, ...op.to });
    }
    for (const { effect } of out.effects) {
      if (effect.kind === 'deliver') this.sent.push(effect.id);
      if (effect.kind !== 'read-hooks') continue;
      this.looks++;
      const { skipHosts, skipIds, perHost, limit } = effect;
      const hooks: HookHead[] = [];
      const perHostCount = new Map<string, number>();
      for (const row of this.rows.values()) {
        const count = perHostCount.get(row.host) ?? 0;
        if (row.state !== 'PENDING' || row.dueAt > now.wall || skipHosts.includes(row.host) || skipIds.includes(row.id)) continue;
        if (hooks.length >= limit || count >= perHost) continue;
        perHostCount.set(row.host, count + 1);
        hooks.push(row);
      }
      const later = [...this.rows.values()].map(({ dueAt }) => dueAt).filter((at) => at > now.wall);
      this.do((next) => hooksRead(next, { kind: 'hooks-read', hooks, nextAt: later.length === 0 ? null : Math.min(...later), limit }));
    }
  }
}

test('one host has its share of the room, and its next delivery takes the place of one that ended', (t) => {
  const outbox = new Outbox({ hooksOpen: 10, hooksPerHost: 3 });
  for (let i = 0; i < 6; i++) outbox.add(`slow-${i}`, 'slow');
  t.deepEqual(outbox.sent, ['slow-0', 'slow-1', 'slow-2']);
  outbox.add('other', 'other');
  t.is(outbox.sent.at(-1), 'other');
  outbox.end('slow-1', 'delivered');
  t.is(outbox.sent.at(-1), 'slow-3');
  for (const id of ['slow-0', 'slow-2', 'slow-3', 'other']) outbox.end(id, 'delivered');
  for (const id of ['slow-4', 'slow-5']) outbox.end(id, 'delivered');
  t.is(outbox.rows.size, 0);
  t.is(outbox.state.hooks.open.size, 0);
  t.is(outbox.state.hooks.perHost.size, 0);
});

test('hosts that failed share half of the room, however many they are', (t) => {
  const outbox = new Outbox({ hooksOpen: 8, hooksPerHost: 2 });
  const dead = Array.from({ length: 20 }, (_, i) => `dead-${i}`);
  for (const host of dead) outbox.add(`${host} first`, host);
  // Each fails once and is known from then on.
  for (const host of dead) outbox.end(`${host} first`, 'failed');
  t.is(outbox.state.hooks.open.size, 0);
  outbox.sent.length = 0;
  for (const host of dead) for (let i = 0; i < 5; i++) outbox.add(`${host} ${i}`, host);
  t.is(outbox.state.hooks.open.size, 4);
  for (let i = 0; i < 4; i++) outbox.add(`good-${i}`, `good-${i}`);
  t.is(outbox.state.hooks.open.size, 8, 'the other half is there for the others');
  t.deepEqual(outbox.sent.slice(-4), ['good-0', 'good-1', 'good-2', 'good-3']);
});

test('a host that took one is no longer counted among those that failed', (t) => {
  const outbox = new Outbox({ hooksOpen: 4, hooksPerHost: 4 });
  outbox.add('a', 'moody');
  outbox.end('a', 'failed');
  for (const id of ['b', 'c', 'd', 'e']) outbox.add(id, 'moody');
  t.is(outbox.state.hooks.open.size, 2);
  outbox.end('b', 'delivered');
  t.is(outbox.state.hooks.open.size, 3);
});

test('nobody looks again and again for what has no room, and somebody does when there is some', (t) => {
  const outbox = new Outbox({ hooksOpen: 100, hooksPerHost: 1 });
  for (let i = 0; i < 50; i++) outbox.add(`${i}`, 'slow');
  const { looks } = outbox;
  t.is(outbox.state.hooks.open.size, 1);
  t.true(looks <= 51);
  outbox.do((ctx) => checkHooks(ctx));
  t.is(outbox.looks, looks);
  t.is(nextHookCheck(outbox.state), Number.POSITIVE_INFINITY);
  for (let i = 0; i < 50; i++) outbox.end(outbox.sent.at(-1) as string, 'delivered');
  t.is(outbox.rows.size, 0);
});

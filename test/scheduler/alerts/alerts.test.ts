/** What channels are told over time, also when nothing is delivered (scheduler/alerts/alerts.ts). */
import { setImmediate } from 'node:timers/promises';

import test from 'ava';

import { Alerts } from '../../../scheduler/alerts/alerts.ts';
import type { AlertDelivery } from '../../../scheduler/alerts/delivery.ts';
import type { AlertMessage } from '../../../scheduler/alerts/message.ts';
import type { State } from '../../../scheduler/core/state.ts';
import { alertChannelKey, type AlertChannelRow } from '../../../scheduler/core/state/control-rows.ts';
import { ofSubject, type Incident } from '../../../scheduler/incidents/incident.ts';
import { failed, type PostResult } from '../../../scheduler/webhooks/post.ts';

const PAUSED: Incident = ofSubject('echo', ' is paused', { kind: 'PAUSED', severity: 'WARNING', sinceMs: undefined });
/** Beyond the time after a take-over, and the pause after a message that was not delivered, ms. */
const LONG_MS = 600_000;

function row(account: string): AlertChannelRow {
  return { account, id: 'alert-1', kind: 'WEBHOOK', sealed: account, shown: 'x', isOperator: false, createdAt: 0, told: [], failure: '' };
}

/** Alerts over channels in memory, whose deliveries end as `result` says. */
class World {
  readonly sent: string[] = [];
  readonly logged: unknown[] = [];
  readonly channels = new Map<string, AlertChannelRow>();
  readonly alerts: Alerts;
  found: readonly Incident[] = [];
  result: PostResult = { result: 'delivered' };
  now = 0;

  constructor(...accounts: string[]) {
    for (const account of accounts) this.channels.set(alertChannelKey(row(account)), row(account));
    const state = { alertChannels: this.channels, settings: { nodeGraceMs: 0 } } as unknown as State;
    this.alerts = new Alerts({
      state: () => state,
      command: (command) => {
        if (command.kind !== 'note-alerts') throw new Error(`unexpected ${command.kind}`);
        const key = alertChannelKey(command);
        this.channels.set(key, { ...(this.channels.get(key) ?? row(command.account)), ...command.change });
        return Promise.resolve();
      },
      now: () => ({ mono: this.now, wall: this.now }),
      incidents: {
        of: ({ account }) =>
          account === 'unread' ? Promise.reject(new Error('the store does not answer')) : Promise.resolve([...this.found]),
      },
      cipher: {
        decrypt: (sealed) => {
          if (Buffer.from(sealed).toString('base64').startsWith('lost')) throw new Error('no key decrypts it');
          return 'https://chat.example/hook';
        },
      },
      delivery: {
        hasRoom: () => true,
        send: ({ account }: { account: string }, { lines }: AlertMessage) => {
          this.sent.push(`${account}: ${lines[0]?.slice(0, 2) ?? ''}`);
          return Promise.resolve(this.result);
        },
        close: () => undefined,
      } as unknown as AlertDelivery,
      delayMs: 0,
      site: () => '',
      log: { warn: (fields) => this.logged.push(fields) },
    });
  }

  /** Looks, and lets what it sends end. */
  async look(after = 0): Promise<readonly string[]> {
    this.now += after;
    await this.alerts.look();
    await setImmediate();
    return this.sent.splice(0);
  }
}

test('the end of an incident whose message was not delivered is told later, once', async (t) => {
  const world = new World('acc');
  world.found = [PAUSED];
  t.deepEqual(await world.look(), ['acc: 🟡']);
  world.found = [];
  world.result = failed('the receiver responded with status 500, not with success');
  t.deepEqual(await world.look(LONG_MS), ['acc: 🟢']);
  t.regex(world.channels.get('acc/alert-1')?.failure ?? '', /status 500/);
  world.result = { result: 'delivered' };
  t.deepEqual(await world.look(1_000), [], 'not at once');
  t.deepEqual(await world.look(LONG_MS), ['acc: 🟢']);
  t.like(world.channels.get('acc/alert-1'), { failure: '', told: [] });
  t.deepEqual(await world.look(LONG_MS), []);
});

test('an incident whose message was not delivered is told later if it is still there, and its end is not told without it', async (t) => {
  const world = new World('acc');
  world.found = [PAUSED];
  world.result = failed('no connection');
  t.deepEqual(await world.look(), ['acc: 🟡']);
  t.deepEqual(await world.look(LONG_MS), ['acc: 🟡']);
  world.found = [];
  t.deepEqual(await world.look(LONG_MS), []);
});

test('what fails for one account or channel keeps no other from its alerts, and is logged once', async (t) => {
  const world = new World('unread', 'lost', 'acc');
  world.found = [PAUSED];
  t.deepEqual(await world.look(), ['acc: 🟡']);
  await world.look(1_000);
  t.like(world.logged, [{ account: 'unread' }, { account: 'lost', channel: 'alert-1' }]);
  t.is(world.logged.length, 2);
});

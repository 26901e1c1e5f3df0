/** Alerts over a take-over: the next owner repeats nothing that was told, and tells of the end. */
import test from 'ava';

import { AlertChannelKind } from '../../proto/gen/capstan/v1/control.ts';
import { knowsPaused, pausedJob, textOf } from '../support/paused-job.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { Receiver } from '../support/receiver.ts';
import { unary } from '../support/scheduler-client.ts';
import { schedulersOn, statusOf } from '../support/schedulers.ts';
import { withPostgres } from '../support/with-postgres.ts';

/** Hosts need no time to return: none joins. */
const SETTINGS = { alertDelayMs: 0, webhookAllow: '127.0.0.0/8', nodeGraceMs: 100 };

await withPostgres('alerts over a take-over', tests);

function tests(server: PostgresServer): void {
  test('an incident is told once, whoever owns the queue, and its end once by the successor', async (t) => {
    const receiver = await Receiver.open(t);
    const { owner, standby } = await schedulersOn(t, server, SETTINGS);
    const next = await standby();
    const value = { kind: AlertChannelKind.WEBHOOK, address: receiver.url('/services/T0') };
    await unary((done) => owner.control.addAlertChannel(value, owner.bearer(owner.secret('api-key')), done));
    const { remove } = await pausedJob(owner);
    t.regex(textOf(await receiver.next()), /^🟡 warning: echo: it is paused/);
    const owns = statusOf(next, 'owner');
    await owner.handle.close();
    await owns;
    await knowsPaused(next);
    // A repetition would come before the end.
    await remove(next);
    t.regex(textOf(await receiver.next()), /^🟢 over: echo: it is paused/);
    t.is(receiver.received.length, 2);
  });
}

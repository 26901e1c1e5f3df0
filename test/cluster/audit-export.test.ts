/** The export of the audit log goes on where the former owner of the queue was. */
import test from 'ava';

import { recordsIn } from '../support/otlp-logs.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { Receiver, type Answer } from '../support/receiver.ts';
import { unary, type TestScheduler } from '../support/scheduler-client.ts';
import { schedulersOn, statusOf } from '../support/schedulers.ts';
import { until } from '../support/until.ts';
import { withPostgres } from '../support/with-postgres.ts';

await withPostgres('audit-export', tests);

function tests(server: PostgresServer): void {
  test('what the former owner did not get rid of is sent by the next one, and a standby sends nothing', async (t) => {
    let isSwallowing = true;
    const answer: Answer = (response) => isSwallowing || response.writeHead(200).end();
    const [ofOwner, ofStandby] = [await Receiver.open(t, [answer]), await Receiver.open(t)];
    const target = (receiver: Receiver) => ({
      auditExporter: 'otlp',
      otlpLogsEndpoint: receiver.url('/v1/logs'),
      otlpLogsProtocol: 'http/json',
      auditExportTimeoutMs: 3_600_000,
    });
    const { owner, standby: another } = await schedulersOn(t, server, target(ofOwner));
    const standby = await another(target(ofStandby));
    await setSecret(owner, 'SWALLOWED');
    await until('the entry is on its way', () => ofOwner.received.length > 0);
    await setSecret(owner, 'WAITING');
    t.is(ofStandby.received.length, 0);
    const taken = statusOf(standby, 'owner');
    await owner.handle.close();
    isSwallowing = false;
    await taken;
    await setSecret(standby, 'AFTER');
    const ids = (await standby.audited(owner.secret('api-key'))).map(({ id }) => id).toReversed();
    t.is(ids.length, 3);
    const sent = await until('all entries arrive', () => {
      const found = ofStandby.received
        .flatMap(({ body }) => recordsIn(body))
        .map(({ attributes }) => String(attributes['capstan.audit.id']));
      return found.length >= ids.length && found;
    });
    t.deepEqual(sent, ids);
  });
}

async function setSecret(scheduler: TestScheduler, name: string): Promise<void> {
  const request = { environment: '', name, value: 'x' };
  await unary((end) => scheduler.control.setSecret(request, scheduler.bearer(scheduler.secret('api-key')), end));
}

/** What agents say of the lines that they forwarded is in the scheduler's metrics. */
import test from 'ava';

import { testInventory, TestScheduler, unary } from '../support/scheduler-client.ts';

test('lines that were forwarded and dropped are counted by node, of nodes that forward', async (t) => {
  const scheduler = await TestScheduler.open({});
  t.teardown(() => scheduler.close());
  const node = await scheduler.join('forwards');
  const session = node.session({ inventory: { ...testInventory(), logForwarding: { sent: 5n, dropped: 2n } } });
  const other = (await scheduler.join('does not')).session({});
  await Promise.all([session.take('welcome'), other.take('welcome')]);
  const { text } = await unary<{ text: string }>((done) =>
    scheduler.control.getMetrics({}, scheduler.bearer(scheduler.secret('gateway-token')), done),
  );
  const found = [...text.matchAll(/^capstan_forwarded_log_lines_total\{node="([^"]+)",outcome="(\w+)"\} (\d+)$/gm)];
  t.deepEqual(
    found.map(([, , outcome, lines]) => [outcome, lines]),
    [
      ['sent', '5'],
      ['dropped', '2'],
    ],
  );
});

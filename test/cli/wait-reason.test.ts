/** `capstan call` says why its job waits: each reason once, and nothing once the wait is over. */
import test from 'ava';

import { tellWaitReasons } from '../../cli/api/wait-reason.ts';
import { until } from '../support/until.ts';

test('each reason is told once as it changes; failures and jobs that run say nothing', async (t) => {
  const rows = [
    { jobsInQueue: 1, queueReason: 'CRASH_LOOP', queueDetail: '3 consecutive starts failed' },
    { jobsInQueue: 1, queueReason: 'CRASH_LOOP', queueDetail: '3 consecutive starts failed' },
    { jobsInQueue: 0, queueReason: 'NO_CAPACITY', queueDetail: 'of nobody' },
    { jobsInQueue: 2, queueReason: 'WORKERS_BUSY', queueDetail: '' },
  ];
  const told: string[] = [];
  let reads = 0;
  const read = async () => {
    reads += 1;
    if (reads === 2) throw new Error('the gateway is away');
    return Promise.resolve(rows.shift());
  };
  const stop = tellWaitReasons({ read, tell: (reason) => told.push(reason), everyMs: 1 });
  await until('all were read', () => reads > 6);
  stop();
  t.deepEqual([...new Set(told)], ['CRASH_LOOP: 3 consecutive starts failed', 'WORKERS_BUSY']);
});

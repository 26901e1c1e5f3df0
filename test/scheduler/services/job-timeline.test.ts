/** Which reasons are those of one job (scheduler/services/job-timeline.ts). */
import test from 'ava';

import type { PastAttempt } from '../../../scheduler/core/jobs/past-attempts.ts';
import { spansOf, timelineOf, waitsOf } from '../../../scheduler/services/job-timeline.ts';
import type { JobRow } from '../../../scheduler/core/ports/store.ts';
import { queued } from '../../conformance/store/jobs.ts';

const job = (of: Partial<JobRow> = {}): JobRow => queued(1, { submittedAt: 10_000, ...of });
const past = (of: Partial<PastAttempt>): PastAttempt => ({
  submittedAt: 10_000,
  attempt: 1,
  worker: 'w',
  node: 'n',
  leasedAt: null,
  startedAt: null,
  endedAt: 0,
  reason: 'WORKER_LOST',
  error: '',
  count: 1,
  ...of,
});
const row = (at: number, reason: string) => ({ at, reason, detail: '' });

test('a job waits until it starts, ends, or now', (t) => {
  t.deepEqual(waitsOf([], job(), null), [{ from: 10_000, until: null }]);
  t.deepEqual(waitsOf([], job(), 15_000), [{ from: 10_000, until: 15_000 }]);
  t.deepEqual(waitsOf([], job({ endedAt: 12_000 }), null), [{ from: 10_000, until: 12_000 }], 'cancelled in the queue');
});

test('it waits between attempts, through those that do not start, and again from a retry', (t) => {
  const attempts = [
    past({ startedAt: 11_000, endedAt: 20_000 }),
    past({ endedAt: 22_000, reason: 'REFUSED' }),
    past({ startedAt: 25_000, endedAt: 30_000, reason: 'FAILED' }),
    past({ submittedAt: 50_000, endedAt: 55_000, reason: 'UNDELIVERED' }),
  ];
  t.deepEqual(waitsOf(attempts, job({ submittedAt: 50_000 }), 60_000), [
    { from: 10_000, until: 11_000 },
    { from: 20_000, until: 25_000 },
    { from: 50_000, until: 60_000 },
  ]);
  const unstarted = [past({ endedAt: 30_000, reason: 'FAILED' })];
  t.deepEqual(waitsOf(unstarted, job({ submittedAt: 50_000 }), null), [
    { from: 10_000, until: 30_000 },
    { from: 50_000, until: null },
  ]);
});

test('a reason is cut to the waits of the job, and stands if both go on', (t) => {
  const rows = [row(1_000, 'PAUSED'), row(12_000, 'NO_CAPACITY'), row(14_000, ''), row(21_000, 'CRASH_LOOP')];
  const waits = [
    { from: 10_000, until: 15_000 },
    { from: 20_000, until: null },
  ];
  t.deepEqual(spansOf(rows, waits), [
    { ...row(10_000, 'PAUSED'), until: 12_000 },
    { ...row(12_000, 'NO_CAPACITY'), until: 14_000 },
    { ...row(21_000, 'CRASH_LOOP'), until: null },
  ]);
  t.deepEqual(spansOf(rows, [{ from: 22_000, until: 23_000 }]), [{ ...row(22_000, 'CRASH_LOOP'), until: 23_000 }]);
  t.deepEqual(spansOf(rows, [{ from: 14_000, until: 21_000 }]), []);
});

test('a short wait reads nothing, and a reply is bounded', async (t) => {
  const ranges: unknown[] = [];
  const rows = Array.from({ length: 500 }, (_, i) => row(20_000 + i, `R${i}`));
  const store = {
    save: async () => undefined,
    standing: async () => [],
    read: async (range: unknown) => {
      ranges.push(range);
      return rows;
    },
  };
  t.deepEqual(await timelineOf(store, job(), 10_900, 99_000), { pastAttempts: [], queueReasons: [] });
  t.deepEqual(ranges, []);
  const { queueReasons } = await timelineOf(store, job(), null, 99_000);
  t.deepEqual(ranges, [{ endpoint: 'endpoint-a', from: 10_000, until: 99_001 }]);
  t.is(queueReasons.length, 100);
  t.deepEqual(queueReasons.at(-1), { atMs: 20_499n, untilMs: 0n, reason: 'R499', detail: '' });
});

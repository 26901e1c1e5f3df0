/** The bars of a job's page say which attempts ran, and when. */
import test from 'ava';

import type { Job, PastAttempt } from '../../console/src/api/graphql/gen/operations.ts';
import { barsOf } from '../../console/src/pages/job-bars.ts';

const at = (seconds: number): string => new Date(seconds * 1_000).toISOString();

function attempt(of: Partial<PastAttempt>): PastAttempt {
  return {
    ...({ attempt: 1, worker: 'w', node: 'n', submittedAt: at(0), leasedAt: at(1), startedAt: null, endedAt: at(2) } as const),
    ...({ reason: 'REFUSED', error: null, count: 1 } as const),
    ...of,
  };
}

function job(of: Partial<Job>): Job {
  return {
    ...({ status: 'COMPLETED', submittedAt: at(0), startedAt: at(7), endedAt: at(8), attempts: 3, worker: 'w', delayTime: null } as const),
    ...({ queueReasons: [], pastAttempts: [] } as const),
    ...of,
  } as unknown as Job;
}

test('an attempt that did not start says so beside the one that did', (t) => {
  const pastAttempts = [attempt({ startedAt: at(1) }), attempt({ attempt: 2, leasedAt: at(3), endedAt: at(4) })];
  const bars = barsOf(job({ pastAttempts }), null, 0);
  t.deepEqual(
    bars.map(({ label, from, to, tone }) => [label, from / 1_000, to / 1_000, tone]),
    [
      ['Last wait', 4, 7, 'wait'],
      ['Attempt 1', 1, 2, 'bad'],
      ['Attempt 2, not started', 3, 4, 'bad'],
      ['Attempt 3', 7, 8, 'good'],
    ],
  );
});

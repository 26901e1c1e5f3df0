/** The head window of a queue while its refill is read: what happened meanwhile is in no row, or in an outdated one. */
import test from 'ava';

import { fromRow } from '../../../scheduler/core/jobs/job-records.ts';
import { enqueue, finishRefill, first, putBack, startRefill, take } from '../../../scheduler/core/jobs/lanes.ts';
import { emptyLane, type JobRecord } from '../../../scheduler/core/state/jobs.ts';
import { waitingJob } from '../../support/job-row.ts';

function queued(seq: number, queuePosition = seq): JobRecord {
  return fromRow(waitingJob({ seq, queuePosition }));
}

test('a job that returns, runs and ends while a refill is read does not come back with its rows', (t) => {
  const lane = { ...emptyLane(false), count: 1 };
  startRefill(lane, 8);
  const returned = queued(2);
  t.true(putBack(lane, returned));
  take(lane, returned);
  // The rows were read between its return and its second lease.
  const { added } = finishRefill(lane, [queued(1), queued(2)], 2, () => false);
  t.deepEqual(
    added.map(({ seq }) => seq),
    [1],
  );
  t.is(lane.count, 1);
});

test('a job that fails and is retried while a refill is read is found at its new place', (t) => {
  const lane = { ...emptyLane(false), count: 0 };
  startRefill(lane, 8);
  const returned = queued(1);
  putBack(lane, returned);
  take(lane, returned);
  t.false(enqueue(lane, queued(1, 3), 8), 'it is beyond the window');
  const retried = queued(1, 3);
  finishRefill(lane, [retried], 2, () => false);
  t.is(first(lane), retried);
});

/** The list of a job's attempts that ended (scheduler/core/jobs/past-attempts.ts). */
import test from 'ava';

import {
  ERROR_CHARACTERS,
  MAX_ATTEMPTS,
  MAX_BYTES,
  mustRunApart,
  openSuspicions,
  pastAttempts,
  unchargedAttempts,
  withAttempt,
  type PastAttempt,
} from '../../../scheduler/core/jobs/past-attempts.ts';

const ended = (of: Partial<PastAttempt> = {}): PastAttempt => ({
  submittedAt: 1_000,
  attempt: 1,
  worker: 'worker-a',
  node: 'node-a',
  leasedAt: 1_100,
  startedAt: 1_200,
  endedAt: 1_300,
  reason: 'WORKER_LOST',
  error: 'exit code 137',
  count: 1,
  ...of,
});
const listOf = (...attempts: readonly PastAttempt[]): readonly PastAttempt[] =>
  pastAttempts(attempts.reduce<string | null>((text, attempt) => withAttempt(text, attempt), null));

test('attempts are kept in order', (t) => {
  const attempts = [ended(), ended({ attempt: 2, reason: 'NODE_LOST', startedAt: null, leasedAt: null, node: null })];
  t.deepEqual(
    listOf(...attempts),
    attempts.map((attempt) => ({ ...attempt, workerEnds: 1 })),
  );
  t.deepEqual(pastAttempts(null), []);
});

test('what does not start for one reason again and again is one entry', (t) => {
  const refused = (n: number, of: Partial<PastAttempt> = {}) =>
    ended({ startedAt: null, leasedAt: n, endedAt: n + 1, worker: `worker-${n}`, reason: 'REFUSED', ...of });
  const list = listOf(ended(), ...Array.from({ length: 1_000 }, (_, n) => refused(n)), ended({ attempt: 2 }), ended({ attempt: 3 }));
  t.deepEqual(
    list.map(({ count }) => count),
    [1, 1_000, 1, 1],
  );
  t.deepEqual(list[1], refused(999, { leasedAt: 0, count: 1_000, workerEnds: 1 }));
  // Another reason, or another submission.
  t.is(listOf(refused(1), refused(2, { reason: 'UNDELIVERED' }), refused(3), refused(4, { submittedAt: 2_000 })).length, 4);
});

test('the list is bounded: by entries, by the characters of an error, and in bytes', (t) => {
  const many = listOf(...Array.from({ length: 50 }, (_, n) => ended({ attempt: n + 1 })));
  t.deepEqual([many.length, many[0]?.attempt, many.at(-1)?.attempt], [MAX_ATTEMPTS, 31, 50]);
  t.is(listOf(ended({ error: 'x'.repeat(300_000) }))[0]?.error.length, ERROR_CHARACTERS);
  for (const awkward of ['\0', '€', '\u{1F600}', '\uD800']) {
    let text: string | null = null;
    for (let n = 0; n < 50; n += 1) text = withAttempt(text, ended({ attempt: n + 1, error: awkward.repeat(300) }));
    t.true(Buffer.byteLength(text ?? '') <= MAX_BYTES);
    t.is(pastAttempts(text).at(-1)?.attempt, 50);
    t.false((text ?? '').includes('\0'), 'PostgreSQL has no such character in a text');
  }
});

test('what is not charged is counted in the last entry, however many were dropped', (t) => {
  let text: string | null = null;
  for (let n = 0; n < 50; n += 1) text = withAttempt(text, ended({ attempt: n + 1, reason: 'NEIGHBOUR_STOPPED' }), false);
  t.is(unchargedAttempts(text, 1_000), 50);
  text = withAttempt(text, ended({ attempt: 51 }));
  // One that did not start counts anyway for nothing.
  text = withAttempt(text, ended({ attempt: 52, startedAt: null, reason: 'REFUSED' }), false);
  t.is(unchargedAttempts(text, 1_000), 50);
  t.is(unchargedAttempts(text, 2_000), 0, 'a retry counts anew');
  t.is(unchargedAttempts(null, 1_000), 0);
});

/** Whether a job with many attempts left runs apart. */
const runsApart = (text: string | null): boolean => mustRunApart(text, { submittedAt: 1_000, started: 2, maxAttempts: 50 });

test('a job that is suspected twice runs apart from then on, also after a retry', (t) => {
  let text: string | null = withAttempt(null, ended({ error: '"suspected":9' }));
  t.false(runsApart(text));
  text = withAttempt(text, ended({ reason: 'SUSPECTED' }), false);
  t.false(runsApart(text));
  text = withAttempt(text, ended({ reason: 'SUSPECTED' }), false);
  t.true(runsApart(text));
  for (let n = 0; n < 50; n += 1) text = withAttempt(text, ended({ submittedAt: 2_000, reason: n % 2 === 0 ? 'STOPPED' : 'REFUSED' }));
  t.true(runsApart(text));
  t.false(runsApart(null));
});

test('the last attempt of a job under which a worker ended runs apart', (t) => {
  const next = (text: string | null, started: number, submittedAt = 1_000): boolean =>
    mustRunApart(text, { submittedAt, started, maxAttempts: 3 });
  const lost = withAttempt(null, ended());
  t.false(next(lost, 1), 'two more are left');
  const suspected = withAttempt(lost, ended({ reason: 'SUSPECTED' }), false);
  t.true(next(suspected, 2));
  t.false(next(suspected, 0, 2_000), 'a retry counts anew');
  // Neighbours' ends and lost nodes are no reason.
  t.false(next(withAttempt(lost, ended({ reason: 'NEIGHBOUR_STOPPED' }), false), 2));
  t.false(next(withAttempt(withAttempt(null, ended({ reason: 'NODE_LOST' })), ended({ reason: 'NODE_LOST' })), 2));
});

test('suspicions are charged once the job ends a worker alone', (t) => {
  let text = withAttempt(null, ended({ reason: 'SUSPECTED' }), false);
  text = withAttempt(text, ended({ attempt: 2, reason: 'NEIGHBOUR_STOPPED' }), false);
  t.deepEqual([unchargedAttempts(text, 1_000), openSuspicions(text, 1_000)], [2, 1]);
  text = withAttempt(text, ended({ attempt: 3 }));
  t.deepEqual([unchargedAttempts(text, 1_000), openSuspicions(text, 1_000)], [1, 0]);
});

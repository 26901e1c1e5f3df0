/** Rate limits: exact in every window of 10 s, whenever it begins. */
import test from 'ava';
import { fc, testProp } from '@fast-check/ava';

import { CapstanError } from '../../lib/errors.ts';
import {
  tryAcquire,
  defaultLimits,
  DEFAULT_REQUESTS_PER_WORKER,
  effectiveLimit,
  Usage,
  WINDOW_MS,
  type Limit,
} from '../../scheduler/core/state/rate-limits.ts';
import { QueueWorld } from './queue-world.ts';

const limitArbitrary = fc.record({ requests: fc.integer({ min: 0, max: 8 }), concurrent: fc.integer({ min: 0, max: 6 }) });
/** Arrivals: how long after the one before, and how long the request stays open. */
const arrivals = fc.array(
  fc.record({ after: fc.integer({ min: 0, max: 4_000 }), openFor: fc.integer({ min: 0, max: 15_000 }), resent: fc.boolean() }),
  {
    minLength: 1,
    maxLength: 80,
    size: 'max',
  },
);

testProp(
  'a request is let in exactly when fewer than the limit were in the last 10 s and fewer than the limit are open',
  [limitArbitrary, arrivals],
  (t, limit, list) => {
    const usage = new Usage();
    const accepted: number[] = [];
    const open: number[] = [];
    let now = 1_000;
    for (const { after, openFor, resent } of list) {
      now += after;
      while (open.length > 0 && Math.min(...open) <= now) {
        open.splice(open.indexOf(Math.min(...open)), 1);
        usage.release();
      }
      const inWindow = accepted.filter((at) => at > now - WINDOW_MS).length;
      const windowFull = limit.requests > 0 && inWindow >= limit.requests;
      const crowded = limit.concurrent > 0 && open.length >= limit.concurrent;
      const refusal = tryAcquire(usage, limit, { operation: 'run', now, resent });
      t.is(refusal === null, resent || (!windowFull && !crowded));
      if (refusal !== null) {
        t.is(refusal.code, 'RATE_LIMITED');
        t.true((refusal.retryAfterMs ?? 0) >= 1);
      } else {
        if (!resent) accepted.push(now);
        open.push(now + openFor);
      }
      // However the window is laid, it never holds more than the limit.
      if (limit.requests > 0) {
        for (const from of accepted) t.true(accepted.filter((at) => at >= from && at < from + WINDOW_MS).length <= limit.requests);
      }
    }
  },
  { numRuns: 400 },
);

testProp(
  'the time to wait is exact: a millisecond before it is too early, at it the request is let in',
  [fc.integer({ min: 1, max: 20 }), fc.array(fc.integer({ min: 0, max: 900 }), { minLength: 20, maxLength: 60 })],
  (t, requests, gaps) => {
    const limit: Limit = { requests, concurrent: 0 };
    const build = (): { usage: Usage; now: number; refusal: CapstanError | null } => {
      const usage = new Usage();
      let now = 0;
      for (const gap of gaps) {
        now += gap;
        const refusal = tryAcquire(usage, limit, { operation: 'run', now, resent: false });
        if (refusal !== null) return { usage, now, refusal };
      }
      return { usage, now, refusal: null };
    };
    const { usage, now, refusal } = build();
    if (refusal === null) return t.pass();
    const wait = refusal.retryAfterMs ?? 0;
    t.true(wait <= WINDOW_MS);
    t.not(tryAcquire(usage, limit, { operation: 'run', now: now + wait - 1, resent: false }), null);
    t.is(tryAcquire(usage, limit, { operation: 'run', now: now + wait, resent: false }), null);
    return undefined;
  },
  { numRuns: 300 },
);

testProp(
  'the effective limit is the higher of the base and workers × per worker; concurrency grows in proportion',
  [
    fc.integer({ min: 1, max: 5_000 }),
    fc.integer({ min: 0, max: 500 }),
    fc.integer({ min: 0, max: 100 }),
    fc.integer({ min: 0, max: 1_000 }),
  ],
  (t, requests, concurrent, workers, perWorker) => {
    const limit = effectiveLimit({ requests, concurrent }, workers, perWorker);
    t.is(limit.requests, Math.max(requests, workers * perWorker));
    t.true(limit.concurrent >= concurrent);
    t.is(limit.concurrent, Math.floor((concurrent * limit.requests) / requests));
    t.deepEqual(effectiveLimit({ requests: 0, concurrent }, workers, perWorker), { requests: 0, concurrent });
  },
);

test('the defaults are the documented ones', (t) => {
  t.deepEqual(defaultLimits, {
    runsync: { requests: 2000, concurrent: 400 },
    run: { requests: 1000, concurrent: 200 },
    status: { requests: 2000, concurrent: 400 },
    stream: { requests: 2000, concurrent: 400 },
    cancel: { requests: 100, concurrent: 20 },
    'purge-queue': { requests: 2, concurrent: 0 },
    openai: { requests: 2000, concurrent: 400 },
    requests: { requests: 10, concurrent: 2 },
  });
  t.is(DEFAULT_REQUESTS_PER_WORKER, 100);
});

test('an endpoint of its own limits: exact at the queue’s owner, grown by its running workers, counted per operation', (t) => {
  const counted = { limitedAs: 'status', resent: false } as const;
  const limits = { status: { requests: 3, concurrent: 1 } };
  const refused = (world: QueueWorld): boolean => world.status('a', counted) instanceof CapstanError && !known(world);
  const known = (world: QueueWorld): boolean => !(world.status('a') instanceof CapstanError);

  // No worker: the base counts.
  const still = new QueueWorld({}, { workersMin: 0, workersMax: 0, limits });
  still.submit('a');
  for (let i = 0; i < 3; i++) t.false(still.status('a', counted) instanceof CapstanError);
  const refusal = still.status('a', counted);
  t.true(refusal instanceof CapstanError && refusal.code === 'RATE_LIMITED' && refusal.retryAfterMs === WINDOW_MS);
  // Another operation is another count.
  t.false(still.submit('b', { counting: { limitedAs: 'run', resent: false } }) instanceof CapstanError);
  still.pass(WINDOW_MS);
  t.false(still.status('a', counted) instanceof CapstanError);
  t.false(refused(still));
  // Open requests: a wait holds its place until it is answered.
  still.pass(WINDOW_MS);
  const wait = still.wait('a', 5_000, counted);
  t.true(still.status('a', counted) instanceof CapstanError);
  still.pass(5_000);
  t.not(still.answered(wait), undefined);
  t.false(still.status('a', counted) instanceof CapstanError);
  still.close();

  // One running worker, five requests each: five.
  const grown = new QueueWorld({}, { limits, requestsPerWorker: 5 });
  grown.submit('a');
  for (let i = 0; i < 5; i++) t.false(grown.status('a', counted) instanceof CapstanError);
  t.true(grown.status('a', counted) instanceof CapstanError);
  grown.close();
});

test('a unary call counts from its command until it ends, a refused one not at all', (t) => {
  const world = new QueueWorld({}, { workersMin: 0, workersMax: 0, limits: { requests: { requests: 10, concurrent: 2 } } });
  const begin = (ticket: number): string => {
    const answer = world.beginCall('requests', ticket);
    if (answer instanceof CapstanError) return answer.code;
    return answer instanceof Error ? answer.message : answer.kind;
  };
  t.deepEqual([begin(1), begin(2), begin(3)], ['done', 'done', 'RATE_LIMITED']);
  world.endCall(3);
  t.is(begin(4), 'RATE_LIMITED', 'the end of a refused call frees nothing');
  world.endCall(1);
  world.endCall(1);
  t.deepEqual([begin(5), begin(6)], ['done', 'RATE_LIMITED']);
  // After a restart the calls of before are open no more, and their ends mean nothing.
  world.restart();
  t.deepEqual([begin(7), begin(8)], ['done', 'done']);
  world.endCall(2);
  t.is(begin(9), 'RATE_LIMITED');
  world.close();
});

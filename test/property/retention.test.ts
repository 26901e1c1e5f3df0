/**
 * How long a job is there (invariant 5): ttl runs from the
 * submission until the end of the job and then stops counting, retention runs from the end.
 */
import test from 'ava';
import { fc, testProp } from '@fast-check/ava';

import { CapstanError } from '../../lib/errors.ts';
import { AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { QueueWorld } from './queue-world.ts';

const DAY = 86_400_000;

/** What a caller sees of a job: its state, or NOT_FOUND. */
function seen(world: QueueWorld, job: string): string {
  const status = world.status(job);
  return status instanceof CapstanError ? status.code : status.state.replace('JOB_STATE_', '');
}

function run(world: QueueWorld, job: string, ms: number, outcome: AttemptOutcome = AttemptOutcome.COMPLETED): void {
  const held = world.attempt(job);
  if (held === null) throw new Error(`${job} was not dispatched`);
  world.enter(held);
  world.pass(ms);
  world.end(held, { outcome });
}

test('completed at 1 s with a ttl of 10 s: at 11 s it is still COMPLETED', (t) => {
  const world = new QueueWorld();
  world.submit('a', { policy: { ttlMs: 10_000 } });
  run(world, 'a', 1_000);
  world.pass(10_000);
  t.is(seen(world, 'a'), 'COMPLETED');
  world.pass(1_800_000 - 10_000 - 1);
  t.is(seen(world, 'a'), 'COMPLETED');
  world.pass(1);
  t.is(seen(world, 'a'), 'NOT_FOUND');
  world.close();
});

test('a result of /runsync stays for a minute', (t) => {
  const world = new QueueWorld();
  world.submit('sync-a', { kind: 'RUNSYNC' });
  run(world, 'sync-a', 5_000);
  world.pass(59_999);
  t.is(seen(world, 'sync-a'), 'COMPLETED');
  world.pass(1);
  t.is(seen(world, 'sync-a'), 'NOT_FOUND');
  world.close();
});

test('a job whose ttl runs out while it runs is gone, and its handler is stopped', (t) => {
  const world = new QueueWorld();
  world.submit('a', { policy: { ttlMs: 10_000, executionTimeoutMs: 60_000 } });
  const held = world.attempt('a');
  if (held === null) throw new Error('not dispatched');
  world.enter(held);
  world.pass(9_999);
  t.is(seen(world, 'a'), 'IN_PROGRESS');
  world.pass(1);
  t.is(seen(world, 'a'), 'NOT_FOUND');
  world.pass(1_000);
  t.true(held.stopped);
  // What its handler made of it comes too late.
  world.end(held, { outcome: AttemptOutcome.COMPLETED });
  t.is(seen(world, 'a'), 'NOT_FOUND');
  world.close();
});

test('what comes between the end of the ttl and the deletion of the row changes nothing', (t) => {
  for (const how of ['complete', 'lose', 'purge'] as const) {
    const world = new QueueWorld({ maxAttempts: 1 });
    world.submit('before', { policy: { ttlMs: 60_000 } });
    world.submit('a', { policy: { ttlMs: 10_000 } });
    const before = world.attempt('before');
    if (before === null) throw new Error('not dispatched');
    if (how !== 'purge') world.end(before, { outcome: AttemptOutcome.COMPLETED });
    const held = world.attempt('a');
    if (held !== null) world.enter(held);
    // Deletions are gathered for a quarter of a second.
    world.pass(10_000);
    t.is(seen(world, 'a'), 'NOT_FOUND');
    if (held === null) t.is(world.purge(), 0);
    else world.end(held, { outcome: how === 'complete' ? AttemptOutcome.COMPLETED : AttemptOutcome.WORKER_LOST });
    t.is(seen(world, 'a'), 'NOT_FOUND');
    world.pass(1_000);
    t.is(seen(world, 'a'), 'NOT_FOUND');
    world.close();
  }
});

test('a waiter learns of the end of the ttl', (t) => {
  const world = new QueueWorld({}, { workersMin: 0, workersMax: 0 });
  world.submit('a', { policy: { ttlMs: 10_000 } });
  const request = world.wait('a', 90_000);
  world.pass(12_000);
  t.is(world.answered(request)?.result?.$case, 'failure');
  world.close();
});

test('the default ttl is 24 hours', (t) => {
  const world = new QueueWorld({}, { workersMin: 0, workersMax: 0 });
  world.submit('a');
  world.pass(DAY - 1);
  t.is(seen(world, 'a'), 'IN_QUEUE');
  world.pass(1);
  t.is(seen(world, 'a'), 'NOT_FOUND');
  world.close();
});

test('a stream goes on for as long as its job does: an hour, a chunk a minute', (t) => {
  const world = new QueueWorld();
  world.submit('a', { policy: { executionTimeoutMs: 2 * 3_600_000 } });
  const held = world.attempt('a');
  if (held === null) throw new Error('not dispatched');
  world.enter(held);
  for (let index = 0; index < 60; index++) {
    world.pass(60_000);
    const data = { body: { $case: 'inline', value: Buffer.from(String(index)) } } as const;
    world.report({ $case: 'chunk', value: { jobId: 'a', token: held.token, index, data } });
    t.like(world.stream('a'), { state: 'JOB_STATE_IN_PROGRESS', chunks: [data], token: held.token, firstIndex: index });
    t.like(world.stream('a'), { state: 'JOB_STATE_IN_PROGRESS', chunks: [] });
  }
  world.end(held, { outcome: AttemptOutcome.COMPLETED });
  t.like(world.stream('a'), { state: 'JOB_STATE_COMPLETED', chunks: [] });
  world.close();
});

const ending = fc.constantFrom('complete', 'fail', 'time-out', 'cancel', 'cancel-queued', 'none');
const states = {
  complete: 'COMPLETED',
  fail: 'FAILED',
  'time-out': 'TIMED_OUT',
  cancel: 'CANCELLED',
  'cancel-queued': 'CANCELLED',
  none: '',
} as const;

const life = fc.record({
  kind: fc.constantFrom('RUN' as const, 'RUNSYNC' as const),
  ttlMs: fc.oneof(
    fc.integer({ min: 10_000, max: 60_000 }),
    fc.integer({ min: 60_000, max: 7_200_000 }),
    fc.integer({ min: DAY, max: 7 * DAY }),
  ),
  /** Parts of the ttl: waiting, running. May be more than the whole. */
  waits: fc.double({ min: 0, max: 1.2, noNaN: true }),
  runs: fc.double({ min: 0, max: 1.2, noNaN: true }),
  ending,
  /** Moments to look at, in units of the ttl or the retention after the end. */
  looks: fc.array(fc.double({ min: 0, max: 1.1, noNaN: true }), { minLength: 1, maxLength: 6 }),
  restarts: fc.boolean(),
});

testProp(
  'whatever its life, a job is seen until its ttl is over or, once it has ended, until its retention is',
  [life],
  (t, { kind, ttlMs, waits, runs, ending, looks, restarts }) => {
    const world = new QueueWorld();
    // Another job keeps the only worker busy for as long as this one shall wait.
    world.submit('before', { policy: { ttlMs: 7 * DAY } });
    const before = world.attempt('before');
    if (before === null) throw new Error('not dispatched');
    world.enter(before);
    const submittedAt = world.now;
    world.submit('a', { kind, policy: { ttlMs, executionTimeoutMs: 7 * DAY } });
    const deadline = submittedAt + ttlMs;
    const retention = kind === 'RUN' ? 1_800_000 : 60_000;
    const look = (expected: string): void => {
      t.is(seen(world, 'a'), expected, `at ${world.now - submittedAt} of ${ttlMs}`);
    };

    world.pass(Math.floor(ttlMs * waits));
    if (restarts) world.restart();
    let endedAt: number | null = null;
    if (ending === 'cancel-queued' && world.now < deadline) {
      t.false(world.change('cancel', 'a') instanceof CapstanError);
      endedAt = world.now;
    } else {
      look(world.now < deadline ? 'IN_QUEUE' : 'NOT_FOUND');
      world.end(before, { outcome: AttemptOutcome.COMPLETED });
      const held = world.attempt('a');
      t.is(held === null, world.now >= deadline);
      if (held !== null && ending !== 'none') {
        world.enter(held);
        world.pass(Math.floor(ttlMs * runs));
        if (restarts) world.restart();
        const alive = world.now < deadline;
        look(alive ? 'IN_PROGRESS' : 'NOT_FOUND');
        if (ending === 'complete') world.end(held, { outcome: AttemptOutcome.COMPLETED });
        else if (ending === 'fail') world.end(held, { outcome: AttemptOutcome.FAILED, error: 'no' });
        else if (ending === 'time-out') world.end(held, { outcome: AttemptOutcome.TIMED_OUT });
        else t.is(world.change('cancel', 'a') instanceof CapstanError, !alive);
        if (alive) endedAt = world.now;
      }
    }
    if (restarts) world.restart();
    const [from, span] = endedAt === null ? [submittedAt, ttlMs] : [endedAt, retention];
    for (const at of looks.map((part) => from + Math.floor(span * part)).sort((a, b) => a - b)) {
      if (at < world.now) continue;
      world.pass(at - world.now);
      if (endedAt !== null) look(at < endedAt + retention ? states[ending] : 'NOT_FOUND');
      else if (at >= deadline) look('NOT_FOUND');
      else t.true(['IN_QUEUE', 'IN_PROGRESS'].includes(seen(world, 'a')));
    }
    world.close();
  },
  { numRuns: 150 },
);

testProp(
  'retry starts ttl, delayTime and the attempts anew; the old output is gone',
  [
    fc.integer({ min: 10_000, max: DAY }),
    fc.double({ min: 0, max: 0.9, noNaN: true }),
    fc.constantFrom('fail' as const, 'time-out' as const),
    fc.boolean(),
  ],
  (t, ttlMs, part, how, restarts) => {
    const world = new QueueWorld();
    world.submit('a', { policy: { ttlMs } });
    world.pass(1_000);
    run(world, 'a', 500, how === 'fail' ? AttemptOutcome.FAILED : AttemptOutcome.TIMED_OUT);
    const pause = Math.floor(Math.min(1_700_000, ttlMs * 2 * part));
    world.pass(pause);
    if (restarts) world.restart();
    t.false(world.change('retry', 'a') instanceof CapstanError);
    const retriedAt = world.now;
    const held = world.attempt('a');
    if (held === null) throw new Error('not dispatched again');
    world.pass(3_000);
    world.enter(held);
    world.pass(Math.max(0, retriedAt + ttlMs - 1 - world.now));
    const running = world.status('a');
    if (running instanceof CapstanError) throw running;
    t.like(running, { state: 'JOB_STATE_IN_PROGRESS', delayMs: 3_000, retries: 0, output: undefined, error: undefined });
    world.pass(1);
    t.is(seen(world, 'a'), 'NOT_FOUND');
    world.close();
  },
  { numRuns: 60 },
);

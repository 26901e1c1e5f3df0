/** Rules of the API where two of them meet: policies with /retry, waits with ends, keys with both submissions. */
import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { QueueWorld, type Held } from './queue-world.ts';

const DAY = 86_400_000;

function worldOf(t: ExecutionContext, ...given: ConstructorParameters<typeof QueueWorld>): QueueWorld {
  const world = new QueueWorld(...given);
  t.teardown(() => world.close());
  return world;
}

function heldOf(world: QueueWorld, job: string): Held {
  const held = world.attempt(job);
  if (held === null) throw new Error(`${job} was not dispatched`);
  return held;
}

function end(world: QueueWorld, job: string, outcome: AttemptOutcome = AttemptOutcome.COMPLETED): void {
  const held = heldOf(world, job);
  world.enter(held);
  world.end(held, { outcome });
}

/** How a wait was answered: the job's state, or the code of the refusal. */
function heard(world: QueueWorld, request: number): string | undefined {
  const result = world.answered(request)?.result;
  if (result?.$case === 'failure') return result.value.code;
  return result === undefined ? undefined : result.value.state;
}

test('executionTimeout: 10 minutes, else the endpoint’s, else that of the job’s policy, for this job only', (t) => {
  const plain = worldOf(t);
  plain.submit('a');
  t.is(heldOf(plain, 'a').executionTimeoutMs, 600_000);
  const world = worldOf(t, {}, { executionTimeoutMs: 30_000 });
  world.submit('own', { policy: { executionTimeoutMs: 5_000 } });
  t.is(heldOf(world, 'own').executionTimeoutMs, 5_000);
  end(world, 'own');
  world.submit('next');
  t.is(heldOf(world, 'next').executionTimeoutMs, 30_000);
});

for (const restarts of [false, true]) {
  test(`a retried job keeps its policy${restarts ? ', also after a restart' : ''}`, (t) => {
    const world = worldOf(t);
    world.submit('low', { policy: { lowPriority: true, executionTimeoutMs: 7_000 } });
    end(world, 'low', AttemptOutcome.TIMED_OUT);
    world.submit('busy');
    if (restarts) world.restart();
    t.false(world.change('retry', 'low') instanceof CapstanError);
    world.submit('normal');
    // Still behind every normal job, though it came before this one.
    end(world, 'busy');
    t.is(heldOf(world, 'normal').token, 1);
    end(world, 'normal');
    const again = heldOf(world, 'low');
    t.is(again.executionTimeoutMs, 7_000);
    t.true(again.token > 1, 'a lease of its own');
  });
}

test('whoever waits for jobs that are purged or cancelled learns so at once, wherever the job lay', (t) => {
  // A window of one: the second job of a priority is in the store alone.
  const world = worldOf(t, { windowSize: 1 }, { workersMin: 0, workersMax: 0 });
  const jobs = ['a', 'b', 'low-a', 'low-b'];
  for (const job of jobs) world.submit(job, { kind: 'RUNSYNC', policy: { lowPriority: job.startsWith('low') } });
  const waits = jobs.map((job) => world.wait(job, 90_000));
  const reader = world.waitForChunks('b', 10_000);
  t.deepEqual(
    waits.map((wait) => heard(world, wait)),
    [undefined, undefined, undefined, undefined],
  );
  t.is(world.purge(), 4);
  for (const wait of [...waits, reader]) t.is(heard(world, wait), JobState.CANCELLED);
  world.submit('c');
  world.submit('d');
  const waiting = world.wait('d', 90_000);
  t.false(world.change('cancel', 'd') instanceof CapstanError);
  t.is(heard(world, waiting), JobState.CANCELLED);
  t.is(heard(world, world.wait('c', 0)), JobState.IN_QUEUE);
});

test('the end of a ttl answers who reads the stream, and who waits for the job, with 404', (t) => {
  const world = worldOf(t);
  world.submit('a', { policy: { ttlMs: 10_000 } });
  world.enter(heldOf(world, 'a'));
  world.pass(5_000);
  const reader = world.waitForChunks('a', 10_000);
  const waiter = world.wait('a', 300_000);
  world.pass(5_250);
  t.deepEqual([heard(world, reader), heard(world, waiter)], ['NOT_FOUND', 'NOT_FOUND']);
});

test('an Idempotency-Key is one for both submissions, outlives its job, and is forgotten after 24 hours', (t) => {
  const world = worldOf(t);
  const idempotencyKey = 'order';
  world.submit('first', { idempotencyKey, policy: { lowPriority: true } });
  t.like(world.submit('sync-second', { kind: 'RUNSYNC', idempotencyKey }), { id: 'first', state: JobState.IN_QUEUE });
  end(world, 'first');
  t.like(world.submit('third', { idempotencyKey }), { id: 'first', state: JobState.COMPLETED });
  world.pass(1_900_000);
  const late = world.submit('fourth', { idempotencyKey });
  t.true(late instanceof CapstanError && late.code === 'IDEMPOTENCY_EXPIRED', 'its result is not kept any more');
  world.pass(DAY - 1_900_000 - 1);
  t.true(world.submit('fifth', { idempotencyKey }) instanceof CapstanError);
  world.pass(1);
  t.like(world.submit('sixth', { idempotencyKey }), { id: 'sixth' });
});

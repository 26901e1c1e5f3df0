/** What becomes of a lease, in the core alone (nodes.proto, Dispatch to AttemptAck). */
import test from 'ava';

import { PROGRESS_MS, TIMED_OUT_GRACE_MS } from '../../agent/core/attempts.ts';
import { KEPT_CHUNKS, READER_LAPSE_MS } from '../../agent/core/chunks.ts';
import { ACCOUNT_BYTES, crowdedOut, isCrowded } from '../../agent/core/held.ts';
import { attemptRefs } from '../../agent/core/report.ts';
import { WorkerSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { release, World } from './core-world.ts';
import { dispatchOf } from './fake-scheduler.ts';
import { KEY, ready, dispatch, enter, end, told, describe, FORGED } from './attempt-world.ts';

test('a lease runs, starts, ends, and is forgotten when acknowledged', (t) => {
  const world = ready();
  dispatch(world);
  t.deepEqual(attemptRefs(world.image, world.now), [{ jobId: 'j1', token: 1, workerId: 'w1', started: false, startedAgoMs: 0 }]);
  enter(world);
  world.pass(30);
  t.like(attemptRefs(world.image, world.now)[0], { started: true, startedAgoMs: 30 });
  end(world);
  world.pass(10);
  t.deepEqual(told(world), ['started', 'ended COMPLETED']);
  t.like(world.reports[1], { value: { executionMs: 7, agoMs: 0, started: true, chunks: 0, error: '' } });
  t.is(attemptRefs(world.image, world.now).length, 1);
  world.feed({ kind: 'ack', ack: { jobId: 'j1', token: 1 } });
  t.is(attemptRefs(world.image, world.now).length, 0);
});

test('the same lease twice is one attempt', (t) => {
  const world = ready();
  dispatch(world);
  dispatch(world);
  enter(world);
  dispatch(world);
  end(world);
  dispatch(world);
  t.deepEqual(told(world), ['started', 'ended COMPLETED']);
});

test('over capacity, unknown worker, not ready: refused', (t) => {
  const world = ready({ maxConcurrency: 2 });
  dispatch(world, { jobId: 'a' });
  dispatch(world, { jobId: 'b' });
  dispatch(world, { jobId: 'c' });
  dispatch(world, { jobId: 'd', workerId: 'w9' });
  world.exit('w1');
  dispatch(world, { jobId: 'e' });
  const refusals = world.reports.filter(({ $case }) => $case === 'refused').map(describe);
  t.deepEqual(refusals, ['refused OVER_CAPACITY', 'refused UNKNOWN_WORKER', 'refused NOT_READY']);
});

test('a newer lease of the same job stops the older attempt; an older one is refused', (t) => {
  const world = ready({ maxConcurrency: 2 });
  dispatch(world, { token: 3 });
  enter(world, 'j1#3');
  dispatch(world, { token: 2 });
  const effects = world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'j1', token: 4 }) });
  t.true(effects.some((effect) => effect.kind === 'cancel' && effect.key === 'j1#3'));
  t.true(effects.some((effect) => effect.kind === 'run' && effect.key === 'j1#4'));
  world.feed({ kind: 'handler-ended', key: 'j1#3', result: { kind: 'stopped', ms: 1 } });
  t.deepEqual(told(world), ['started', 'refused STOPPED', 'ended STOPPED']);
});

test("executionTimeout runs from the handler's start, and ends as TIMED_OUT", (t) => {
  const world = ready();
  dispatch(world);
  world.pass(60_000);
  enter(world);
  world.pass(4_999);
  t.deepEqual(told(world), ['started']);
  world.pass(1);
  t.is(world.image.attempts.get(KEY)?.stop, 'timed-out');
  world.feed({ kind: 'handler-ended', key: KEY, result: { kind: 'stopped', ms: 5_003 } });
  t.like(world.reports.at(-1), { value: { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', error: 'executionTimeout exceeded', executionMs: 5_003 } });
});

test('a handler that goes on after its executionTimeout is final all the same, and holds its slot until it is gone', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  world.pass(5_000 + TIMED_OUT_GRACE_MS);
  t.like(world.reports.at(-1), { $case: 'ended', value: { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', slotHeld: true } });
  const reports = world.reports.length;
  world.feed({ kind: 'ack', ack: { jobId: 'j1', token: 1 } });
  t.true(world.image.attempts.has(KEY), 'it is still there, for the next Hello');
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'j2' }) });
  t.is(told(world).at(-1), 'refused OVER_CAPACITY');
  world.feed({ kind: 'handler-ended', key: KEY, result: { kind: 'returned', output: Buffer.from('1'), ms: 9_000 } });
  t.is(world.reports.length, reports + 2);
  t.like(world.reports.at(-1), { $case: 'ended', value: { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', slotHeld: false } });
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'j3' }) });
  t.true(world.ran.has('j3#1'));
  world.feed({ kind: 'ack', ack: { jobId: 'j1', token: 1 } });
  t.false(world.image.attempts.has(KEY));
});

test('the slot of a handler that goes on after its executionTimeout is free when its worker dies, told once a session is there', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  world.pass(5_000 + TIMED_OUT_GRACE_MS);
  world.feed({ kind: 'ack', ack: { jobId: 'j1', token: 1 } });
  world.feed({ kind: 'disconnected' });
  world.exit('w1', true);
  const from = world.reports.length;
  world.feed({ kind: 'welcome' });
  const ended = world.reports.slice(from).filter(({ $case }) => $case === 'ended');
  t.like(ended, [{ value: { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', slotHeld: false } }]);
  world.feed({ kind: 'ack', ack: { jobId: 'j1', token: 1 } });
  t.is(world.image.attempts.size, 0);
});

test('a result that came in the same moment as the time-out is late', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  world.pass(5_000);
  end(world);
  t.deepEqual(told(world), ['started', 'ended TIMED_OUT']);
});

test('a stop before the start is a refusal, after it an end', (t) => {
  const stop = { kind: 'stop', stop: { jobId: 'j1', token: 1, reason: 'STOP_REASON_CANCELLED' } } as const;
  const before = ready();
  dispatch(before, { input: { body: { $case: 'blob', value: { id: 'b', size: 9 } } } });
  before.feed(stop);
  t.deepEqual(told(before), ['refused STOPPED']);
  const handed = ready();
  dispatch(handed);
  handed.feed(stop);
  handed.feed({ kind: 'handler-ended', key: KEY, result: { kind: 'stopped', ms: 0 } });
  t.deepEqual(told(handed), ['refused STOPPED']);
  const running = ready();
  dispatch(running);
  enter(running);
  running.feed(stop);
  running.feed(stop);
  running.feed({ kind: 'handler-ended', key: KEY, result: { kind: 'stopped', ms: 3 } });
  t.deepEqual(told(running), ['started', 'ended STOPPED']);
  const unknown = ready();
  unknown.feed(stop);
  t.deepEqual(told(unknown), ['refused STOPPED']);
});

test('a recalled attempt is returned if its handler was not entered, and goes on otherwise', (t) => {
  const world = ready({ maxConcurrency: 3 });
  dispatch(world);
  enter(world);
  dispatch(world, { jobId: 'j2' });
  dispatch(world, { jobId: 'j3', input: { body: { $case: 'blob', value: { id: 'b', size: 9 } } } });
  for (const jobId of ['j1', 'j2', 'j3', 'unknown']) world.feed({ kind: 'recall', recall: { jobId, token: 1 } });
  t.deepEqual(told(world), ['started', 'refused STOPPED', 'refused STOPPED']);
  t.deepEqual([...(world.image.workers.get('w1')?.attempts ?? [])], [KEY]);
});

test('a worker that dies loses its attempts, with how it died', (t) => {
  const world = ready({ maxConcurrency: 2 });
  dispatch(world);
  enter(world);
  dispatch(world, { jobId: 'j2' });
  world.exit('w1', false, 'killed by SIGKILL');
  t.deepEqual(told(world), ['started', 'ended WORKER_LOST', 'ended WORKER_LOST']);
  t.like(world.reports[1], { value: { error: 'killed by SIGKILL', started: true } });
  t.like(world.reports[2], { value: { started: false } });
});

test('the neighbours of a hard stop are given back, also after their start', (t) => {
  for (const how of ['reloading', 'exited'] as const) {
    const world = ready({ maxConcurrency: 2 });
    dispatch(world);
    enter(world);
    dispatch(world, { jobId: 'j2' });
    enter(world, 'j2#1');
    world.feed({ kind: 'stop', stop: { jobId: 'j1', token: 1, reason: 'STOP_REASON_CANCELLED' } });
    if (how === 'exited') world.exit('w1', true);
    else world.feed({ kind: 'reloading', workerId: 'w1', start: 1 });
    t.deepEqual(told(world), ['started', 'started', 'ended STOPPED', 'refused NEIGHBOUR_STOPPED']);
  }
});

test('a worker that a known job ended gives its neighbours back, and is started again at once', (t) => {
  const world = ready({ maxConcurrency: 3 });
  for (const jobId of ['j1', 'j2', 'j3']) dispatch(world, { jobId });
  enter(world);
  enter(world, 'j2#1');
  world.exit('w1', false, 'exit code 1', 'j2#1');
  t.deepEqual(told(world), ['started', 'started', 'refused NEIGHBOUR_STOPPED', 'ended WORKER_LOST', 'refused NEIGHBOUR_STOPPED']);
  t.like(world.reports[3], { value: { jobId: 'j2', error: 'exit code 1', started: true, suspected: false } });
  t.like(world.image.workers.get('w1'), { phase: 'artifact', failures: 0 });
});

test('a worker that one of several jobs ended suspects those that ran, and is started again at once', (t) => {
  const world = ready({ maxConcurrency: 3 });
  for (const jobId of ['j1', 'j2', 'j3']) dispatch(world, { jobId });
  enter(world);
  enter(world, 'j2#1');
  world.exit('w1', false, 'killed by SIGSEGV');
  const ends = world.reports.flatMap((report) => (report.$case === 'ended' ? [[report.value.jobId, report.value.suspected]] : []));
  t.deepEqual(ends, [
    ['j1', true],
    ['j2', true],
    ['j3', false],
  ]);
  t.like(world.image.workers.get('w1'), { phase: 'artifact', failures: 0 });
});

test('a worker whose account lost its reader suspects also a job that ran alone, and is started again at once', (t) => {
  const world = ready({ maxConcurrency: 2 });
  for (const jobId of ['j1', 'j2']) dispatch(world, { jobId });
  enter(world);
  world.feed({ kind: 'exited', workerId: 'w1', start: 1, detail: 'no reader', hardStop: false, isUnread: true });
  const ends = world.reports.flatMap((report) => (report.$case === 'ended' ? [[report.value.jobId, report.value.suspected]] : []));
  t.deepEqual(ends, [
    ['j1', true],
    ['j2', false],
  ]);
  t.like(world.image.workers.get('w1'), { phase: 'artifact', failures: 0 });
});

test('a worker that dies without a job waits before its next start', (t) => {
  const world = ready();
  world.exit('w1');
  t.like(world.image.workers.get('w1'), { phase: 'backoff', failures: 1, reason: 'WORKER_DIED' });
});

test('a worker that the agent kills suspects nobody', (t) => {
  const world = ready({ maxConcurrency: 2 });
  for (const jobId of ['j1', 'j2']) {
    dispatch(world, { jobId });
    enter(world, `${jobId}#1`);
  }
  world.feed({ kind: 'close-now' });
  world.exit('w1', false, 'the worker was killed');
  t.deepEqual(
    world.reports.flatMap((report) => (report.$case === 'ended' ? [report.value.suspected] : [])),
    [false, false],
  );
});

test('an input that cannot be fetched is refused; an attempt without input, too', (t) => {
  const world = ready({ maxConcurrency: 2 });
  dispatch(world, { input: { body: { $case: 'blob', value: { id: 'b', size: 9 } } } });
  world.feed({ kind: 'input-failed', key: KEY, isMissing: false, detail: 'gone' });
  dispatch(world, { jobId: 'j2', input: undefined });
  dispatch(world, { jobId: 'j3', input: { body: { $case: 'blob', value: { id: 'c', size: 9 } } } });
  world.feed({ kind: 'input-failed', key: 'j3#1', isMissing: true, detail: 'no such blob' });
  t.deepEqual(told(world), ['refused INPUT_UNAVAILABLE', 'refused INPUT_UNAVAILABLE', 'refused INPUT_MISSING']);
  t.is(world.image.workers.get('w1')?.attempts.size, 0);
});

test('a large output is stored before its end is told, and frees its slot before that', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  world.feed({ kind: 'handler-ended', key: KEY, result: { kind: 'returned', output: Buffer.alloc(64 * 1024 + 1), ms: 1 } });
  t.deepEqual(told(world), ['started']);
  dispatch(world, { jobId: 'j2' });
  t.is(world.host('w1')?.tasks.has('j2#1'), true);
  world.feed({ kind: 'output-stored', key: KEY, output: { blob: { id: 'b', size: 65_537 } } });
  t.like(world.reports.at(-1), { value: { outcome: 'ATTEMPT_OUTCOME_COMPLETED', output: { body: { $case: 'blob' } } } });
});

test('an output that the store refuses fails the job', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  world.feed({ kind: 'handler-ended', key: KEY, result: { kind: 'returned', output: Buffer.alloc(70_000), ms: 1 } });
  world.feed({ kind: 'output-refused', key: KEY, detail: 'too large' });
  t.like(world.reports.at(-1), { value: { outcome: 'ATTEMPT_OUTCOME_FAILED', error: 'storing the result failed: too large' } });
});

test('a new session is told everything that may be missing, in order', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  for (const text of ['0', '1', '2']) world.feed({ kind: 'chunk', key: KEY, data: Buffer.from(text) });
  world.feed({ kind: 'drained', drained: { jobId: 'j1', token: 1, nextIndex: 1 } });
  world.feed({ kind: 'disconnected' });
  world.feed({ kind: 'chunk', key: KEY, data: Buffer.from('3') });
  world.feed({ kind: 'progress', key: KEY, data: Buffer.from('"half"') });
  const before = world.reports.length;
  world.feed({ kind: 'welcome' });
  t.deepEqual(told(world).slice(before), ['started', 'chunk 1', 'chunk 2', 'chunk 3', 'progress']);
  end(world);
  world.feed({ kind: 'disconnected' });
  const ended = world.reports.length;
  world.pass(40);
  world.feed({ kind: 'welcome' });
  t.deepEqual(told(world).slice(ended), ['started', 'chunk 1', 'chunk 2', 'chunk 3', 'ended COMPLETED']);
  t.like(world.reports.at(-1), { value: { agoMs: 40, chunks: 4 } });
});

test('a large chunk holds back what comes after it', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  world.feed({ kind: 'chunk', key: KEY, data: Buffer.alloc(70_000) });
  world.feed({ kind: 'chunk', key: KEY, data: Buffer.from('1') });
  end(world);
  t.deepEqual(told(world), ['started']);
  world.feed({ kind: 'chunk-stored', key: KEY, index: 0, data: { blob: { id: 'c', size: 70_000 } } });
  t.deepEqual(told(world), ['started', 'chunk 0', 'chunk 1', 'ended COMPLETED']);
});

test('an unread stream never stops its generator; a slow reader does, until it lapses', (t) => {
  const world = ready();
  dispatch(world, { executionTimeoutMs: 0 });
  enter(world);
  const yieldChunks = (count: number): void => {
    for (let sent = 0; sent < count; sent += 1) world.feed({ kind: 'chunk', key: KEY, data: Buffer.from('1') });
  };
  yieldChunks(KEPT_CHUNKS * 2);
  t.is(world.credits.get(KEY), KEPT_CHUNKS * 2);
  t.is(world.image.attempts.get(KEY)?.chunks?.kept.length, KEPT_CHUNKS);
  // Somebody begins to read: from now on the generator waits for them.
  world.feed({ kind: 'drained', drained: { jobId: 'j1', token: 1, nextIndex: KEPT_CHUNKS + 10 } });
  yieldChunks(20);
  t.is(world.credits.get(KEY), KEPT_CHUNKS * 2 + 10);
  world.feed({ kind: 'drained', drained: { jobId: 'j1', token: 1, nextIndex: KEPT_CHUNKS + 15 } });
  t.is(world.credits.get(KEY), KEPT_CHUNKS * 2 + 10);
  world.feed({ kind: 'drained', drained: { jobId: 'j1', token: 1, nextIndex: KEPT_CHUNKS + 30 } });
  t.is(world.credits.get(KEY), KEPT_CHUNKS * 2 + 20);
  yieldChunks(20);
  t.is(world.credits.get(KEY), KEPT_CHUNKS * 2 + 30);
  world.pass(READER_LAPSE_MS);
  t.is(world.credits.get(KEY), KEPT_CHUNKS * 2 + 40);
});

test('without a session a generator waits when its log is full', (t) => {
  const world = ready();
  dispatch(world, { executionTimeoutMs: 0 });
  enter(world);
  world.feed({ kind: 'disconnected' });
  for (let sent = 0; sent < KEPT_CHUNKS + 5; sent += 1) world.feed({ kind: 'chunk', key: KEY, data: Buffer.from('1') });
  t.is(world.credits.get(KEY), KEPT_CHUNKS);
  world.feed({ kind: 'welcome' });
  t.is(world.credits.get(KEY), KEPT_CHUNKS + 5);
  t.is(world.sent.get(KEY), KEPT_CHUNKS + 5);
});

for (const [name, forge] of FORGED) {
  test(`a worker that reports ${name} of another one's attempt is ended, and the attempt goes on`, (t) => {
    const world = new World();
    world.feed({ kind: 'welcome' });
    const workers = ['w1', 'w2'].map((workerId) => WorkerSpec.fromPartial({ workerId, releaseId: 'r1' }));
    world.feed({ kind: 'desired', desired: { epoch: 1, workers, releases: [release()] } });
    world.settle();
    dispatch(world);
    enter(world);
    const before = told(world).length;
    forge(world, { workerId: 'w2', start: 1, key: KEY });
    t.deepEqual(told(world).slice(before), []);
    t.deepEqual(world.violations, [`the worker reported on the attempt ${KEY}, which is not its own`]);
    t.is(world.host('w2')?.asked, 'force');
    t.is(world.host('w1')?.asked, 'no');
    end(world);
    t.is(told(world).at(-1), 'ended COMPLETED');
  });

  test(`${name} of an earlier start of the worker changes nothing of the present one`, (t) => {
    const world = ready();
    world.exit('w1');
    world.pass(2_000);
    world.settle();
    dispatch(world);
    enter(world);
    const before = told(world).length;
    forge(world, { workerId: 'w1', start: 1, key: KEY });
    t.deepEqual(told(world).slice(before), []);
    t.is(world.host('w1')?.asked, 'no');
  });
}

test('of progress that comes faster than it is reported, the latest counts', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  const reported = (): string[] =>
    world.reports.flatMap((event) =>
      event.$case === 'progress' && event.value.data?.body?.$case === 'inline' ? [event.value.data.body.value.toString()] : [],
    );
  for (const value of ['1', '2', '3']) world.feed({ kind: 'progress', key: KEY, data: Buffer.from(value) });
  t.deepEqual(reported(), ['1']);
  world.pass(PROGRESS_MS);
  t.deepEqual(reported(), ['1', '3']);
  world.feed({ kind: 'progress', key: KEY, data: Buffer.from('4') });
  end(world);
  t.deepEqual(reported(), ['1', '3', '4']);
  world.pass(1_000);
  t.is(told(world).at(-1), 'ended COMPLETED');
});

test('while the session is congested chunks wait, in bounds, and an end takes its own along', (t) => {
  const world = ready();
  dispatch(world);
  enter(world);
  world.feed({ kind: 'congested', is: true });
  const chunks = (): string[] => told(world).filter((said) => said.startsWith('chunk'));
  for (let sent = 0; sent < KEPT_CHUNKS + 5; sent += 1) world.feed({ kind: 'chunk', key: KEY, data: Buffer.from('1') });
  t.deepEqual(chunks(), []);
  t.is(world.credits.get(KEY), KEPT_CHUNKS);
  world.feed({ kind: 'congested', is: false });
  t.is(chunks().length, KEPT_CHUNKS + 5);
  world.feed({ kind: 'congested', is: true });
  world.feed({ kind: 'chunk', key: KEY, data: Buffer.from('1') });
  end(world);
  t.deepEqual(told(world).slice(-2), [`chunk ${KEPT_CHUNKS + 5}`, 'ended COMPLETED']);
});

test('the attempts of an account hold a part of the memory together, and no credit is granted beyond it', (t) => {
  const world = new World();
  world.feed({ kind: 'welcome' });
  const workers = [WorkerSpec.fromPartial({ workerId: 'w1', releaseId: 'r1' })];
  world.feed({ kind: 'desired', desired: { epoch: 1, workers, releases: [release({ maxConcurrency: 50, accountId: 'a' })] } });
  world.settle();
  const bytes = 64 * 1024;
  const keys = Array.from({ length: 50 }, (_, at) => `j${at}#1`);
  for (const key of keys) {
    world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: key.replace('#1', '') }) });
    enter(world, key);
    world.feed({ kind: 'chunk', key, data: Buffer.alloc(bytes) });
    // Somebody reads it, and stops.
    world.feed({ kind: 'drained', drained: { jobId: key.replace('#1', ''), token: 1, nextIndex: 1 } });
  }
  t.deepEqual([...crowdedOut(world.image)], []);
  let rounds = 0;
  while (!isCrowded(world.image, 'a')) {
    for (const key of keys) world.feed({ kind: 'chunk', key, data: Buffer.alloc(bytes) });
    rounds += 1;
  }
  t.true(rounds <= Math.ceil(ACCOUNT_BYTES / bytes / keys.length) + 1, `${rounds} rounds`);
  const granted = world.credits.get(keys[0] ?? '');
  for (let more = 0; more < 5; more += 1) for (const key of keys) world.feed({ kind: 'chunk', key, data: Buffer.alloc(bytes) });
  t.is(world.credits.get(keys[0] ?? ''), granted);
  t.deepEqual([...crowdedOut(world.image)], ['a']);
  // The readers go on.
  for (const key of keys) world.feed({ kind: 'drained', drained: { jobId: key.replace('#1', ''), token: 1, nextIndex: 1_000 } });
  t.deepEqual([...crowdedOut(world.image)], []);
  t.true((world.credits.get(keys[0] ?? '') ?? 0) > (granted ?? 0));
});

/** An owner that may have lost its cell to another process runs no effect before a batch has confirmed its term. */
import test from 'ava';

import { StaleTermError } from '../../../scheduler/core/ports/store.ts';
import { loopOfTest, OK, telling, writing, writingMany } from './loop-of-test.ts';

const FENCE_MS = 3_000;

/** A loop whose term a first batch has confirmed at time 0. */
function confirmedLoop() {
  const world = loopOfTest(FENCE_MS);
  world.turn(writing(0));
  world.commit();
  world.performed.length = 0;
  return world;
}

test('the take-over confirms nothing: the first effects leave after a first batch, which may be empty', (t) => {
  const { turn, commit, batches, performed, loop } = loopOfTest(FENCE_MS);
  turn(telling('read'));
  t.deepEqual(performed, []);
  t.false(loop.confirmed);
  t.deepEqual(
    batches.map(({ seqs }) => seqs),
    [[]],
  );
  commit();
  t.deepEqual(performed, ['read']);
  t.true(loop.confirmed);
  t.true(loop.quiet);
});

test('an effect without operations leaves at once while the last confirmed batch was sent less than the bound ago', (t) => {
  const { turn, batches, performed, pause } = confirmedLoop();
  pause(FENCE_MS - 1);
  turn(telling('read'));
  t.deepEqual(performed, ['read']);
  t.is(batches.length, 0);
});

test('past the bound it is held until an empty batch is confirmed, in order with what came after it', (t) => {
  const { turn, commit, batches, performed, pause, loop } = confirmedLoop();
  pause(FENCE_MS);
  t.false(loop.confirmed);
  turn(telling('first'));
  turn(telling('second'));
  t.deepEqual(performed, []);
  t.deepEqual(
    batches.map(({ seqs }) => seqs),
    [[]],
  );
  t.false(loop.quiet);
  commit();
  t.deepEqual(performed, ['first', 'second']);
});

test('past the bound it is dropped when the batch is refused: another scheduler has the cell', (t) => {
  const { turn, batches, performed, pause, failures, loop } = confirmedLoop();
  pause(FENCE_MS);
  turn(telling('stale'));
  batches.shift()?.completion.failed(new StaleTermError({ cell: 0, term: 1n }));
  turn(telling('later'));
  t.is(failures.length, 1);
  t.deepEqual(performed, []);
  t.true(loop.quiet);
});

test('the bound is counted from the sending: an answer that was received late confirms nothing', (t) => {
  const { turn, commit, batches, performed, pause } = confirmedLoop();
  turn(writing(1));
  // The process is paused with the answer in its socket, and meanwhile another scheduler takes the cell over.
  pause(FENCE_MS);
  commit();
  t.deepEqual(performed, []);
  t.deepEqual(
    batches.map(({ seqs }) => seqs),
    [[]],
  );
  turn(telling('beside'));
  commit();
  t.deepEqual(performed, ['after 1', 'beside']);
});

test('of two batches in flight, the second confirms the term for the effects of the first', (t) => {
  const { turn, commit, batches, performed, pause } = confirmedLoop();
  turn(writing(1));
  pause(1_000);
  turn(...writingMany(2, 12));
  t.is(batches.length, 2);
  pause(2_000);
  commit();
  t.deepEqual(performed, []);
  commit();
  t.deepEqual(performed.slice(0, 2), ['after 1', 'after 2']);
  t.is(performed.length, 13);
  t.is(batches.length, 0);
});

test('the bound is looked at before each effect: a pause between two of them holds the second', (t) => {
  const { turn, commit, batches, performed, pause, interrupt } = confirmedLoop();
  turn(writing(1), writing(2), telling('third'));
  interrupt('after 1', () => pause(FENCE_MS));
  commit();
  t.deepEqual(performed, ['after 1']);
  t.deepEqual(
    batches.map(({ seqs }) => seqs),
    [[]],
  );
  commit();
  t.deepEqual(performed, ['after 1', 'after 2', 'third']);
});

test('what waits for a confirmed term beside effects is run with them, and never once the loop has stopped', (t) => {
  const { loop, commit, callbacks, pause, performed } = confirmedLoop();
  loop.whenConfirmed(() => performed.push('at once'));
  t.deepEqual(performed, ['at once']);
  pause(FENCE_MS);
  loop.whenConfirmed(() => performed.push('later'));
  callbacks.drain();
  t.deepEqual(performed, ['at once']);
  commit();
  t.deepEqual(performed, ['at once', 'later']);
  loop.stop();
  loop.whenConfirmed(() => performed.push('never'));
  t.deepEqual(performed, ['at once', 'later']);
});

test('an idle loop confirms its term by empty batches, a busy one by its own', (t) => {
  const { turn, commit, batches, renewals, pass, loop } = confirmedLoop();
  for (let i = 0; i < 8; i++) {
    pass(FENCE_MS / 4);
    t.deepEqual(
      batches.map(({ seqs }) => seqs),
      [[]],
    );
    commit();
    t.true(loop.confirmed);
  }
  t.is(renewals.length, 8);
  turn(writing(1));
  pass(FENCE_MS / 4);
  t.is(batches.length, 1);
  commit();
  t.is(renewals.length, 8);
});

test('a loop that is closed or stopped renews nothing', (t) => {
  for (const end of ['close', 'stop'] as const) {
    const { loop, batches, pass, timers } = confirmedLoop();
    if (end === 'close') loop.close(() => undefined);
    else loop.stop();
    pass(FENCE_MS);
    t.is(batches.length, 0);
    t.is(timers.size, 0);
  }
});

test('a cell that no other process can take over needs no confirmation, and is never renewed', (t) => {
  const { turn, batches, performed, pass, loop } = loopOfTest(null);
  pass(1_000_000);
  turn(telling('read'));
  t.deepEqual(performed, ['read']);
  t.true(loop.confirmed);
  t.is(batches.length, 0);
});

test('closing past the bound waits for the batch that confirms what is held', (t) => {
  const { turn, commit, loop, pause, performed } = confirmedLoop();
  pause(FENCE_MS);
  turn(telling('held'));
  let isClosed = false;
  loop.close(() => {
    isClosed = true;
  });
  t.false(isClosed);
  commit([OK]);
  t.true(isClosed);
  t.deepEqual(performed, ['held']);
});

/** The commit loop by itself: a store that answers when the test says so, a core that decides what the test says. */
import test from 'ava';

import { loopOfTest, OK, telling, writing, writingMany } from './loop-of-test.ts';

test('what one turn decides is one batch, and its effects leave once that is durable', (t) => {
  const { turn, commit, batches, performed, loop } = loopOfTest();
  turn(writing(1), telling('beside'), writing(2));
  t.deepEqual(
    batches.map(({ seqs }) => seqs),
    [[1, 2]],
  );
  t.deepEqual(performed, []);
  t.false(loop.quiet);
  commit();
  t.deepEqual(performed, ['after 1', 'beside', 'after 2']);
  t.true(loop.quiet);
});

test('an effect without operations waits for the batch in flight, which may hold what it tells', (t) => {
  const { turn, commit, performed } = loopOfTest();
  turn(writing(1));
  turn(telling('later'));
  t.deepEqual(performed, []);
  commit();
  t.deepEqual(performed, ['after 1', 'later']);
});

test('a second batch leaves once it is worth a commit of its own, a third never', (t) => {
  const { turn, commit, batches, performed } = loopOfTest();
  turn(writing(1));
  turn(...writingMany(2, 11));
  t.is(batches.length, 1);
  turn(writing(13));
  t.is(batches.length, 2);
  turn(...writingMany(14, 50));
  t.is(batches.length, 2);
  commit();
  t.deepEqual(performed, ['after 1']);
  t.deepEqual(
    batches.map(({ seqs }) => seqs.length),
    [12, 50],
  );
  commit();
  commit();
  t.deepEqual(
    performed,
    Array.from({ length: 63 }, (_, i) => `after ${i + 1}`),
  );
});

test('a refused operation takes its effects with it, and the core decides anew', (t) => {
  const { turn, commit, batches, performed, refused, decisions } = loopOfTest();
  turn(writing(1), writing(2));
  decisions.push(writing(3));
  commit([{ kind: 'gone' }, OK]);
  t.deepEqual(refused, [1]);
  t.deepEqual(performed, ['after 2']);
  t.deepEqual(
    batches.map(({ seqs }) => seqs),
    [[3]],
  );
});

test('a commit that fails ends the loop: nothing leaves any more, and it is said once', (t) => {
  const { turn, batches, performed, failures, loop } = loopOfTest();
  turn(writing(1));
  turn(...writingMany(2, 12));
  const [first, second] = batches;
  first?.completion.failed(new Error('full'));
  second?.completion.done(second.seqs.map(() => OK));
  turn(writing(20));
  t.is(failures.length, 1);
  t.is(batches.length, 2);
  t.deepEqual(performed, []);
  loop.handle({ kind: 'tick' });
  t.is(batches.length, 2);
});

test('closing waits for what is gathered and in flight', (t) => {
  const { turn, commit, loop, performed } = loopOfTest();
  turn(writing(1));
  turn(writing(2));
  let isClosed = false;
  loop.close(() => {
    isClosed = true;
  });
  commit();
  t.false(isClosed);
  commit();
  t.true(isClosed);
  t.deepEqual(performed, ['after 1', 'after 2']);
});

test('closing ends when a commit fails meanwhile', (t) => {
  const { turn, batches, loop } = loopOfTest();
  turn(writing(1));
  let isClosed = false;
  loop.close(() => {
    isClosed = true;
  });
  batches[0]?.completion.failed(new Error('full'));
  t.true(isClosed);
});

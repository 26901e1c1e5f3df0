/** What a turn says leaves in order, whole, and in messages within bounds. */
import { fc, testProp } from '@fast-check/ava';

import { BatchWriter } from '../../lib/batches.ts';

const LIMIT = 1_000;
const FRAMING = 64;

const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ add: fc.integer({ min: 0, max: LIMIT + 200 }) }) },
  { weight: 1, arbitrary: fc.constant('turn ends' as const) },
  { weight: 1, arbitrary: fc.constant('flush' as const) },
);

testProp('items leave once and in order, and a message of several keeps to its limit', [fc.array(step, { maxLength: 60 })], (t, steps) => {
  const messages: { readonly number: number; readonly bytes: number }[][] = [];
  let turns: (() => void)[] = [];
  const endTurn = (): void => {
    const ended = turns;
    turns = [];
    for (const end of ended) end();
  };
  const writer = new BatchWriter<{ number: number; bytes: number }>((items) => messages.push(items), {
    bytes: LIMIT,
    later: (end) => turns.push(end),
  });
  let added = 0;
  for (const each of steps) {
    if (each === 'turn ends') {
      endTurn();
      t.is(messages.flat().length, added, 'a turn leaves nothing behind');
    } else if (each === 'flush') writer.flush();
    else writer.add({ number: added++, bytes: each.add }, each.add);
    t.true(turns.length <= 1, 'one turn has one end');
  }
  endTurn();
  t.deepEqual(
    messages.flat().map(({ number }) => number),
    Array.from({ length: added }, (_, number) => number),
  );
  for (const items of messages) {
    const bytes = items.reduce((sum, item) => sum + item.bytes, FRAMING * (items.length - 1));
    t.true(items.length === 1 || bytes <= LIMIT);
    t.true(items.length > 0);
  }
});

testProp('what is cleared never leaves', [fc.array(fc.nat(300), { minLength: 1, maxLength: 20 })], (t, sizes) => {
  const written: number[] = [];
  let end = (): void => t.fail('no turn was begun');
  const writer = new BatchWriter<number>((items) => written.push(...items), { bytes: 1_000_000, later: (ending) => (end = ending) });
  for (const [index, size] of sizes.entries()) writer.add(index, size);
  writer.clear();
  end();
  t.deepEqual(written, []);
  writer.add(-1, 0);
  end();
  t.deepEqual(written, [-1]);
});

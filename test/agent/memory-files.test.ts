/** Files that sandboxes keep in memory, where no control group charges them to a worker. */
import test from 'ava';

import { MemoryFiles } from '../../agent/sandbox/bwrap/memory-files.ts';

test('the worker with most is ended while all together have too much, and no other', (t) => {
  const used = new Map([
    [1, 10],
    [2, 60],
    [3, 20],
  ]);
  const files = new MemoryFiles({ allowance: 100, usedBy: (pid) => used.get(pid) ?? 0 });
  const ended: string[] = [];
  const watched = [...used.keys()].map((pid) => files.watch(pid, (reason) => ended.push(`${pid}: ${reason}`)));
  files.look();
  t.deepEqual(ended, []);
  t.deepEqual(
    watched.map(({ bytes }) => bytes()),
    [10, 60, 20],
  );
  used.set(1, 30);
  files.look();
  t.is(ended.length, 1);
  t.regex(ended[0] ?? '', /^2: its files in memory have .* more than those of any other worker/);
  watched[1]?.end();
  files.look();
  t.is(ended.length, 1);
  for (const { end } of watched) end();
});

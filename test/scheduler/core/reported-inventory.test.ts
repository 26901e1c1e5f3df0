/** What a node says of its packages: names that base images have, with short versions, and nothing else. */
import test from 'ava';

import { Inventory } from '../../../proto/gen/capstan/v1/nodes.ts';
import { reportedInventory } from '../../../scheduler/core/jobs/reported.ts';

test('packages of an inventory are those of base images, whatever a node reports', (t) => {
  const packages = Object.fromEntries([
    ['torch', '2.4.1+cu124'],
    ['numpy', `1.${'9'.repeat(5_000)}`],
    ['__proto__', '1'],
    ['requests', 'a text that every account would read'],
    ...Array.from({ length: 2_000 }, (_, index) => [`made-up-${index}`, '1'] as const),
  ]);
  const taken = reportedInventory(Inventory.fromPartial({ hostname: 'h', packages })).packages;
  t.deepEqual(
    Object.keys(taken).toSorted((a, b) => (a < b ? -1 : 1)),
    ['numpy', 'torch'],
  );
  t.is(taken['torch'], '2.4.1+cu124');
  t.is(taken['numpy']?.length, 64);
  t.is(Object.getPrototypeOf(taken), Object.prototype);
});

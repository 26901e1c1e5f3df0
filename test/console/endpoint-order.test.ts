/** The overview begins with endpoints that have problems; figures of the last hour put them in another order. */
import test from 'ava';

import { direction, figuresOf, inOrder, type Ranked } from '../../console/src/pages/endpoint-order.ts';

const NONE = { at: [], openSteps: 0, submitted: [], completed: [], failed: [], timedOut: [], delay: { p95: [] } };

function endpoint(name: string, reason: string | null, errorRate?: number): Ranked {
  return {
    row: {
      ...({ id: name, name, kind: 'QUEUE', environment: 'default' } as const),
      workers: { total: 0, max: 1 },
      queue: { inQueue: 0, inProgress: 0, reason, detail: null },
    },
    figures: { perMinute: 1, errorRate, p95Delay: undefined },
  };
}

const names = (rows: readonly Ranked[]): string[] => rows.map(({ row }) => row.name);

test('endpoints that wait or fail are first, and the others in the order of their names', (t) => {
  const rows = [endpoint('a', null), endpoint('c', null, 1), endpoint('b', 'PAUSED'), endpoint('d', null, 0.01)];
  t.deepEqual(names(inOrder(rows, '')), ['b', 'c', 'a', 'd']);
  t.deepEqual(names(inOrder(rows, 'constructor')), ['b', 'c', 'a', 'd'], 'anyone can write an address');
  t.deepEqual(names(inOrder(rows, '-errors')), ['c', 'd', 'a', 'b'], 'what is not known is last');
  t.deepEqual(names(inOrder(rows, 'errors')), ['d', 'c', 'a', 'b']);
  t.deepEqual(names(inOrder(rows, '-name')), ['d', 'c', 'b', 'a']);
});

test('a title leads from the highest to the lowest, and back to problems first', (t) => {
  t.deepEqual(direction('', 'errors'), { current: 'none', next: '-errors' });
  t.deepEqual(direction('-errors', 'errors'), { current: 'descending', next: 'errors' });
  t.deepEqual(direction('errors', 'errors'), { current: 'ascending', next: '' });
  t.deepEqual(direction('', 'name'), { current: 'none', next: 'name' });
});

test('without jobs that ended there is neither a rate of errors nor a delay', (t) => {
  t.deepEqual(figuresOf(NONE), { perMinute: 0, errorRate: undefined, p95Delay: undefined });
  const some = { ...NONE, submitted: [60, 60], completed: [2, 1], failed: [0, 1], timedOut: [1, 0], delay: { p95: [null, 20] } };
  t.deepEqual(figuresOf(some), { perMinute: 2, errorRate: 0.4, p95Delay: 20 });
});

/** Requests of load-balanced endpoints by route, until a gateway reports them. */
import test from 'ava';

import { RouteCounts } from '../../gateway/metrics/route-counts.ts';
import { HIGHEST_CLASS } from '../../lib/duration-classes.ts';

test('requests are counted by route, with errors apart from refusals, and are taken once', (t) => {
  const counts = new RouteCounts(() => true);
  for (const status of [200, 200, 404, 500, 503]) counts.answered('a', 'GET /x', status, 10);
  counts.answered('a', 'POST /y', 200, 10);
  counts.answered('b', 'GET /x', 200, 10);
  const [x, y, ...others] = counts.take((endpoint) => endpoint === 'a');
  t.like(x, { endpointId: 'a', route: 'GET /x', requests: 5, refused: 1, errors: 2, classCounts: [5] });
  t.like(y, { route: 'POST /y', requests: 1, refused: 0, errors: 0 });
  t.deepEqual(others, []);
  t.deepEqual(
    counts.take(() => true).map(({ endpointId }) => endpointId),
    ['b'],
  );
  t.deepEqual(
    counts.take(() => true),
    [],
  );
});

test('durations of no time and of no end have a class', (t) => {
  const counts = new RouteCounts(() => true);
  for (const ms of [0, -1, 5, Number.MAX_VALUE]) counts.answered('a', '', 200, ms);
  const [found] = counts.take(() => true);
  t.deepEqual([found?.classes.at(0), found?.classes.at(-1)], [0, HIGHEST_CLASS]);
  t.is(
    found?.classCounts.reduce((sum, count) => sum + count, 0),
    4,
  );
});

test('a removed endpoint goes with the first request of the next new one', (t) => {
  const known = new Set(['a']);
  const counts = new RouteCounts((endpoint) => known.has(endpoint));
  counts.answered('a', 'GET /x', 200, 10);
  known.clear();
  counts.answered('b', '', 200, 10);
  t.deepEqual(
    counts.take(() => true).map(({ endpointId }) => endpointId),
    ['b'],
  );
});

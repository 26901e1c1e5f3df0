/** The last hour of load-balanced endpoints by route, at one gateway. */
import test from 'ava';

import { RouteFigures } from '../../gateway/lb/route-figures.ts';

const MINUTE = 60_000;

test('requests are counted by route, with errors apart from refusals', (t) => {
  let now = 0;
  const figures = new RouteFigures({ exists: () => true, now: () => now });
  for (const status of [200, 200, 404, 500, 503]) figures.answered('a', 'GET /x', status, 10);
  figures.answered('a', 'POST /y', 200, 10);
  figures.answered('b', 'GET /x', 200, 10);
  now = 2 * MINUTE;
  const [x, y, ...others] = figures.of('a');
  t.like(x, { route: 'GET /x', requests: 5, refused: 1, errors: 2, perMinute: 2.5 });
  t.like(y, { route: 'POST /y', requests: 1, refused: 0, errors: 0 });
  t.deepEqual(others, []);
});

test('percentiles are at most 17 % off', (t) => {
  const figures = new RouteFigures({ exists: () => true, now: () => 0 });
  for (let n = 1; n <= 1_000; n++) figures.answered('a', '', 200, n);
  const found = figures.of('a');
  for (const [name, real] of [
    ['p50', 500],
    ['p95', 950],
    ['p99', 990],
  ] as const)
    t.deepEqual(
      found.map((figure) => Math.abs(figure[name] - real) / real <= 0.17),
      [true],
      name,
    );
});

test('an hour later they are gone, and a removed endpoint goes with the next new one', (t) => {
  let now = 0;
  const known = new Set(['a']);
  const figures = new RouteFigures({ exists: (id) => known.has(id), now: () => now });
  figures.answered('a', 'GET /x', 200, 10);
  now = 30 * MINUTE;
  figures.answered('a', 'GET /x', 200, 10);
  t.deepEqual(figures.of('a')[0]?.requestsByStep, [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
  now = 61 * MINUTE;
  t.is(figures.of('a')[0]?.requests, 1);
  now = 100 * MINUTE;
  t.deepEqual(figures.of('a'), []);
  known.clear();
  now = 101 * MINUTE;
  figures.answered('a', 'GET /x', 200, 10);
  t.is(figures.of('a').length, 1);
  figures.answered('b', '', 200, 10);
  t.deepEqual(figures.of('a'), []);
});

test('durations of no time and of no end are counted', (t) => {
  const figures = new RouteFigures({ exists: () => true, now: () => 0 });
  figures.answered('a', '', 200, 0);
  figures.answered('a', '', 200, Number.MAX_VALUE);
  t.is(figures.of('a')[0]?.requests, 2);
});

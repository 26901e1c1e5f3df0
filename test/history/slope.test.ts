import test from 'ava';

import { floorGrowth, lastHalf, slope } from './core/slope.ts';

const line = (of: (minute: number) => number): { minute: number; value: number }[] =>
  Array.from({ length: 61 }, (_, minute) => ({ minute, value: of(minute) }));

test('the slope of a straight line is its own', (t) => {
  t.is(slope(line((minute) => 200 + 0.5 * minute)), 0.5);
});

test('what wanders around a level has a slope near zero', (t) => {
  t.true(Math.abs(slope(line((minute) => 200 + (minute % 2 === 0 ? 3 : -3)))) < 0.01);
});

test('growth that ends in the first half does not count in the last', (t) => {
  const samples = line((minute) => 200 + Math.min(minute, 29));
  t.true(slope(samples) > 0.3);
  t.is(slope(lastHalf(samples)), 0);
});

test('nothing grows within one moment', (t) =>
  t.is(
    slope([
      { minute: 1, value: 1 },
      { minute: 1, value: 9 },
    ]),
    0,
  ));

test('the floor of a straight line grows as the line does', (t) => {
  t.is(floorGrowth(line((minute) => 200 + 0.5 * minute)), 0.5);
});

test('garbage that is collected every 17 minutes does not lift the floor, a leak below it does', (t) => {
  const saw = (minute: number): number => 100 + (minute % 17) * 0.4;
  t.true(Math.abs(slope(lastHalf(line(saw)))) > 0.01);
  t.is(floorGrowth(line(saw)), 0);
  t.true(floorGrowth(line((minute) => saw(minute) + 0.2 * minute)) > 0.1);
});

test('a series of no length does not grow', (t) => {
  t.is(floorGrowth([]), 0);
  t.is(floorGrowth([{ minute: 3, value: 7 }]), 0);
});

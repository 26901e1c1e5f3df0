/** Times of plots: the axis and the minutes to which a step leads. */
import test from 'ava';

import { marksWithin } from '../../console/src/ui/plot-marks.ts';
import { minutesOf, stepTime, timeLabels } from '../../console/src/ui/plot-times.ts';

const at = (iso: string): number => Date.parse(iso) / 1_000;

test('labels are in the language and the zone, with the date below the first time of a day', (t) => {
  const times = ['2026-11-28T22:30:00Z', '2026-11-28T22:45:00Z', '2026-11-28T23:00:00Z'].map(at);
  t.deepEqual(timeLabels(times, 900, { locale: 'de-DE', timeZone: 'Europe/Berlin' }), ['23:30\n28.11.', '23:45', '00:00\n29.11.']);
  t.deepEqual(timeLabels(times, 900, { locale: 'en-GB', timeZone: 'UTC' }), ['22:30\n28/11', '22:45', '23:00']);
  t.deepEqual(timeLabels(times, 30, { locale: 'de-DE', timeZone: 'Asia/Kolkata' })[0], '04:00:00\n29.11.');
  t.deepEqual(timeLabels(times, 86_400, { locale: 'de-DE', timeZone: 'UTC' }), ['28.11.', '28.11.', '28.11.']);
  t.is(stepTime(0, { locale: 'de-DE', timeZone: 'UTC' }), '01.01.70, 00:00:00');
});

test('a step leads to the whole minutes that it touches', (t) => {
  t.deepEqual(minutesOf(70_000, 10), { from: 60_000, to: 120_000 });
  t.deepEqual(minutesOf(110_000, 20), { from: 60_000, to: 180_000 });
  t.deepEqual(minutesOf(3_600_000, 3_600), { from: 3_600_000, to: 7_200_000 });
});

test('a step has the marks from its begin to before its end', (t) => {
  const marks = [9_999, 10_000, 19_999, 20_000].map((ms) => ({ at: ms, kind: 'deployment', label: String(ms) }) as const);
  t.is(marksWithin(marks, 10_000, 10), '10000; 19999');
  t.is(marksWithin(marks, 30_000, 10), '');
});

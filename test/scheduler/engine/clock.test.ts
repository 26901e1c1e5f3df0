/** What the scheduler makes of a system clock that is set (invariant 5). */
import test from 'ava';

import { SystemClock } from '../../../scheduler/engine/clock.ts';

const DAY = 86_400_000;

function clocks() {
  const at = { system: 20_000 * DAY, mono: 5 };
  const clock = new SystemClock(
    () => at.system,
    () => at.mono,
  );
  const pass = (ms: number): number => {
    at.system += ms;
    at.mono += ms;
    return clock.now().wall;
  };
  return { at, pass };
}

test('the wall clock is the system’s, and follows it forward', (t) => {
  const { at, pass } = clocks();
  t.is(pass(1_000), at.system);
  at.system += DAY;
  t.is(pass(1), at.system);
});

test('set back, it goes on without a step, and meets the system’s clock again', (t) => {
  const { at, pass } = clocks();
  const before = pass(1_000);
  at.system -= 3 * DAY;
  t.is(pass(0), before);
  const later = pass(100_000);
  t.true(later >= before + 95_000 && later <= before + 100_000, `${later - before} ms passed`);
  let last = later;
  for (let hour = 0; hour < 24 * 70; hour += 1) {
    const now = pass(3_600_000);
    t.true(now > last);
    last = now;
  }
  t.is(last, at.system);
});

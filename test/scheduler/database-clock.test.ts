/** The clock that all owners of a cell share: the database's, which neither runs backwards nor stops. */
import test from 'ava';

import { DatabaseClock } from '../../scheduler/store/postgres/database-clock.ts';

const HOUR = 3_600_000;
const START = 1_790_000_000_000;

function world() {
  const at = { host: START + HOUR, mono: 5_000 };
  return {
    at,
    clock: new DatabaseClock(
      () => at.host,
      () => at.mono,
    ),
  };
}

test('a host whose clock runs an hour fast shows the time of the database', (t) => {
  const { at, clock } = world();
  clock.measured(START);
  t.is(clock.now(), START);
  at.mono += 1_000;
  at.host += 2 * HOUR;
  t.is(clock.now(), START + 1_000, 'what happens to the host’s clock afterwards has no effect');
});

test('a database whose clock is set forward is followed; set back, it is waited for at a slower rate', (t) => {
  const { at, clock } = world();
  clock.measured(START);
  clock.measured(START + HOUR);
  t.is(clock.now(), START + HOUR);
  for (let i = 1; i <= 3; i++) {
    at.mono += 60_000;
    clock.measured(START + i * 60_000);
    t.is(clock.now(), START + HOUR + i * 57_000);
  }
});

test('times that a former owner wrote do not come again', (t) => {
  const { at, clock } = world();
  clock.measured(START);
  clock.atLeast(START + HOUR);
  t.is(clock.now(), START + HOUR);
  at.mono += 1_000;
  t.is(clock.now(), START + HOUR + 1_000, 'and it goes on');
  clock.atLeast(START);
  t.is(clock.now(), START + HOUR + 1_000);
});

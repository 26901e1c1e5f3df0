/** When parts are started, restarted and ended, as the supervisor's core decides it. */
import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import {
  FIRST_PAUSE_MS,
  FIRST_START_TRIES,
  HEALTHY_AFTER_MS,
  LONGEST_PAUSE_MS,
  newState,
  nextDeadline,
  START_LIMIT_MS,
  step,
  type Effect,
  type State,
} from '../../supervisor/core/restart.ts';

const GRACE_MS = 1000;
const rules = [
  { name: 'scheduler', needs: [], graceMs: GRACE_MS },
  { name: 'gateway', needs: ['scheduler'], graceMs: GRACE_MS },
  { name: 'agent', needs: ['scheduler'], graceMs: GRACE_MS },
];
const order = ['gateway', 'agent', 'scheduler'];

function begun(): State {
  const state = newState(rules, order);
  step(state, { type: 'begin' }, 0);
  return state;
}

function allReady(): State {
  const image = begun();
  for (const part of ['scheduler', 'gateway', 'agent']) step(image, { type: 'ready', part }, 0);
  return image;
}

const exited = (part: string, refusal: { code: string; message: string } | null = null) =>
  ({ type: 'exited', part, how: 'SIGKILL', refusal }) as const;
const does = (effects: readonly Effect[]): string[] =>
  effects.map((effect) =>
    [effect.type, 'part' in effect ? effect.part : '', 'signal' in effect ? effect.signal : ''].filter(Boolean).join(' '),
  );

test('the others wait for the scheduler; ready is said once, when all are', (t) => {
  const state = newState(rules, order);
  t.deepEqual(does(step(state, { type: 'begin' }, 0)), ['spawn scheduler']);
  t.deepEqual(does(step(state, { type: 'ready', part: 'scheduler' }, 1)), ['spawn gateway', 'spawn agent']);
  t.deepEqual(does(step(state, { type: 'ready', part: 'agent' }, 2)), []);
  t.deepEqual(does(step(state, { type: 'ready', part: 'gateway' }, 3)), ['all-ready']);
  t.is(nextDeadline(state), null);
});

test('a part that dies is started again after a pause that doubles up to its bound', (t) => {
  const image = allReady();
  let now = 0;
  const pauses: number[] = [];
  for (let death = 0; death < 9; death += 1) {
    t.deepEqual(does(step(image, exited('gateway'), now)), ['warn gateway']);
    const due = nextDeadline(image) ?? 0;
    pauses.push(due - now);
    t.deepEqual(does(step(image, { type: 'tick' }, due - 1)), []);
    t.deepEqual(does(step(image, { type: 'tick' }, due)), ['spawn gateway']);
    now = due + 1;
    t.deepEqual(does(step(image, { type: 'ready', part: 'gateway' }, now)), ['restarted gateway']);
  }
  t.deepEqual(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
  t.is(pauses[0], FIRST_PAUSE_MS);
  t.is(pauses.at(-1), LONGEST_PAUSE_MS);
});

test('a reason that holds for every later start ends the part alone', (t) => {
  const scheduler = allReady();
  const [ended] = step(scheduler, exited('scheduler', { code: 'DATA_LOST', message: 'acknowledged jobs are missing' }), 5);
  t.true(ended?.type === 'warn' && ended.text.startsWith('the scheduler ended (acknowledged jobs are missing) and is not restarted. '));
  t.is(nextDeadline(scheduler), null);
  const image = allReady();
  const [said, ...more] = step(image, exited('agent', { code: 'NODE_REMOVED', message: 'the node vm was removed' }), 5);
  t.deepEqual(more, []);
  t.true(said?.type === 'warn' && said.text.startsWith('the agent ended (the node vm was removed) and is not restarted. To let'));
  t.is(nextDeadline(image), null);
  t.deepEqual(does(step(image, exited('gateway', { code: 'UNAVAILABLE', message: 'for now' }), 6)), ['warn gateway']);
  t.deepEqual(does(step(image, { type: 'tick' }, nextDeadline(image) ?? 0)), ['spawn gateway']);
  t.deepEqual(does(step(image, { type: 'stop' }, 200)), ['kill gateway SIGTERM']);
  t.deepEqual(does(step(image, exited('gateway'), 201)), ['kill scheduler SIGTERM']);
  t.deepEqual(does(step(image, exited('scheduler'), 202)), ['finished']);
});

test('health sets the pause back', (t) => {
  const image = allReady();
  step(image, exited('agent'), 0);
  step(image, { type: 'tick' }, 100);
  step(image, { type: 'ready', part: 'agent' }, 200);
  step(image, exited('agent'), 200 + HEALTHY_AFTER_MS);
  t.is(nextDeadline(image), 200 + HEALTHY_AFTER_MS + FIRST_PAUSE_MS);
});

test('the scheduler’s death leaves the others running', (t) => {
  const image = allReady();
  t.deepEqual(does(step(image, exited('scheduler'), 0)), ['warn scheduler']);
  step(image, { type: 'tick' }, 100);
  t.deepEqual(does(step(image, { type: 'ready', part: 'scheduler' }, 200)), ['restarted scheduler']);
});

test('a first start that is refused ends everything, with the reason', (t) => {
  const image = begun();
  step(image, { type: 'ready', part: 'scheduler' }, 0);
  const refusal = { code: 'ADDRESS_IN_USE', message: 'port 8080 is in use' };
  t.deepEqual(does(step(image, exited('gateway', refusal), 1)), ['kill agent SIGTERM']);
  t.deepEqual(does(step(image, exited('agent'), 2)), ['kill scheduler SIGTERM']);
  t.deepEqual(step(image, exited('scheduler'), 3), [{ type: 'finished', refusal }]);
});

test('a refusal after it had run is no end: the part is tried again', (t) => {
  const image = allReady();
  t.deepEqual(does(step(image, exited('gateway', { code: 'ADDRESS_IN_USE', message: 'taken' }), 0)), ['warn gateway']);
  t.deepEqual(does(step(image, { type: 'tick' }, 100)), ['spawn gateway']);
});

test('a part that dies without a reason before it was ever ready is tried a few times', (t) => {
  const image = begun();
  for (let death = 1; death < FIRST_START_TRIES; death += 1) {
    t.deepEqual(does(step(image, exited('scheduler'), 0)), ['warn scheduler']);
    step(image, { type: 'tick' }, nextDeadline(image) ?? 0);
  }
  const [last] = step(image, exited('scheduler'), 0);
  t.deepEqual(last, { type: 'finished', refusal: { code: 'INTERNAL', message: 'the scheduler ended before it was ready (SIGKILL)' } });
});

test('a part that does not become ready is killed, and tried again', (t) => {
  const image = begun();
  t.is(nextDeadline(image), START_LIMIT_MS);
  t.deepEqual(does(step(image, { type: 'tick' }, START_LIMIT_MS)), ['warn scheduler', 'kill scheduler SIGKILL']);
  t.deepEqual(does(step(image, { type: 'tick' }, START_LIMIT_MS)), []);
  t.deepEqual(does(step(image, exited('scheduler'), START_LIMIT_MS)), ['warn scheduler']);
});

test('a stop ends the parts one after the other', (t) => {
  const image = allReady();
  t.deepEqual(does(step(image, { type: 'stop' }, 0)), ['kill gateway SIGTERM']);
  t.deepEqual(does(step(image, exited('gateway'), 1)), ['kill agent SIGTERM']);
  t.deepEqual(does(step(image, exited('agent'), 2)), ['kill scheduler SIGTERM']);
  t.deepEqual(step(image, exited('scheduler'), 3), [{ type: 'finished', refusal: null }]);
});

test('a part that does not end in its time is killed', (t) => {
  const image = allReady();
  step(image, { type: 'stop' }, 0);
  t.is(nextDeadline(image), GRACE_MS);
  t.deepEqual(does(step(image, { type: 'tick' }, GRACE_MS)), ['warn gateway', 'kill gateway SIGKILL']);
  t.deepEqual(does(step(image, exited('gateway'), GRACE_MS)), ['kill agent SIGTERM']);
});

test('a second stop kills what still runs', (t) => {
  const image = allReady();
  step(image, { type: 'stop' }, 0);
  t.deepEqual(does(step(image, { type: 'stop' }, 1)), ['kill scheduler SIGKILL', 'kill gateway SIGKILL', 'kill agent SIGKILL']);
  step(image, exited('scheduler'), 2);
  step(image, exited('gateway'), 3);
  t.deepEqual(does(step(image, exited('agent'), 4)), ['finished']);
});

test('what rests or waits when the stop comes is never started', (t) => {
  const image = begun();
  t.deepEqual(does(step(image, { type: 'stop' }, 0)), ['kill scheduler SIGTERM']);
  t.deepEqual(does(step(image, exited('scheduler'), 1)), ['finished']);
  t.is(nextDeadline(image), null);

  const resting = allReady();
  step(resting, exited('gateway'), 0);
  t.deepEqual(does(step(resting, { type: 'stop' }, 1)), ['kill agent SIGTERM']);
});

/** A world that answers every spawn and kill: parts become ready, die, and end when told. */
testProp(
  'whatever happens, at most one process a part runs, and a stop ends all of them',
  [
    fc.array(
      fc.record({
        what: fc.constantFrom('ready', 'die', 'refuse', 'tick', 'stop'),
        part: fc.constantFrom(...order),
        after: fc.nat(20_000),
      }),
      { maxLength: 60 },
    ),
  ],
  (t, happenings) => {
    const state = newState(rules, order);
    const running = new Map<string, number>();
    let now = 0;
    let finished = 0;
    const feed = (event: Parameters<typeof step>[1]): void => {
      for (const effect of step(state, event, now)) {
        if (effect.type === 'spawn') running.set(effect.part, (running.get(effect.part) ?? 0) + 1);
        if (effect.type === 'finished') finished += 1;
      }
      t.true([...running.values()].every((count) => count <= 1));
      t.true(finished <= 1);
      if (finished > 0) t.true([...running.values()].every((count) => count === 0));
    };
    const die = (part: string, refusal: { code: string; message: string } | null): void => {
      if ((running.get(part) ?? 0) === 0) return;
      running.set(part, 0);
      feed({ type: 'exited', part, how: 'exit code 1', refusal });
    };
    feed({ type: 'begin' });
    for (const { what, part, after } of happenings) {
      now += after;
      if (what === 'ready' && running.get(part) === 1) feed({ type: 'ready', part });
      else if (what === 'die') die(part, null);
      else if (what === 'refuse') die(part, { code: 'CONFIG', message: 'no' });
      else if (what === 'tick') feed({ type: 'tick' });
      else if (what === 'stop') feed({ type: 'stop' });
    }
    feed({ type: 'stop' });
    for (let round = 0; round < 10; round += 1) for (const part of order) die(part, null);
    t.is(finished, 1);
    t.is(nextDeadline(state), null);
  },
);

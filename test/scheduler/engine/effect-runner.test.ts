/** The effect runner by itself: what a read returns too late for the term that it was made under. */
import test from 'ava';

import { defaultSettings } from '../../../scheduler/core/settings.ts';
import { newState } from '../../../scheduler/core/state.ts';
import { EffectRunner } from '../../../scheduler/engine/effect-runner.ts';
import { PayloadCache } from '../../../scheduler/engine/payload-cache.ts';
import type { Ports } from '../../../scheduler/engine/ports.ts';

test('a dispatch whose input is read first waits for a confirmed term, and is judged by the state of then', (t) => {
  const fed: string[] = [];
  const answers: (() => void)[] = [];
  const held: (() => void)[] = [];
  const unused = (): never => {
    throw new Error('unused');
  };
  const runner = new EffectRunner({
    state: newState(defaultSettings, [1, 2, 3, 4]),
    store: {
      fenceMs: 3_000,
      commit: unused,
      search: unused,
      acquire: unused,
      read: (_query, _args, { done }) => void answers.push(() => done(null as never)),
    },
    clock: { now: () => ({ wall: 0, mono: 0 }), after: unused, defer: unused },
    ports: {} as Ports,
    inputs: new PayloadCache(0),
    feed: (event) => void fed.push(event.kind),
    whenConfirmed: (run) => void held.push(run),
    answer: unused,
    log: unused,
    failed: unused,
  });
  const job = { job: 'j', seq: 1, token: 1, endpoint: 'e', executionTimeoutMs: 1 };
  runner.perform({ kind: 'dispatch', node: 'n', session: 1, worker: 'w', hasS3: true, ...job } as never);
  for (const answer of answers) answer();
  t.deepEqual(fed, []);
  t.is(held.length, 1);
  for (const run of held) run();
  t.deepEqual(fed, ['undelivered']);
});

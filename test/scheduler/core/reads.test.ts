/** What the core remembers of jobs that end while rows are read is forgotten, however many reads overlap. */
import test from 'ava';

import { newState, noteEnded, readClosed, readOpened } from '../../../scheduler/core/state.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';

test('reads that always overlap keep only the jobs that ended since the oldest of them', (t) => {
  const state = newState(defaultSettings, [1, 2, 3, 4]);
  let before = readOpened(state);
  for (let seq = 1; seq <= 10_000; seq++) {
    noteEnded(state, seq);
    const next = readOpened(state);
    t.true(state.reads.ended.has(seq), 'the earlier read may show it as it was');
    readClosed(state, before);
    t.is(state.reads.ended.size, 0);
    before = next;
  }
});

test('answers in any order: a job is remembered until each read from before its end has been handled', (t) => {
  const state = newState(defaultSettings, [1, 2, 3, 4]);
  const [first, second] = [readOpened(state), readOpened(state)];
  noteEnded(state, 7);
  const third = readOpened(state);
  noteEnded(state, 8);
  readClosed(state, second);
  t.deepEqual([...state.reads.ended.keys()], [7, 8]);
  readClosed(state, first);
  t.deepEqual([...state.reads.ended.keys()], [8]);
  readClosed(state, third);
  t.is(state.reads.ended.size, 0);
  noteEnded(state, 9);
  t.is(state.reads.ended.size, 0, 'nothing is read');
});

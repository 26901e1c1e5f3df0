/** What the core remembers of jobs that end while rows are read is forgotten, however many reads overlap. */
import test from 'ava';

import { newState, noteEnded, readClosed, readOpened } from '../../../scheduler/core/image.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';

test('reads that always overlap keep only the jobs that ended since the oldest of them', (t) => {
  const image = newState(defaultSettings, [1, 2, 3, 4]);
  let before = readOpened(image);
  for (let no = 1; no <= 10_000; no++) {
    noteEnded(image, no);
    const next = readOpened(image);
    t.true(image.reads.ended.has(no), 'the earlier read may show it as it was');
    readClosed(image, before);
    t.is(image.reads.ended.size, 0);
    before = next;
  }
});

test('answers in any order: a job is remembered until each read from before its end has been handled', (t) => {
  const image = newState(defaultSettings, [1, 2, 3, 4]);
  const [first, second] = [readOpened(image), readOpened(image)];
  noteEnded(image, 7);
  const third = readOpened(image);
  noteEnded(image, 8);
  readClosed(image, second);
  t.deepEqual([...image.reads.ended.keys()], [7, 8]);
  readClosed(image, first);
  t.deepEqual([...image.reads.ended.keys()], [8]);
  readClosed(image, third);
  t.is(image.reads.ended.size, 0);
  noteEnded(image, 9);
  t.is(image.reads.ended.size, 0, 'nothing is read');
});

/** What the core remembers of jobs that end while rows are read is forgotten, however many reads overlap. */
import test from 'ava';

import { StepResult, type Effect } from '../../../scheduler/core/effects.ts';
import type { CoreEvent } from '../../../scheduler/core/events.ts';
import { step } from '../../../scheduler/core/step/step.ts';
import type { JobRow } from '../../../scheduler/core/ports/store.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { waitingJob } from '../../support/job-row.ts';
import { FleetWorld } from './fleet-world.ts';
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

function failedRow(endpoint: string, token: number): JobRow {
  return waitingJob({
    ...{ id: 'j', endpoint, state: 'FAILED', token, attempts: 1, endedAt: 1, deleteAt: 2_000_000_000_000, ttlMs: 60_000 },
    ...{ retentionMs: 1_000, delayMs: 0, executionMs: 0, error: 'it failed' },
  });
}

test('a row read before a retry, whose job ended again by now, is read again, once', (t) => {
  const world = new FleetWorld();
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const happens = (event: CoreEvent): Effect[] => {
    const result = new StepResult();
    step(world.image, event, world.now(), result);
    return result.effects.map(({ effect }) => effect);
  };
  const readOf = (effects: readonly Effect[]) => effects.find((effect) => effect.kind === 'read-job')?.purpose;
  const ask = (call: number, kind: 'retry' | 'cancel') =>
    readOf(happens({ kind: 'command', call, command: { kind, endpoint, job: 'j' }, audit: null }));
  const found = (token: number, state: 'FAILED' | 'IN_QUEUE' = 'FAILED') => {
    const job = { ...failedRow(endpoint, token), state };
    return { job, output: null, chunks: [], firstChunk: 0 };
  };
  const [retry, again, cancel] = [ask(1, 'retry'), ask(2, 'retry'), ask(3, 'cancel')];
  if (retry === undefined || again === undefined || cancel === undefined) return void t.fail('nothing is read');
  happens({ kind: 'job-read', purpose: retry, found: found(1) });
  t.is(world.image.jobs.get('j')?.token, 2);
  happens({ kind: 'command', call: 4, command: { kind: 'cancel', endpoint, job: 'j' }, audit: null });
  t.is(world.endpoint(endpoint).lanes[0].count, 0);

  const second = readOf(happens({ kind: 'job-read', purpose: again, found: found(1) }));
  t.is(world.endpoint(endpoint).lanes[0].count, 0, 'it is not retried with the token of the row from before');
  if (second === undefined) return void t.fail('it is not read again');
  t.is(readOf(happens({ kind: 'job-read', purpose: second, found: found(3) })), undefined);
  t.is(world.image.jobs.get('j')?.token, 4);

  const third = readOf(happens({ kind: 'job-read', purpose: cancel, found: found(1, 'IN_QUEUE') }));
  if (third === undefined) return void t.fail('it is not read again');
  t.is(
    readOf(happens({ kind: 'job-read', purpose: third, found: found(4, 'IN_QUEUE') })),
    undefined,
    'it waits again: that is not outdated',
  );
  t.is(world.image.reads.open.size, 0);
  t.is(world.image.reads.ended.size, 0);
});

/** The engine on a store that fails: what a dropped state leaves behind, and how the cell is taken over again. */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { invariant } from '../../../lib/invariant.ts';
import type { CommandResult } from '../../../scheduler/core/effects.ts';
import { defaultSettings } from '../../../scheduler/core/settings.ts';
import { step } from '../../../scheduler/core/step/step.ts';
import type { Step } from '../../../scheduler/engine/commit-loop.ts';
import { Engine } from '../../../scheduler/engine/engine.ts';
import type { Completion, LoopStore } from '../../../scheduler/engine/loop-store.ts';
import type { Ports } from '../../../scheduler/engine/ports.ts';
import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { StaleTermError, type Fence, type Op, type Outcome } from '../../../scheduler/core/ports/store.ts';
import { CallbackQueue } from '../../support/instant-loop.ts';

const FENCE_MS = 3_000;
const unavailable = new CapstanError('UNAVAILABLE', 'the connection ended');

interface Batch {
  readonly fence: Fence;
  readonly ops: readonly Op[];
  readonly completion: Completion<readonly Outcome[]>;
}

/** An engine whose batches are answered when the test says so; each take-over is under a new term, unless it is refused. */
function engineOfTest(fenceMs: number | null = FENCE_MS, apply: Step = step) {
  const callbacks = new CallbackQueue();
  const sqlite = new SqliteEngine({ file: ':memory:', now: () => 0 });
  const { term: inner } = sqlite.acquire(0, 'test', 0);
  const batches: Batch[] = [];
  const timers = new Set<{ readonly at: number; readonly run: () => void }>();
  const fatal: unknown[] = [];
  const closed: string[] = [];
  const reads: { pending: (() => void)[]; held: boolean } = { pending: [], held: false };
  let mono = 0;
  let term = 0n;
  let heldBy: string | null = null;
  const read: LoopStore['read'] = (query, args, { done }) => {
    const result = sqlite.read(query, ...args);
    if (reads.held) reads.pending.push(() => done(result));
    else callbacks.push(() => done(result));
  };
  const store: LoopStore = {
    fenceMs,
    commit: (fence, ops, completion) => void batches.push({ fence, ops, completion }),
    read,
    search: read,
    acquire: (_wanted, { done }) => callbacks.push(() => done(heldBy === null ? { term: ++term } : { heldBy })),
  };
  const ports = new Proxy({} as Ports, {
    get: (_ports, name) => (name === 'closeAll' ? (why: string) => closed.push(why) : () => undefined),
  });
  const errors: Record<string, unknown>[] = [];
  const engine = new Engine(
    {
      store,
      settings: defaultSettings,
      clock: {
        now: () => ({ wall: mono, mono }),
        after: (ms, run) => {
          const timer = { at: mono + ms, run };
          timers.add(timer);
          return () => void timers.delete(timer);
        },
        defer: (run) => callbacks.push(run),
      },
      random: [1, 2, 3, 4],
      owner: 'test',
      log: { info: () => undefined, warn: () => undefined, error: (facts, message) => void errors.push({ ...facts, message }) },
      step: apply,
      payloadBytes: 1_000_000,
      onFatal: (error) => void fatal.push(error),
    },
    ports,
  );
  /** Time passes, and timers that are due are run. */
  const pass = (ms: number): void => {
    mono += ms;
    for (const timer of [...timers]) {
      if (timer.at > mono || !timers.delete(timer)) continue;
      timer.run();
      callbacks.drain();
    }
  };
  /** The oldest batch is written and answered. */
  const commit = (): void => {
    const batch = batches.shift();
    if (batch === undefined) throw new Error('no batch is in flight');
    batch.completion.done(sqlite.commit({ cell: 0, term: inner }, batch.ops));
    callbacks.drain();
  };
  const fail = (error: unknown): void => {
    batches.shift()?.completion.failed(error);
    callbacks.drain();
  };
  const takeOver = (): unknown[] => {
    const results: unknown[] = [];
    engine.beginTakeOver({ done: () => void results.push('done'), failed: (error) => void results.push(error) });
    callbacks.drain();
    return results;
  };
  const addToken = (hash: string): (CommandResult | Error)[] => {
    const results: (CommandResult | Error)[] = [];
    engine.call({ kind: 'put-join-token', hash }, (result) => void results.push(result));
    callbacks.drain();
    return results;
  };
  const pause = (ms: number): void => {
    mono += ms;
  };
  const refuse = (owner: string | null): void => {
    heldBy = owner;
  };
  return { engine, errors, callbacks, batches, timers, fatal, closed, reads, pass, pause, commit, fail, takeOver, addToken, refuse };
}

/** Confirms the take-over, and answers what it decided. */
function serving(fenceMs: number | null = FENCE_MS, apply: Step = step) {
  const world = engineOfTest(fenceMs, apply);
  world.takeOver();
  while (world.batches.length > 0) world.commit();
  return world;
}

test('a cell counts as taken over once a batch has confirmed the term', (t) => {
  const { engine, takeOver, commit, batches } = engineOfTest();
  const results = takeOver();
  t.deepEqual(results, []);
  t.is(batches.length, 1);
  t.throws(() => engine.state, { message: 'the scheduler is taking over its queue' });
  commit();
  t.deepEqual(results, ['done']);
  t.is(engine.term, 1n);
  t.notThrows(() => engine.state);
});

test('a take-over that is lost before it was confirmed has failed, and says that another scheduler has the cell', (t) => {
  const { engine, takeOver, fail, fatal } = engineOfTest();
  const results = takeOver();
  fail(new StaleTermError({ cell: 0, term: 1n }));
  t.like(results[0], { code: 'CONFLICT' });
  t.is(results.length, 1);
  t.false(engine.up);
  t.deepEqual(fatal, []);
});

const RETRY_MS = 1_000;

test('in doubt the state is dropped, calls are answered UNAVAILABLE, and the cell is taken over under a new term', (t) => {
  const { engine, addToken, fail, pass, commit, closed, fatal } = serving();
  const answers = addToken('a');
  fail(unavailable);
  t.like(answers[0], { code: 'UNAVAILABLE' });
  t.is(answers.length, 1);
  t.false(engine.up);
  t.is(closed.length, 1);
  pass(RETRY_MS);
  commit();
  t.is(engine.term, 2n);
  t.notThrows(() => engine.state);
  t.deepEqual(fatal, []);
});

test('a step that throws writes nothing of what it did: the queue is read anew, and goes on', (t) => {
  const broken: Step = (state, event, now, result) => {
    step(state, event, now, result);
    if (event.kind === 'command' && event.command.kind === 'put-join-token')
      invariant(event.command.hash !== 'bad', 'a token is good', { token: 'bad' });
  };
  const { engine, errors, addToken, batches, pass, closed, fatal } = serving(null, broken);
  t.like(addToken('bad')[0], { code: 'UNAVAILABLE' });
  t.false(engine.up);
  t.deepEqual([batches.length, closed, fatal], [0, ['reading the queue anew'], []]);
  t.like(errors[0], { token: 'bad', message: 'a step failed; reading the queue anew from the store' });
  t.regex(String(errors[0]?.['err']), /invariant violated: a token is good token=bad/);
  pass(RETRY_MS);
  t.true(engine.up);
  t.false(engine.state.joinTokens.has('bad'));
  addToken('good');
  t.is(batches.length, 1);
});

test('a store of this process alone needs no batch to confirm a take-over', (t) => {
  const { engine, addToken, fail, pass } = serving(null);
  addToken('a');
  fail(new CapstanError('DISK_FULL', 'the disk is full'));
  pass(RETRY_MS - 1);
  t.false(engine.up);
  pass(1);
  t.true(engine.up);
  t.notThrows(() => engine.state);
});

test('a take-over that another scheduler prevents ends the process', (t) => {
  const { addToken, fail, pass, refuse, fatal } = serving();
  addToken('a');
  fail(new StaleTermError({ cell: 0, term: 1n }));
  refuse('10.0.0.2:7070');
  pass(RETRY_MS);
  t.like(fatal[0], { code: 'CONFLICT', message: "the queue's owner is 10.0.0.2:7070" });
});

test('a database that is behind what was acknowledged ends the process', (t) => {
  const { engine, addToken, fail, fatal, timers } = serving();
  addToken('a');
  fail(new CapstanError('DATA_LOST', 'the database is behind what was acknowledged'));
  t.like(fatal[0], { code: 'DATA_LOST' });
  t.false(engine.up);
  t.is(timers.size, 0);
});

test('an answer to the old life comes to nothing: no effect leaves, and the new life stays', (t) => {
  const { engine, addToken, fail, pass, commit, batches, callbacks } = serving();
  const first = addToken('a');
  const old = batches.shift();
  engine.recheck(1n);
  callbacks.drain();
  pass(RETRY_MS);
  commit();
  old?.completion.done(old.ops.map(() => ({ kind: 'ok' as const })));
  callbacks.drain();
  t.is(first.length, 1);
  t.like(first[0], { code: 'UNAVAILABLE' });
  t.is(engine.term, 2n);
  const second = addToken('b');
  commit();
  t.is(second.length, 1);
  t.false(second[0] instanceof Error);
  old?.completion.failed(unavailable);
  fail(unavailable);
  t.true(engine.up);
});

test('a hint about an older term leaves the state alone, one about the present term drops it', (t) => {
  const { engine, callbacks, pass, commit } = serving();
  engine.recheck(1n);
  pass(RETRY_MS);
  commit();
  t.is(engine.term, 2n);
  engine.recheck(1n);
  callbacks.drain();
  t.true(engine.up);
  engine.recheck(2n);
  callbacks.drain();
  t.false(engine.up);
});

test('reads of the old life, and its timers, come to nothing', async (t) => {
  const { engine, reads, callbacks, pass, commit } = serving();
  reads.held = true;
  const read = engine.read('highest');
  reads.held = false;
  engine.recheck(1n);
  callbacks.drain();
  pass(RETRY_MS);
  commit();
  for (const answer of reads.pending.splice(0)) answer();
  await t.throwsAsync(read, { code: 'UNAVAILABLE' });
  t.deepEqual(await readNow(engine, callbacks), { seq: 0, queuePosition: 0 });
});

test('past the bound the state is not for callers, and reads reject, until the next batch is confirmed', async (t) => {
  const { engine, callbacks, pause, pass, commit } = serving();
  pause(FENCE_MS);
  t.throws(() => engine.state, { code: 'UNAVAILABLE' });
  t.throws(() => engine.requireOwner(), { code: 'UNAVAILABLE' });
  t.not(engine.image, null);
  await t.throwsAsync(readNow(engine, callbacks), { code: 'UNAVAILABLE' });
  pass(0);
  commit();
  t.notThrows(() => engine.state);
  t.deepEqual(await readNow(engine, callbacks), { seq: 0, queuePosition: 0 });
});

test('failed lives leave nothing behind', (t) => {
  const { engine, addToken, fail, pass, commit, timers, batches, callbacks } = serving();
  const before = timers.size;
  for (let i = 0; i < 50; i++) {
    const answers = addToken(`t-${i}`);
    fail(unavailable);
    t.is(answers.length, 1);
    pass(RETRY_MS);
    commit();
    callbacks.drain();
    t.is(timers.size, before);
    t.is(batches.length, 0);
  }
  t.is(engine.term, 51n);
  t.deepEqual(engine.inputCache, { jobs: 0, bytes: 0 });
});

test('closing commits what is gathered, takes nothing more, and leaves no call without an answer', async (t) => {
  const { engine, addToken, commit, batches } = serving();
  const before = addToken('a');
  const closing = engine.close();
  const during = addToken('b');
  commit();
  await closing;
  t.is(before.length, 1);
  t.false(before[0] instanceof Error);
  t.like(during[0], { code: 'UNAVAILABLE' });
  t.is(batches.length, 0);
  t.like(addToken('c')[0], { code: 'UNAVAILABLE' });
  t.false(engine.up);
});

async function readNow(engine: Engine, callbacks: CallbackQueue): Promise<unknown> {
  const read = engine.read('highest');
  callbacks.drain();
  return read;
}

/** The queue of lines to forward: bounded, in batches, one at a time, with every dropped line counted. */
import test, { type ExecutionContext } from 'ava';

import { DropReport } from '../../agent/logs/forwarding/drop-report.ts';
import { ForwardQueue, type ForwardQueueOptions, type SendOutcome } from '../../agent/logs/forwarding/forward-queue.ts';
import type { ForwardedLine } from '../../agent/logs/forwarding/log-record.ts';
import { ManualClock } from '../support/manual-clock.ts';

const FAILED: SendOutcome = { kind: 'failed', reason: 'HTTP status 503' };

function forwarded(text: string): ForwardedLine {
  return {
    line: {
      ...{ endpointId: 'ep1', workerId: 'w1', releaseId: 'r1', jobId: '', attempt: 0, stream: 'stdout', level: '', text },
      ...{ fields: '', atUs: 1n, atMs: 0n },
    },
    endpointName: '',
  };
}

/** A queue whose batches end when the test says so. */
class World {
  readonly clock = new ManualClock();
  /** Texts of each batch, in the order of sending. */
  readonly batches: string[] = [];
  readonly dropped: Record<string, number> = {};
  sent = 0;
  isClosed = false;
  readonly queue: ForwardQueue;
  #finish: ((outcome: SendOutcome) => void) | undefined;

  constructor(options: Partial<ForwardQueueOptions> = {}) {
    this.queue = new ForwardQueue({
      sender: {
        send: (lines) => {
          this.batches.push(lines.map(({ line }) => line.text).join(' '));
          return new Promise((resolve) => (this.#finish = resolve));
        },
        close: () => {
          this.isClosed = true;
          this.#finish?.({ kind: 'failed', reason: 'the agent stops' });
          return Promise.resolve();
        },
      },
      timers: this.clock,
      maxLines: 6,
      batchLines: 3,
      delayMs: 1_000,
      onSent: (lines) => (this.sent += lines),
      onDropped: (lines, reason) => (this.dropped[reason] = (this.dropped[reason] ?? 0) + lines),
      ...options,
    });
  }

  add(...texts: string[]): void {
    for (const text of texts) this.queue.add(forwarded(text));
  }

  /** Ends the batch that is being sent. */
  async finish(outcome: SendOutcome = { kind: 'sent' }): Promise<void> {
    this.#finish?.(outcome);
    await new Promise(setImmediate);
  }
}

test('lines wait for others until the delay, or until a batch is full', async (t) => {
  const world = new World();
  world.add('a', 'b');
  t.deepEqual(world.batches, []);
  world.clock.advance(1_000);
  t.deepEqual(world.batches, ['a b']);
  await world.finish();
  world.add('c', 'd', 'e');
  t.deepEqual(world.batches, ['a b', 'c d e']);
  t.is(world.sent, 2);
});

test('one batch at a time: further lines wait, and those that find no room are dropped and counted', async (t) => {
  const world = new World();
  world.add('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k');
  t.deepEqual(world.batches, ['a b c']);
  t.deepEqual(world.dropped, { 'the queue is full': 2 });
  await world.finish();
  await world.finish();
  t.deepEqual(world.batches, ['a b c', 'd e f', 'g h i']);
});

test('a refused batch is dropped, and the next one waits for the delay', async (t) => {
  const world = new World();
  world.add('a', 'b', 'c', 'd', 'e', 'f');
  await world.finish(FAILED);
  t.deepEqual(world.dropped, { 'HTTP status 503': 3 });
  t.deepEqual(world.batches, ['a b c']);
  world.clock.advance(1_000);
  t.deepEqual(world.batches, ['a b c', 'd e f']);
  await world.finish();
  t.is(world.sent, 3);
});

test('text is bounded as well as the number of lines, of the queue and of a batch', async (t) => {
  const world = new World({ maxLines: 10_000, batchLines: 5_000 });
  for (let at = 0; at < 10_000; at += 1) world.add('x'.repeat(15_500));
  t.is(world.dropped['the queue is full'], 9_000);
  world.clock.advance(1_000);
  t.is(world.batches[0]?.split(' ').length, 62);
  await world.finish();
  world.add('y'.repeat(15_500));
  t.is(world.dropped['the queue is full'], 9_000);
});

test('close sends what waits', async (t) => {
  const world = new World();
  world.add('a', 'b', 'c', 'd');
  const closed = world.queue.close();
  await world.finish();
  await world.finish();
  await closed;
  t.deepEqual(world.batches, ['a b c', 'd']);
  t.is(world.sent, 4);
  t.true(world.isClosed);
  world.add('late');
  t.deepEqual(world.dropped, { 'the agent stops': 1 });
});

test('close gives up after its time, and counts what was not sent', async (t) => {
  const world = new World();
  world.add('a', 'b', 'c', 'd');
  const closed = world.queue.close();
  world.clock.advance(5_000);
  await closed;
  t.deepEqual(world.batches, ['a b c']);
  t.deepEqual(world.dropped, { 'the agent stops': 4 });
});

test('close does not go on with a receiver that refuses', async (t) => {
  const world = new World();
  world.add('a', 'b', 'c', 'd');
  const closed = world.queue.close();
  await world.finish(FAILED);
  await closed;
  t.deepEqual(world.dropped, { 'HTTP status 503': 3, 'the agent stops': 1 });
});

function reportOf(t: ExecutionContext): { report: DropReport; clock: ManualClock; logged: unknown[] } {
  const clock = new ManualClock();
  const logged: unknown[] = [];
  const warn = (fields: unknown, message: string): void => {
    t.is(message, 'log lines were not forwarded');
    logged.push(fields);
  };
  return { report: new DropReport('collector:4318', { warn } as ConstructorParameters<typeof DropReport>[1], clock), clock, logged };
}

test('dropped lines are logged once a minute, with their number and reasons', (t) => {
  const { report, clock, logged } = reportOf(t);
  report.add(3, 'a');
  for (let at = 0; at < 100; at += 1) report.add(1, at % 2 === 0 ? 'a' : 'b');
  t.deepEqual(logged, [{ lines: 3, reasons: { a: 3 }, receiver: 'collector:4318' }]);
  clock.advance(60_000);
  t.deepEqual(logged.slice(1), [{ lines: 100, reasons: { a: 50, b: 50 }, receiver: 'collector:4318' }]);
  clock.advance(60_000);
  clock.advance(60_000);
  t.is(logged.length, 2);
  report.add(1, 'a');
  t.is(logged.length, 3);
});

test('what was dropped last is logged at the end', (t) => {
  const { report, logged } = reportOf(t);
  report.add(1, 'a');
  report.add(2, 'a');
  report.close();
  t.deepEqual(logged[1], { lines: 2, reasons: { a: 2 }, receiver: 'collector:4318' });
});

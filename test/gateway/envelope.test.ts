/** The envelope of an endpoint's response to the console: its limits, and its end in each case. */
import test from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { Envelope } from '../../gateway/console/envelope.ts';

function opened(limits: { mostBytes?: number; mostMs?: number; headOnly?: boolean } = {}) {
  const lines: Record<string, unknown>[] = [];
  const told: string[] = [];
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const envelope = new Envelope({
    mostBytes: 10,
    mostMs: 60_000,
    headOnly: false,
    write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) < 100,
    close: resolve,
    ...limits,
  });
  envelope.onGone = (why) => told.push(why);
  envelope.onOver = () => told.push('over');
  return { envelope, lines, told, closed };
}

test('a response that never ends is cut off after the time, before and after its head', async (t) => {
  for (const hasHead of [false, true]) {
    const { envelope, lines, told, closed } = opened({ mostMs: 1 });
    if (hasHead) envelope.head(200, ['a', 'b']);
    await closed;
    t.deepEqual(lines.at(-1), { kind: 'end', why: 'TIME' });
    t.deepEqual(told, ['over', 'the console reads no more of the response']);
    envelope.write(Buffer.from('late'));
    envelope.end(Buffer.from('late'));
    envelope.gone();
    t.is(lines.length, hasHead ? 2 : 1);
    t.is(told.length, 2, 'its end is told once');
  }
});

test('exactly the most bytes are whole, one more is cut off', (t) => {
  const whole = opened();
  whole.envelope.head(200, []);
  whole.envelope.end(Buffer.from('0123456789'));
  t.deepEqual(whole.lines.slice(1), [
    { kind: 'body', bytes: Buffer.from('0123456789').toString('base64') },
    { kind: 'end', why: 'COMPLETE' },
  ]);
  const long = opened();
  long.envelope.head(200, []);
  long.envelope.write(Buffer.from('01234'));
  long.envelope.write(Buffer.from('56789x'));
  long.envelope.write(Buffer.from('y'));
  t.deepEqual(long.lines.slice(1), [
    { kind: 'body', bytes: Buffer.from('01234').toString('base64') },
    { kind: 'body', bytes: Buffer.from('56789').toString('base64') },
    { kind: 'end', why: 'SIZE' },
  ]);
  t.deepEqual(long.told, ['over', 'the console reads no more of the response']);
});

test('a failure is the response before the head, and its end afterwards', (t) => {
  const before = opened({ mostBytes: 1_000 });
  before.envelope.fail(new CapstanError('NOT_FOUND', 'the endpoint has no route "/x"'));
  t.like(before.lines[0], { kind: 'head', status: 404 });
  t.true(Buffer.from(String(before.lines[1]?.['bytes']), 'base64').includes('no route'));
  t.deepEqual(before.lines[2], { kind: 'end', why: 'COMPLETE' });
  t.is(before.envelope.status, 404);
  const after = opened();
  after.envelope.head(200, []);
  after.envelope.fail(new CapstanError('WORKER_LOST', 'the worker ended'));
  t.deepEqual(after.lines.at(-1), { kind: 'end', why: 'BROKEN', error: 'the worker ended' });
  t.deepEqual(after.told, ['over']);
});

test('HEAD has no body, and a reader that left counts as status 499', (t) => {
  const { envelope, lines } = opened({ headOnly: true });
  envelope.head(200, []);
  envelope.end(Buffer.from('bytes'));
  t.deepEqual(
    lines.map(({ kind }) => kind),
    ['head', 'end'],
  );
  const left = opened();
  left.envelope.gone();
  t.is(left.envelope.status, 499);
  t.deepEqual(left.told, ['the caller disconnected', 'over']);
});

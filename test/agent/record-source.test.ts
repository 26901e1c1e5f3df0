/** The records of a reader are handled in short turns, within the share of their account. */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';

import test from 'ava';

import { ReadingShares } from '../../agent/runtimes/reading-shares.ts';
import { RecordSource } from '../../agent/runtimes/reading/record-source.ts';
import { until } from '../support/until.ts';

const READ = randomBytes(64 * 1024);
/** The source frees the memory of what it has handled. */
const read = (): Buffer => Buffer.from(READ);

/** A source of which each piece takes a millisecond. */
function sourceOf(): { source: RecordSource; pipe: PassThrough; handled: () => Buffer } {
  const pipe = new PassThrough();
  const pieces: Buffer[] = [];
  let now = 0;
  const push = (piece: Buffer): void => {
    pieces.push(Buffer.from(piece));
    now += 1;
  };
  const source = new RecordSource(
    pipe as unknown as Socket,
    push,
    () => undefined,
    () => now,
  );
  return { source, pipe, handled: () => Buffer.concat(pieces) };
}

test('a read is handled in turns, between which others have theirs', async (t) => {
  const { pipe, handled } = sourceOf();
  pipe.emit('data', read());
  const first = handled().length;
  t.true(first > 0 && first < READ.length / 2, `${first} bytes in the first turn`);
  t.true(pipe.isPaused());
  await until('the rest is handled', () => handled().length === READ.length);
  t.deepEqual(handled(), READ);
  t.false(pipe.isPaused());
});

test('the rest of a read waits while the share of its account is used up', async (t) => {
  const { source, pipe, handled } = sourceOf();
  const share = new ReadingShares().of('account');
  source.within(share);
  pipe.emit('data', read());
  source.pause();
  const before = handled().length;
  for (let n = 0; n < 5; n += 1) await turn();
  t.is(handled().length, before);
  source.resume();
  await until('the rest is handled', () => handled().length === READ.length);
  t.deepEqual(handled(), READ);
  source.end();
  t.is(share.size, 0);
});

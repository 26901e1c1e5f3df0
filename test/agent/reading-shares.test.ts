/** The agent's loop is shared by account: who has used its share of a window is read again in the next one. */
import test from 'ava';

import {
  ALONE_MS,
  INCOMPLETE_BYTES,
  ReadingShares,
  SHARED_MS,
  WINDOW_MS,
  type PausableSource,
} from '../../agent/runtimes/reading-shares.ts';

class Source implements PausableSource {
  isPaused = false;
  pause(): void {
    this.isPaused = true;
  }
  resume(): void {
    this.isPaused = false;
  }
}

/** A clock that moves when a read is handled. */
function world() {
  let now = 1_000;
  const shares = new ReadingShares(() => now);
  const open = (account: string): Source => {
    const source = new Source();
    shares.of(account).add(source);
    return source;
  };
  return {
    shares,
    open,
    pass: (ms: number) => (now += ms),
    read: (account: string, ms: number) => shares.of(account).handle(() => (now += ms)),
  };
}

test('an account that has used its share is paused with all its workers, and the other is not', (t) => {
  const { open, pass, read } = world();
  const [one, two, other] = [open('a'), open('a'), open('b')];
  read('a', SHARED_MS / 2);
  t.false(one.isPaused);
  read('a', SHARED_MS / 2);
  t.true(one.isPaused);
  t.true(two.isPaused);
  t.false(other.isPaused);
  pass(WINDOW_MS);
  read('b', 0.1);
  t.false(one.isPaused);
  t.false(two.isPaused);
});

test('busy accounts share, and an account alone has nearly all', (t) => {
  const alone = world();
  const source = alone.open('a');
  alone.read('a', ALONE_MS - 1);
  t.false(source.isPaused);
  const shared = world();
  const [a, b] = [shared.open('a'), shared.open('b')];
  shared.read('a', 2);
  shared.read('b', 2);
  shared.pass(WINDOW_MS);
  shared.read('a', SHARED_MS / 2);
  shared.read('b', SHARED_MS / 2);
  t.true(a.isPaused);
  t.true(b.isPaused);
});

test('a worker that comes while its account is paused waits, too, and one that is gone is left alone', (t) => {
  const { shares, open, pass, read } = world();
  const first = open('a');
  open('b');
  read('a', SHARED_MS);
  const second = open('a');
  t.true(second.isPaused);
  shares.of('a').delete(first);
  pass(WINDOW_MS);
  read('b', 0.1);
  t.true(first.isPaused);
  t.false(second.isPaused);
});

test('beyond the bound of incomplete frames one of an account is read to its end, and what has none', (t) => {
  const { shares, open } = world();
  const [one, two, small, other] = [open('a'), open('a'), open('a'), open('b')];
  const share = shares.of('a');
  share.keep(one, INCOMPLETE_BYTES / 2);
  share.keep(two, INCOMPLETE_BYTES / 2);
  share.keep(small, 1_000);
  t.deepEqual([one.isPaused, two.isPaused], [false, false]);
  share.keep(two, INCOMPLETE_BYTES / 2 + 1);
  t.deepEqual([one.isPaused, two.isPaused, small.isPaused, other.isPaused], [true, false, false, false]);
  share.keep(two, 0);
  t.false(one.isPaused);
  share.keep(two, INCOMPLETE_BYTES);
  t.true(one.isPaused);
  // Its worker is gone.
  share.delete(two);
  t.false(one.isPaused);
});

test('a paused account is read again without another read', async (t) => {
  const shares = new ReadingShares();
  const source = new Source();
  shares.of('a').add(source);
  const until = performance.now() + ALONE_MS;
  shares.of('a').handle(() => {
    while (performance.now() < until);
  });
  t.true(source.isPaused);
  await new Promise<void>((resolve) => {
    source.resume = () => {
      resolve();
    };
  });
});

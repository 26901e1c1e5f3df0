/** Turns of searches: one piece at a time, accounts in rotation, and pauses as long as the pieces. */
import test from 'ava';

import { SearchTurns } from '../../../scheduler/engine/search-turns.ts';

/** A clock that the test moves. */
class Clock {
  mono = 0;
  readonly #due: { readonly at: number; readonly run: () => void }[] = [];

  now(): number {
    return this.mono;
  }

  after(ms: number, run: () => void): void {
    this.#due.push({ at: this.mono + ms, run });
  }

  async pass(ms: number): Promise<void> {
    this.mono += ms;
    for (const each of this.#due.splice(0)) {
      if (each.at <= this.mono) each.run();
      else this.#due.push(each);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('one piece runs at a time, and a pause as long as it took follows', async (t) => {
  const clock = new Clock();
  const turns = new SearchTurns(clock);
  const begun: number[] = [];
  const first = Promise.withResolvers<undefined>();
  void turns.take('a', () => {
    begun.push(0);
    return first.promise;
  });
  void turns.take('a', () => Promise.resolve(begun.push(1)));
  await clock.pass(4);
  t.deepEqual(begun, [0]);
  first.resolve(undefined);
  await clock.pass(0);
  t.deepEqual(begun, [0], 'the pause');
  await clock.pass(3);
  t.deepEqual(begun, [0], 'the pause');
  await clock.pass(1);
  t.deepEqual(begun, [0, 1]);
});

test('an account with many searches does not delay the one of another account', async (t) => {
  const clock = new Clock();
  const turns = new SearchTurns(clock);
  const order: string[] = [];
  const all = ['a', 'a', 'a', 'a', 'b'].map((account) => turns.take(account, () => Promise.resolve(order.push(account))));
  for (let i = 0; i < 10; i++) await clock.pass(1);
  await Promise.all(all);
  t.true(order.indexOf('b') <= 2, order.join());
});

test('the failure of a piece is its caller’s alone', async (t) => {
  const clock = new Clock();
  const turns = new SearchTurns(clock);
  const refused = t.throwsAsync(
    turns.take('a', () => Promise.reject(new Error('no'))),
    { message: 'no' },
  );
  const next = turns.take('a', () => Promise.resolve(1));
  await clock.pass(1);
  await clock.pass(1);
  await refused;
  t.is(await next, 1);
});

test('an account cannot let thousands wait', async (t) => {
  const turns = new SearchTurns(new Clock());
  void turns.take('a', () => new Promise(() => undefined));
  for (let n = 0; n < 200; n++) void turns.take('a', () => Promise.resolve(n));
  await t.throwsAsync(async () => turns.take('a', () => Promise.resolve(0)), { code: 'RATE_LIMITED' });
});

/** Log searches of an account run a few at a time, and delay no other account. */
import test from 'ava';

import { LogSearchLimit } from '../../../scheduler/services/log-waits.ts';

test('two searches of an account run at once, the others in their order; other accounts do not wait', async (t) => {
  const limit = new LogSearchLimit();
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const search = (account: string, name: string): Promise<void> =>
    limit.run(account, () => {
      begun.push(name);
      return new Promise((resolve) => ends.set(name, resolve));
    });
  const all = ['a1', 'a2', 'a3', 'a4'].map((name) => search('a', name));
  all.push(search('b', 'b1'));
  t.deepEqual(begun, ['a1', 'a2', 'b1']);
  ends.get('a2')?.();
  await all[1];
  t.deepEqual(begun, ['a1', 'a2', 'b1', 'a3']);
  for (const name of ['a1', 'a3', 'b1']) ends.get(name)?.();
  await Promise.all([all[0], all[2], all[4]]);
  ends.get('a4')?.();
  await all[3];
  await t.throwsAsync(
    limit.run('a', () => Promise.reject(new Error('a search that fails frees its place'))),
    { message: /frees its place/ },
  );
  const more = search('a', 'a5');
  t.is(begun.at(-1), 'a5');
  ends.get('a5')?.();
  await more;
});

test('too many searches of an account are refused', async (t) => {
  const limit = new LogSearchLimit();
  const { promise, resolve } = Promise.withResolvers<void>();
  const all = Array.from({ length: 66 }, () => limit.run('a', () => promise));
  await t.throwsAsync(
    limit.run('a', () => promise),
    { code: 'RATE_LIMITED' },
  );
  await t.notThrowsAsync(limit.run('b', () => Promise.resolve()));
  resolve();
  await Promise.all(all);
});

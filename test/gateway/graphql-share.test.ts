/** What one caller's GraphQL queries cost the others: bounded documents, turns in rotation, a share of processor time. */
import test from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { FairTurns } from '../../gateway/graphql/fair-turns.ts';
import { start } from '../../gateway/assembly/start.ts';
import { FairQueue } from '../../lib/fair-queue.ts';
import { FakeScheduler, TOKEN } from './fake-scheduler.ts';
import { caller, connected, KEY, setup } from './harness.ts';

const numbered = (count: number, text: (i: number) => string): string => Array.from({ length: count }, (_, i) => text(i)).join(' ');

const outlandish: readonly (readonly [string, string, RegExp])[] = [
  [
    'fragments of one place',
    `{ account { ${numbered(400, (i) => `...f${i}`)} } } ${numbered(400, (i) => `fragment f${i} on Account { id }`)}`,
    /query: has more than 50 fragments/,
  ],
  [
    'fragments that none spreads',
    `{ account { id } } ${numbered(51, (i) => `fragment f${i} on Account { id }`)}`,
    /more than 50 fragments/,
  ],
  ['operations', numbered(51, (i) => `query q${i} { account { id } }`), /query: has more than 50 operations/],
  ['one field again and again', `{ account { ${'id '.repeat(900)} } }`, /query: selects the same fields more than 5000 times/],
  ['the same below', `{ account { ${'isolation { least } '.repeat(300)} } }`, /query: selects the same fields more than 5000 times/],
  ['by inline fragments', `{ account { ${'... on Account { id } '.repeat(400)} } }`, /query: selects the same fields more than 5000 times/],
  [
    'by fragments',
    `{ account { ${numbered(50, (i) => `...f${i}`)} } } ${numbered(50, (i) => `fragment f${i} on Account { ${'id '.repeat(15)} }`)}`,
    /query: selects the same fields more than 5000 times/,
  ],
  [
    'in a fragment that none spreads',
    `{ account { id } } fragment f on Account { ${'id '.repeat(200)} }`,
    /query: selects the same fields more than 5000 times/,
  ],
  [
    'fragments in a ring that none spreads',
    `{ account { id } } ${numbered(50, (i) => `fragment f${i} on Account { ...f${(i + 1) % 50} ...f${(i + 2) % 50} }`)}`,
    /query: selects more than 1000 fields/,
  ],
  ['empty inline fragments', `{ account { ${'... { id } '.repeat(600)} } }`, /query: selects more than 1000 fields/],
];

test('a document that is costly to validate is refused before its validation, with the rule', async (t) => {
  const { call } = await setup(t);
  for (const [name, query, rule] of outlandish) {
    const { status, text } = await call('POST', '/graphql', { body: JSON.stringify({ query }) });
    t.is(status, 400, name);
    t.regex(text, rule, name);
  }
  // What a client's own fragments repeat is well within the limits.
  const fragments = numbered(40, (i) => `fragment f${i} on Account { id isolation { least } }`);
  const query = `{ __typename ${numbered(2, (i) => `a${i}: __typename`)} account { ${numbered(40, (i) => `...f${i}`)} } } ${fragments}`;
  t.is((await call('POST', '/graphql', { body: JSON.stringify({ query }) })).status, 200);
});

test('a key that has used its share of processor time is refused, and no other', async (t) => {
  const scheduler = await new FakeScheduler().start();
  t.teardown(() => scheduler.stop());
  scheduler.addKey(KEY);
  scheduler.addKey('key-of-a-neighbour', { account: 'neighbour' });
  const settings = { port: 0, scheduler: scheduler.address, token: TOKEN, logLevel: 'silent', closeGraceMs: 0 };
  // No share comes back while the clock stands.
  const gateway = await start(readConfig({ ...settings, graphqlPerSecond: 100_000 }, {}), { now: () => 0 });
  t.teardown(() => gateway.close());
  const call = caller(t, gateway.url);
  await connected(call);
  const heavy = `{ ${numbered(20, (i) => `a${i}: __schema { types { fields { type { fields { type { name } } } } } }`)} }`;
  const ask = (query: string, key = KEY) => call('POST', '/graphql', { key, body: JSON.stringify({ query }) });
  let reply = await ask(heavy);
  while (reply.status === 200) reply = await ask(heavy);
  t.is(reply.status, 429);
  t.is(reply.headers['retry-after'], '1');
  t.regex(reply.text, /share of the processor time/);
  t.is((await ask('{ __typename }')).status, 429);
  t.is((await ask('{ __typename }', 'key-of-a-neighbour')).status, 200);
});

test('each turn of the loop begins one query, of the accounts in rotation', async (t) => {
  const turns = new FairTurns(() => 0);
  const begun: string[] = [];
  const begin = (account: string) =>
    turns.run({ key: account, account }, () => {
      begun.push(account);
      setImmediate(() => begun.push('|'));
      return Promise.resolve();
    });
  await Promise.all([begin('a'), begin('a'), begin('a'), begin('b'), begin('c')]);
  t.deepEqual(begun.join('').replaceAll('|', ''), 'abcaa');
  t.notRegex(begun.join(''), /[abc]{2}/);
});

test('a fair queue serves its parties in rotation', (t) => {
  const queue = new FairQueue<string>();
  for (const item of ['a1', 'a2', 'a3', 'b1']) queue.push(item.charAt(0), item);
  t.is(queue.sizeOf('a'), 3);
  t.is(queue.shift(), 'a1');
  queue.push('c', 'c1');
  t.deepEqual([queue.shift(), queue.shift(), queue.shift(), queue.shift()], ['b1', 'a2', 'c1', 'a3']);
  t.true(queue.isEmpty);
  t.is(queue.shift(), undefined);
});

import test from 'ava';

import { Scenario, type Weather } from './scenario.ts';
import type { Mutation } from './scheduler.ts';

/** SIM_SEED replays one seed; SIM_SEEDS sets how many are run. */
const only = process.env['SIM_SEED'];
const seeds = Number(process.env['SIM_SEEDS'] ?? 2_000);

/** Weather follows from the seed, so that a seed alone replays its run. */
function weatherOf(seed: number): Weather {
  return {
    jobs: 30 + (seed % 6) * 15,
    schedulerCrash: [0, 0.002, 0.01, 0.03][seed % 4] ?? 0,
    agentCrashes: seed % 5,
    disconnects: (seed * 3) % 7,
    workerLoss: seed % 2 === 0 ? 0.1 : 0,
    windowSize: [4, 8, 1_000][seed % 3] ?? 1_000,
  };
}

test('every invariant holds in every simulated world, whatever breaks', (t) => {
  t.timeout(300_000);
  const list = only === undefined ? Array.from({ length: seeds }, (_, i) => i + 1) : [Number(only)];
  let acknowledged = 0;
  let chunks = 0;
  for (const seed of list) {
    const result = new Scenario(seed, weatherOf(seed)).run();
    acknowledged += result.acknowledged;
    chunks += result.chunks;
  }
  t.log(`${list.length} seeds, ${acknowledged} acknowledged jobs, ${chunks} chunks read`);
  t.true(acknowledged > list.length);
});

test('a seed replays to the same trace', (t) => {
  for (const seed of [3, 77, 1_234])
    t.is(new Scenario(seed, weatherOf(seed)).run().digest, new Scenario(seed, weatherOf(seed)).run().digest);
});

const mutations: readonly [Mutation, RegExp][] = [
  ['answer-before-commit', /acknowledged before it was stored|lost|never stored/],
  ['forget-requeue', /counted|window|leased while|still/],
  ['forget-try', /webhook .* is still pending/],
  ['ignore-token', /another attempt|still holds|want of a slot/],
  ['free-slot-on-paper', /refused for want of a slot/],
];

for (const [mutation, noticed] of mutations) {
  test(`the checks bite: ${mutation} is noticed`, (t) => {
    for (let seed = 1; seed <= 200; seed++) {
      try {
        new Scenario(seed, weatherOf(seed), mutation).run();
      } catch (error) {
        t.regex((error as Error).message, noticed);
        return;
      }
    }
    t.fail('200 seeds noticed nothing');
  });
}

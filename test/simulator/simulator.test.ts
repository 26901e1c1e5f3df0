/** What makes the simulator worth believing: it replays, and each of its checks notices the fault that it is there for. */
import test from 'ava';

import type { FaultProfile } from './faults.ts';
import { Scenario } from './scenario.ts';
import type { Mutation } from './mutations.ts';
import { faultProfileOf } from './fault-profile.ts';

test('a seed replays to the same trace', (t) => {
  t.true(faultProfileOf(78).schedulers > 1);
  for (const seed of [3, 77, 78, 1_234])
    t.is(new Scenario(seed, faultProfileOf(seed)).run().digest, new Scenario(seed, faultProfileOf(seed)).run().digest);
});

const mutations: readonly [Mutation, RegExp][] = [
  ['answer-before-commit', /was acknowledged before it was stored/],
  ['forget-requeue', /counted \d+ (queued|leased) jobs, there are/],
  ['forget-try', /webhook .* is still pending/],
  ['ignore-token', /ended with the result of another attempt/],
  ['drop-on-answer', /chunk \d+ came after chunk|began with chunk/],
  ['free-slot-on-paper', /refused for want of a slot/],
  ['old-code', /submitted after a deployment, was given to a worker of an older release/],
  ['keep-drained', /the drained node .* has the worker/],
  ['keep-weak', /which isolates it less than its account requires/],
  ['keep-idle', /although the idle worker .* could make room/],
  ['no-stay', /ended \S+ ms after it was ready to make room/],
  ['preempt-min', /ended to make room, and leaves \d+ of the \d+ of workersMin/],
  ['forget-deployment', /the deployment .* in the store/],
  ['revive', /took job .* after it was removed/],
  ['no-quota', /workersMax come to \d+, the quota is/],
  ['skip-a-build', /goes back from . to ., not to . as it was deployed/],
  ['purge-less', /waited when the purge was asked for, and still does/],
  ['forget-secret', /the webhook secret .* was replaced and signs no more/],
  ['hide-refusals', /counted \d+ (queued|leased) jobs, there are|the store|is not there/],
  ['forget-result', /still holds \d+ attempts|is still LEASED after the world healed/],
  ['charge-neighbour', /is charged for what a neighbour did|ended for what a neighbour did/],
  ['forget-chunks', /of the \d+ chunks of attempt|came after chunk|began with chunk/],
];

/** Faults of the term protocol, which worlds with several schedulers show. */
const sharedMutations: readonly [Mutation, RegExp][] = [
  ['fence-by-count', /a batch of term \d+ was written in term|was written twice/],
  ['no-chain', /was written twice|the one before it was not/],
  ['take-copies', /was written twice/],
  [
    'settle-by-marker',
    /was acknowledged before it was stored|signs for|chunks of attempt|there are|the store|still holds|waited when the purge/,
  ],
  ['keep-term', /after its owner had read the state anew|lacks acknowledged batches|still holds|there are|the store/],
  ['no-fence', /left scheduler \d+ \S+ ms after the last confirmed batch was sent/],
  ['take-early', /which was taken over because it was silent/],
  ['trust-replica', /from a database that lacks acknowledged batches/],
  ['follow-lower-term', /a client that has seen term \d+ follows the owner of term \d+/],
  ['own-clock', /was deleted \d+ ms early|is sent \d+ ms early|is put off by/],
  ['older-owner', /a scheduler of version 1 owns a schema of version 2/],
];

/** They show only where batches arrive late, which is rare enough in ordinary worlds that 400 may have none. */
const lateMutations: readonly Mutation[] = ['keep-term', 'settle-by-marker'];
const OFTEN_MUTE = 0.03;

function profileFor(mutation: Mutation, seed: number): FaultProfile {
  const profile = faultProfileOf(seed);
  return lateMutations.includes(mutation) ? { ...profile, network: { ...profile.network, mute: OFTEN_MUTE } } : profile;
}

/**
 * Worlds that noticed a fault when those before them did not: run first, which saves a minute of processor time. As worlds change, others
 * take their place; the test names the one to put here.
 */
const KNOWN_SEEDS: Partial<Record<Mutation, number>> = {
  'ignore-token': 18,
  'drop-on-answer': 21,
  'free-slot-on-paper': 48,
  'old-code': 23,
  'keep-weak': 21,
  'keep-idle': 391,
  revive: 3,
  'purge-less': 3,
  'preempt-min': 11,
  'no-quota': 23,
  'forget-secret': 8,
  'forget-chunks': 10,
  'no-chain': 18,
  'take-copies': 67,
  'settle-by-marker': 187,
  'keep-term': 78,
  'take-early': 30,
  'trust-replica': 12,
  'follow-lower-term': 187,
  'older-owner': 109,
};
/** Worlds a fault may need before the test names the one that noticed it. */
const MAX_QUIET_WORLDS = 8;

for (const [mutation, noticed] of [...mutations, ...sharedMutations]) {
  test(`the checks bite: ${mutation} is noticed`, (t) => {
    const isShared = sharedMutations.some(([name]) => name === mutation);
    const others = new Set<string>();
    const seeds = Array.from({ length: 400 }, (_, index) => index + 1);
    let worlds = 0;
    for (const seed of [KNOWN_SEEDS[mutation] ?? 1, ...seeds]) {
      if (isShared && faultProfileOf(seed).schedulers === 1) continue;
      worlds += 1;
      try {
        new Scenario(seed, profileFor(mutation, seed), mutation).run();
      } catch (error) {
        const { message } = error as Error;
        if (noticed.test(message)) {
          if (worlds > MAX_QUIET_WORLDS) t.log(`noticed in world ${worlds} only: put seed ${seed} into KNOWN_SEEDS`);
          t.pass();
          return;
        }
        // Other checks may notice it in other worlds.
        others.add(message.split('\n')[0] ?? '');
      }
    }
    t.fail(`400 seeds noticed only ${[...others].slice(0, 5).join('; ') || 'nothing'}`);
  });
}

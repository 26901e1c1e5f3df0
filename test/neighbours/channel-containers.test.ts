/** The same as channel.test.ts in containers, with connections to the agent from their network, and in gVisor, which has none here. */
import test from 'ava';

import { containerTest, gvisorTest } from '../escapes/root-test.ts';
import { placeOf } from '../escapes/places.ts';
import { attackNode } from './attacked-node.ts';
import { MODULES, type Attack } from './attacks.ts';

/** Of each kind one: a container takes its time to start. */
const FLOODS: readonly Attack[] = ['progress', 'chunks', 'newlines'];
const files = { 'main.py': MODULES['main.py'] };
const release = { runtime: 'container' };

/** One after the other: each needs the processors. */
const serial = (each: typeof test): typeof test.serial => (each === test ? test.serial : test.skip) as typeof test.serial;

serial(containerTest)(
  "container: beside each attack on the channel a neighbour's jobs are served, and the agent's memory stays",
  async (t) => {
    t.timeout(300_000);
    const place = await placeOf(t, 'container', `capstan-floods-${process.pid}`);
    await attackNode(t, {
      place,
      files,
      release: { ...release, network: 'host' },
      attacks: [...FLOODS, 'results', 'connections'],
      workerCount: 1,
    });
  },
);

serial(gvisorTest)("gVisor: beside each attack on the channel a neighbour's jobs are served, and the agent's memory stays", async (t) => {
  t.timeout(300_000);
  const place = await placeOf(t, 'gvisor', `capstan-floods-gvisor-${process.pid}`);
  await attackNode(t, { place, files, release, attacks: FLOODS, workerCount: 1 });
});

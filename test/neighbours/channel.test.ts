/**
 * What a worker's neighbours feel of it while its code floods the channel to their agent and its own output: nothing that
 * matters. How it is judged: feeling.ts.
 */
import { availableParallelism } from 'node:os';

import test from 'ava';

import { ATTACKS, MODULES, RUNTIMES } from './attacks.ts';
import { attackNode } from './attacked-node.ts';

/** As many as processors: what more of them add is the wait for a processor, which the kernel's scheduler divides. */
const WORKERS = Math.min(4, availableParallelism());

for (const { name, runtime, module } of RUNTIMES) {
  test.serial(`${name}: beside each attack on the channel a neighbour's jobs are served, and the agent's memory stays`, async (t) => {
    t.timeout(300_000);
    await attackNode(t, { files: { [module]: MODULES[module] }, release: { runtime }, attacks: ATTACKS, workerCount: WORKERS });
  });
}

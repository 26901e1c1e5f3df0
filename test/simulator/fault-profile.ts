/** Which worlds are simulated: `SIM_SEEDS` sets how many seeds are run, `SIM_SEED` replays one. */
import type { ExecutionContext } from 'ava';

import type { ClusterFaults } from './cluster.ts';
import { CALM } from './database-store.ts';
import type { FaultProfile } from './faults.ts';
import { Scenario } from './scenario.ts';

const only = process.env['SIM_SEED'];
const seeds = Number(process.env['SIM_SEEDS'] ?? 2_000);

/** Weather follows from the seed, so that a seed alone replays its run. */
export function faultProfileOf(seed: number): FaultProfile {
  return {
    ...clusterFaultsOf(seed),
    // Alike in even and odd seeds, which two files share.
    jobs: 20 + ((seed >> 1) % 6) * 10,
    schedulerCrash: [0, 0.002, 0.01, 0.03][seed % 4] ?? 0,
    diskFull: seed % 5 === 0 ? 0.003 : 0,
    rival: seed % 11 === 0 ? 0.003 : 0,
    secondBatchWrites: [1, 4, 12][seed % 3] ?? 12,
    inputBytes: [64_000_000, 1_500, 0][(seed >> 2) % 3] ?? 0,
    agentCrashes: seed % 5,
    disconnects: (seed * 3) % 7,
    deviceLosses: (seed * 7) % 4,
    changes: (seed * 11) % 13,
    ruleChanges: seed % 8 === 5 ? 1 + ((seed >> 3) % 4) : 0,
    failingStarts: [0, 0, 0.35][seed % 3] ?? 0,
    channelBreaks: (seed * 5) % 6,
    gatewayCrashes: seed % 7 === 0 ? 2 : 0,
    workerLoss: seed % 2 === 0 ? 0.1 : 0,
    windowSize: [4, 8, 1_000][seed % 3] ?? 1_000,
  };
}

/** A third of the worlds has several schedulers on one database. */
function clusterFaultsOf(seed: number): ClusterFaults {
  const isShared = (seed >> 1) % 3 === 0;
  if (!isShared) return { schedulers: 1, network: CALM, pauses: 0, handovers: 0, isReplicaBehind: false };
  const rough = [0, 0.004, 0.015][(seed >> 3) % 3] ?? 0;
  const isReplicaBehind = (seed >> 2) % 16 === 3;
  const quiet = { schedulers: 2 + ((seed >> 2) % 3), network: CALM, pauses: 0, handovers: 0, isReplicaBehind };
  if (isReplicaBehind) return quiet;
  return {
    ...quiet,
    network: { crash: [0, 0.002, 0.01][seed % 3] ?? 0, cut: rough * 3, mute: rough / 2, copy: rough * 2, refusal: rough },
    pauses: (seed * 5) % 6,
    handovers: (seed * 7) % 5,
  };
}

/** Runs every second seed, so that two files share the work. */
export async function everyInvariantHolds(t: ExecutionContext, remainder: 0 | 1): Promise<void> {
  t.timeout(600_000);
  const all = only === undefined ? Array.from({ length: seeds }, (_, i) => i + 1) : [Number(only)];
  const list = all.filter((seed) => seed % 2 === remainder);
  let acknowledged = 0;
  let chunks = 0;
  let besideAnother = 0;
  let dropped = 0;
  const shared = { worlds: 0, terms: 0, bySilence: 0, refused: 0, stopped: 0 };
  for (const seed of list) {
    // Else ava hears nothing of this thread, not even the time it is allowed, and takes it for hung on a busy machine.
    await new Promise((resolve) => setImmediate(resolve));
    const faults = faultProfileOf(seed);
    const result = new Scenario(seed, faults).run();
    if (faults.schedulers > 1) shared.worlds++;
    if (result.hasStopped) shared.stopped++;
    shared.terms += result.terms;
    shared.bySilence += result.bySilence;
    shared.refused += result.refused;
    acknowledged += result.acknowledged;
    chunks += result.chunks;
    besideAnother += result.besideAnother;
    dropped += result.dropped;
  }
  t.log(`${list.length} seeds, ${acknowledged} acknowledged jobs, ${chunks} chunks read`);
  t.log(`${besideAnother} batches left beside another, ${dropped} states were dropped after a failed commit`);
  const { worlds, terms, bySilence, refused, stopped } = shared;
  t.log(`${worlds} worlds of several schedulers: ${terms} terms, ${bySilence} of them by an owner's silence, ${refused} batches refused`);
  t.true(acknowledged >= list.length);
  // Else the worlds are too quiet to show anything about these.
  if (list.length >= 50) t.true(besideAnother > list.length);
  if (list.length >= 500) t.true(dropped > 10);
  if (list.length >= 500) t.true(terms > 2 * worlds && bySilence > 10 && refused > 10 && stopped > 0);
}

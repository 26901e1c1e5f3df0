/**
 * kill -9 of agents and workers of three nodes under load, at random: no acknowledged job is lost or
 * recorded twice, every device can be used afterwards, and no process is left. `CAPSTAN_TEST_KILLS`
 * sets how many (10; 50 take some two minutes), `CAPSTAN_TEST_SEED` replays an order.
 */
import { randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { Random } from '../simulator/random.ts';
import { Fleet } from '../support/fleet.ts';
import { canFindProcesses } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { expectAllCompleted, expectKeysKept, expectStored } from './check.ts';
import { Load } from './load.ts';

const GPUS = 2;
const NODES = ['a', 'b', 'c'] as const;
const RATE = 100;
/** Share of the kills that hit an agent; the others hit a worker's process. */
const AGENT_SHARE = 0.3;

const linux = canFindProcesses ? test : test.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

linux('agents and workers are killed at random over three nodes, and nothing is lost, doubled or leaked', async (t) => {
  t.timeout(400_000);
  const seed = Number(process.env['CAPSTAN_TEST_SEED'] ?? randomInt(2 ** 31));
  const kills = Number(process.env['CAPSTAN_TEST_KILLS'] ?? 10);
  t.log(`CAPSTAN_TEST_SEED=${seed}`);
  const random = new Random(seed);
  const fleet = await Fleet.start(GPUS, {
    CAPSTAN_RUNSYNC_RETENTION_MS: '300000',
    CAPSTAN_NODE_GRACE_MS: '3000',
    CAPSTAN_SILENCE_MS: '4000',
    CAPSTAN_HEARTBEAT_MS: '500',
  });
  t.teardown(() => fleet.close());
  const { stack } = fleet;
  await fleet.connected('a');
  await Promise.all([fleet.join('b'), fleet.join('c')]);
  const app = join(import.meta.dirname, 'fleet-app');
  const endpoints = await stack.deploy(app);
  const echo = endpoints.get('echo') ?? '';
  const hold = endpoints.get('hold') ?? '';
  const load = new Load(stack, echo, () => random.next(), RATE);
  t.teardown(() => load.close());
  load.start();

  const hit = { agents: 0, workers: 0 };
  for (let i = 0; i < kills; i++) {
    await load.more(random.int(5, 40));
    if (random.chance(AGENT_SHARE)) {
      const name = random.pick(NODES);
      await fleet.kill(name);
      hit.agents++;
      // The supervisor brings its own agent back; the others are this test's.
      if (name !== 'a') await fleet.agent(name);
      else await until('the agent of capstan up is running again', () => fleet.isUp('a'));
      continue;
    }
    const hosts = stack.pids('host');
    if (hosts.length === 0) continue;
    killIfThere(random.pick(hosts));
    hit.workers++;
  }
  await load.complete();
  await load.stop();
  t.log(`${hit.agents} agents and ${hit.workers} workers killed`);
  await expectAllCompleted(t, stack, echo, load);
  await expectKeysKept(t, load);
  const repeated = load.acknowledged.filter((job) => (job.ended?.retries ?? 0) > 0).length;
  t.log(`${load.acknowledged.length} jobs, ${repeated} of them run again; ${load.resent} requests sent again, ${load.lost} given up`);

  // Every device can be used: the first endpoint gives all of them back, the second takes all of them.
  await fleet.deployChanged(app, (manifest) =>
    manifest.replace('"workersMin": 6', '"workersMin": 0').replace('"workersMax": 6', '"workersMax": 0'),
  );
  const gate = join(stack.scratch, 'gate');
  const holding = await Promise.all(Array.from({ length: NODES.length * GPUS }, () => stack.run(hold, { gate })));
  await until(
    'every device holds a job',
    async () => {
      const documents = await Promise.all(holding.map((job) => stack.status(hold, job)));
      return documents.every(({ status }) => status === 'IN_PROGRESS');
    },
    120_000,
  );
  await writeFile(gate, '');
  const documents = await Promise.all(holding.map((job) => stack.ended(hold, job)));
  t.is(new Set(documents.map(({ output }) => (output as { devices: string }).devices)).size, NODES.length * GPUS);

  await fleet.endAgents();
  t.is(await stack.interrupt(), 0);
  await stack.gone();
  expectStored(t, stack, load, holding.length);
});

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It may have ended since it was seen.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

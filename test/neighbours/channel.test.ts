/**
 * What a worker's neighbours feel of it while its code floods the channel to their agent and its own output: nothing that
 * matters. The agent is a process of its own with the options that it has on a node. How it is judged: feeling.ts.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import test, { type ExecutionContext } from 'ava';

import type { AgentConfigInput } from '../../agent/config.ts';
import { JOIN_TOKEN, type FakeScheduler } from '../agent/fake-scheduler.ts';
import { addBuild, functionSpec, startScheduler } from '../agent/fixtures.ts';
import { PART_NODE_ARGS } from '../../cli/parts/part-process.ts';
import { folderOf } from '../support/folder.ts';
import { ATTACKS, CONTROL, MANY_JOBS, MODULES, RUNTIMES } from './attacks.ts';
import { assertCalm, MAX_GROWTH_BYTES, mebibytes, p99 } from './feeling.ts';
import { residentOf, watchPeak } from './process-memory.ts';

const AGENT = fileURLToPath(new URL('../agent/agent-process.ts', import.meta.url));
/** Jobs of the victim beside each attack. */
const JOBS = 100;
/** Workers of the attacker: an account's share is the same however many it has. */
const WORKERS = 1;
/** Memory in use, without what the collector has not looked at: an attack leaves nothing behind. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024;

interface Node {
  readonly scheduler: FakeScheduler;
  readonly pid: number;
  /** Memory in use by the agent, bytes. */
  readonly used: () => Promise<number>;
}

async function startNode(t: ExecutionContext): Promise<Node> {
  const scheduler = await startScheduler(t);
  scheduler.keepsStreams = false;
  const config: AgentConfigInput = {
    dataDir: await folderOf(t),
    scheduler: scheduler.address,
    joinToken: JOIN_TOKEN,
    logLevel: 'silent',
    nvidiaSmi: '/nonexistent/nvidia-smi',
    isolation: 'none',
    containerSocket: 'none',
    spareHosts: 0,
    hostEnv: { PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin' },
  };
  const agent = spawn(process.execPath, [...PART_NODE_ARGS, '--expose-gc', AGENT, JSON.stringify(config)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  t.teardown(async () => {
    agent.kill('SIGTERM');
    await once(agent, 'exit');
  });
  await scheduler.hello();
  const used = async (): Promise<number> => {
    agent.send('used');
    return ((await once(agent, 'message')) as [number])[0];
  };
  return { scheduler, pid: agent.pid ?? 0, used };
}

const IDLE = ({ state }: { readonly state: string }): boolean => state === 'WORKER_STATE_IDLE';

for (const { name, runtime, module } of RUNTIMES) {
  test.serial(`${name}: beside each attack on the channel a neighbour's jobs are served, and the agent's memory stays`, async (t) => {
    t.timeout(300_000);
    const { scheduler, pid, used } = await startNode(t);
    const attackers = {
      ...(await addBuild(t, scheduler, { [module]: MODULES[module] })),
      runtime,
      functions: [functionSpec('attack')],
      maxConcurrency: MANY_JOBS + 1,
    };
    const victims = {
      ...(await addBuild(t, scheduler, { 'main.js': 'export const victim = (n) => n;' })),
      ...{ releaseId: 'r2', endpointId: 'ep2', accountId: 'victims', runtime: 'thread', functions: [functionSpec('victim')] },
    };
    const victim = { workerId: 'w2', releaseId: 'r2' };
    scheduler.desire([victim], [victims]);
    await scheduler.worker('w2', IDLE);
    let jobs = 0;
    const ask = async (): Promise<number> => {
      const jobId = `victim-${(jobs += 1)}`;
      const from = scheduler.now;
      const begun = performance.now();
      scheduler.dispatch({ jobId, workerId: 'w2' }, { n: jobs });
      const { outcome, output, error } = await scheduler.ended(jobId, from);
      t.is(outcome, 'ATTEMPT_OUTCOME_COMPLETED', error);
      t.is(scheduler.valueOf(output), jobs);
      return performance.now() - begun;
    };
    for (let n = 0; n < JOBS; n += 1) await ask();
    let round = 0;
    /** The p99 of the victim's jobs beside workers of an account of its own that attack, or keep a processor busy. */
    const beside = async (attack: (typeof ATTACKS)[number] | typeof CONTROL): Promise<number> => {
      const id = `${attack}-${(round += 1)}`;
      const release = { ...attackers, releaseId: `r-${id}`, endpointId: `ep-${id}`, accountId: `attackers-${id}` };
      const workers = Array.from({ length: WORKERS }, (_, at) => ({ workerId: `w-${id}-${at + 1}`, releaseId: release.releaseId }));
      scheduler.desire([victim, ...workers], [victims, release]);
      for (const { workerId } of workers) await scheduler.worker(workerId, IDLE);
      const before = residentOf(pid);
      const peak = watchPeak(pid);
      const jobs: string[] = [];
      const start = async (workerId: string, input: (key: string) => object): Promise<string> => {
        const jobId = `${workerId}-${jobs.length}`;
        jobs.push(jobId);
        scheduler.dispatch({ jobId, workerId }, input(`${jobId}#1`));
        await scheduler.hear('started', (value) => value.jobId === jobId);
        return `${jobId}#1`;
      };
      for (const { workerId } of workers) {
        const keys: string[] = [];
        for (let n = 0; n < (attack.endsWith('-of-many') ? MANY_JOBS / WORKERS : 0); n += 1)
          keys.push(await start(workerId, (key) => ({ attack: 'wait', key, keys: [] })));
        await start(workerId, (key) => ({ attack, key, keys: [key, ...keys] }));
      }
      const times: number[] = [];
      for (let n = 0; n < JOBS; n += 1) {
        times.push(await ask());
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      const from = scheduler.now;
      for (const jobId of jobs) scheduler.send({ $case: 'stop', value: { jobId, token: 1, reason: 'STOP_REASON_CANCELLED' } });
      scheduler.desire([victim], [victims]);
      await scheduler.hear('workers', ({ workers: left }) => left.every((each) => each.workerId === 'w2'), from);
      const grown = peak() - before;
      t.log(`${attack}: p99 ${Math.round(p99(times))} ms, memory +${mebibytes(grown)} MiB`);
      t.true(grown < MAX_GROWTH_BYTES, `${attack}: the agent grew by ${mebibytes(grown)} MiB`);
      return p99(times);
    };
    await beside(CONTROL);
    const kept = await used();
    for (const attack of ATTACKS)
      await assertCalm(
        t,
        attack,
        () => beside(attack),
        () => beside(CONTROL),
      );
    const left = (await used()) - kept;
    t.log(`${mebibytes(left)} MiB are kept after the attacks`);
    t.true(left < MAX_KEPT_BYTES, `${mebibytes(left)} MiB are kept after the attacks`);
    t.is(scheduler.heard.items.filter(({ $case }) => $case === 'hello').length, 1, 'one session throughout');
  });
}

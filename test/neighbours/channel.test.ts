/**
 * What a worker's neighbours feel of it while its code floods the channel to their agent and its own output: nothing that
 * matters. The agent is a process of its own, as on a node.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import test, { type ExecutionContext } from 'ava';

import type { AgentConfigInput } from '../../agent/config.ts';
import { JOIN_TOKEN, type FakeScheduler } from '../agent/fake-scheduler.ts';
import { addBuild, functionSpec, startScheduler } from '../agent/fixtures.ts';
import { folderOf } from '../support/folder.ts';
import { ATTACKS, MANY_JOBS, MODULES, RUNTIMES } from './attacks.ts';

const AGENT = fileURLToPath(new URL('../agent/agent-process.ts', import.meta.url));
/** Jobs of the victim beside each attack. */
const JOBS = 100;
const MAX_MS = 250;
const MAX_BYTES = 100 * 1024 * 1024;
/**
 * An attack that stalls the node does so each time; what else a busy machine does is over at another attempt. For memory this is the
 * weaker check: an attempt begins with what the one before left in the agent.
 */
const ATTEMPTS = 3;

interface Node {
  readonly scheduler: FakeScheduler;
  /** Resident memory of the agent, bytes. */
  readonly memory: () => Promise<number>;
}

async function startNode(t: ExecutionContext): Promise<Node> {
  const scheduler = await startScheduler(t);
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
  const agent = spawn(process.execPath, [AGENT, JSON.stringify(config)], { stdio: ['ignore', 'ignore', 'inherit'] });
  t.teardown(async () => {
    agent.kill('SIGTERM');
    await once(agent, 'exit');
  });
  await scheduler.hello();
  return {
    scheduler,
    memory: async () => {
      const status = await readFile(`/proc/${String(agent.pid)}/status`, 'utf8');
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
    },
  };
}

const IDLE = ({ state }: { readonly state: string }): boolean => state === 'WORKER_STATE_IDLE';

for (const { name, runtime, module } of RUNTIMES) {
  test.serial(`${name}: beside each attack on the channel a neighbour's jobs are served, and the agent's memory stays`, async (t) => {
    t.timeout(300_000);
    const { scheduler, memory } = await startNode(t);
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
      const begun = performance.now();
      scheduler.dispatch({ jobId, workerId: 'w2' }, { n: jobs });
      const { outcome, output, error } = await scheduler.ended(jobId);
      t.is(outcome, 'ATTEMPT_OUTCOME_COMPLETED', error);
      t.is(scheduler.valueOf(output), jobs);
      return performance.now() - begun;
    };
    for (let n = 0; n < JOBS; n += 1) await ask();
    /** Attacks with a worker of its own; returns what the victim and the agent felt meanwhile. */
    const attempt = async (attack: (typeof ATTACKS)[number], number: number): Promise<{ p99: number; grown: number }> => {
      const id = `${attack}-${number}`;
      const workerId = `w-${id}`;
      const release = { ...attackers, releaseId: `r-${id}`, endpointId: `ep-${id}`, accountId: `attackers-${id}` };
      scheduler.desire([victim, { workerId, releaseId: release.releaseId }], [victims, release]);
      await scheduler.worker(workerId, IDLE);
      const before = await memory();
      const jobId = `${id}-1`;
      const others = Array.from({ length: attack.endsWith('-of-many') ? MANY_JOBS : 0 }, (_, at) => `${id}-${at + 2}`);
      for (const other of others) {
        scheduler.dispatch({ jobId: other, workerId }, { attack: 'wait', key: '', keys: [] });
        await scheduler.hear('started', (value) => value.jobId === other);
      }
      const keys = [jobId, ...others].map((each) => `${each}#1`);
      scheduler.dispatch({ jobId, workerId, token: 1 }, { attack, key: `${jobId}#1`, keys });
      await scheduler.hear('started', (value) => value.jobId === jobId);
      const times: number[] = [];
      let peak = 0;
      for (let n = 0; n < JOBS; n += 1) {
        times.push(await ask());
        peak = Math.max(peak, await memory());
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      const from = scheduler.now;
      for (const each of [jobId, ...others])
        scheduler.send({ $case: 'stop', value: { jobId: each, token: 1, reason: 'STOP_REASON_CANCELLED' } });
      scheduler.desire([victim], [victims]);
      await scheduler.hear('workers', ({ workers }) => workers.every((each) => each.workerId === 'w2'), from);
      const p99 = times.toSorted((one, other) => one - other)[Math.ceil(0.99 * JOBS) - 1] ?? Infinity;
      t.log(`${attack}: p99 ${Math.round(p99)} ms, memory +${Math.round((peak - before) / 1024 / 1024)} MiB`);
      return { p99, grown: peak - before };
    };
    for (const attack of ATTACKS) {
      let felt = await attempt(attack, 1);
      for (let number = 2; number <= ATTEMPTS && (felt.p99 >= MAX_MS || felt.grown >= MAX_BYTES); number += 1)
        felt = await attempt(attack, number);
      t.true(felt.p99 < MAX_MS, `${attack}: p99 ${felt.p99} ms in the last of ${ATTEMPTS} attempts`);
      t.true(felt.grown < MAX_BYTES, `${attack}: the agent grew by ${felt.grown} bytes in the last of ${ATTEMPTS} attempts`);
    }
    t.is(scheduler.heard.items.filter(({ $case }) => $case === 'hello').length, 1, 'one session throughout');
  });
}

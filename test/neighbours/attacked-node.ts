/** A node whose workers attack: an agent as a process of its own, with the options that it has on a node, and a neighbour's worker. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import type { ExecutionContext } from 'ava';

import type { AgentConfigInput } from '../../agent/config.ts';
import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { JOIN_TOKEN, type FakeScheduler } from '../agent/fake-scheduler.ts';
import { addBuild, functionSpec, startScheduler } from '../agent/fixtures.ts';
import { PART_NODE_ARGS } from '../../supervisor/part-process.ts';
import type { Place } from '../escapes/places.ts';
import { folderOf } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { CONTROL, MANY_JOBS, type Attack } from './attacks.ts';
import { assertCalm, MAX_GROWTH_BYTES, mebibytes, p99 } from './feeling.ts';
import { residentOf, watchPeak } from './process-memory.ts';

const AGENT = fileURLToPath(new URL('../agent/agent-process.ts', import.meta.url));
/** Jobs of the victim beside each attack. */
const JOBS = 100;
/** Memory in use, without what the collector has not looked at: an attack leaves nothing behind. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024;

interface Node {
  readonly scheduler: FakeScheduler;
  readonly pid: number;
  /** Memory in use by the agent, bytes. */
  readonly used: () => Promise<number>;
  /** Of its worker API. */
  readonly apiPort: number;
}

async function startNode(t: ExecutionContext, place: Place | undefined): Promise<Node> {
  const scheduler = await startScheduler(t);
  scheduler.keepsStreams = false;
  const folder = await folderOf(t);
  const apiPort = place?.workerApiPort ?? (await freePort());
  const config: AgentConfigInput = {
    dataDir: folder,
    scheduler: (await place?.dial(scheduler.address, folder)) ?? scheduler.address,
    joinToken: JOIN_TOKEN,
    logLevel: 'silent',
    nvidiaSmi: '/nonexistent/nvidia-smi',
    isolation: 'none',
    containerSocket: 'none',
    spareHosts: 0,
    workerApiPort: apiPort,
    hostEnv: { PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin' },
    ...place?.config,
  };
  const line = [...(place?.enter ?? []), process.execPath, ...PART_NODE_ARGS, '--expose-gc', AGENT, JSON.stringify(config)];
  const [command = '', ...args] = line;
  const agent = spawn(command, args, {
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
  return { scheduler, pid: agent.pid ?? 0, used, apiPort };
}

const IDLE = ({ state }: { readonly state: string }): boolean => state === 'WORKER_STATE_IDLE';

export interface Attackers {
  /** Where the agent is; absent: this host, without isolation. */
  readonly place?: Place;
  readonly files: Readonly<Record<string, string>>;
  readonly release: Partial<ReleaseSpec>;
  readonly attacks: readonly Attack[];
  /** Workers of the attacker: an account's share is the same however many it has. */
  readonly workerCount: number;
}

/** Asserts that a neighbour's jobs are served beside each attack, in one session, and that the agent's memory stays. */
export async function attackNode(t: ExecutionContext, { place, files, release, attacks, workerCount }: Attackers): Promise<void> {
  const { scheduler, pid, used, apiPort } = await startNode(t, place);
  /** What attacks by connections dial. */
  const target = { host: place?.listening.hostAddress ?? '127.0.0.1', port: apiPort };
  const attackers: Partial<ReleaseSpec> = {
    ...(await addBuild(t, scheduler, files)),
    functions: [functionSpec('attack')],
    maxConcurrency: MANY_JOBS + 1,
    ...release,
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
  const beside = async (attack: Attack | typeof CONTROL): Promise<number> => {
    const id = `${attack}-${(round += 1)}`;
    const attacking = { ...attackers, releaseId: `r-${id}`, endpointId: `ep-${id}`, accountId: `attackers-${id}` };
    const workers = Array.from({ length: workerCount }, (_, at) => ({
      ...{ workerId: `w-${id}-${at + 1}`, releaseId: attacking.releaseId },
      ...(release.runtime === undefined ? {} : { runtime: release.runtime }),
    }));
    scheduler.desire([victim, ...workers], [victims, attacking]);
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
      for (let n = 0; n < (attack.endsWith('-of-many') ? MANY_JOBS / workerCount : 0); n += 1)
        keys.push(await start(workerId, (key) => ({ attack: 'wait', key, keys: [], ...target })));
      await start(workerId, (key) => ({ attack, key, keys: [key, ...keys], ...target }));
    }
    const from = scheduler.now;
    /** An engine needs both processors for some time to start a container: one that was ended for its attack is not started again. */
    const removeEnded = (): void => {
      const reported = scheduler.heard.items.slice(from).flatMap((event) => (event.$case === 'workers' ? event.value.workers : []));
      const ended = new Set(reported.filter(({ failures }) => failures > 0).map(({ workerId }) => workerId));
      const left = desired.filter(({ workerId }) => !ended.has(workerId));
      if (left.length === desired.length) return;
      desired = left;
      scheduler.desire([victim, ...left], [victims, attacking]);
    };
    let desired = workers;
    const times: number[] = [];
    for (let n = 0; n < JOBS; n += 1) {
      times.push(await ask());
      if (place !== undefined) removeEnded();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
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
  for (const attack of attacks)
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
}

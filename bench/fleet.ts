/**
 * A simulated fleet: the real scheduler as a process, and agents with 8 GPUs over real gRPC (each with its own
 * connection and session, all in this process).
 *
 *   node bench/fleet.ts --agents 1000 --endpoints 1000 --workers 10 --idle 20 --settle 3 --json
 *
 * Four of five endpoints want GPUs, the others CPUs: 10,000 workers on 8,000 devices.
 */
import { cpus, loadavg } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { EndpointKind } from '../proto/gen/capstan/v1/common.ts';
import { EndpointSpec } from '../proto/gen/capstan/v1/control.ts';
import { CallStyle } from '../proto/gen/capstan/v1/nodes.ts';
import { DEVICES_PER_HOST, SimulatedFleet } from './fleet/agents.ts';
import { SchedulerProcess } from './fleet/scheduler.ts';
import { measureTick } from './fleet/tick.ts';
import { coresBetween, cpuByRole } from './processes.ts';

const { values } = parseArgs({
  options: {
    agents: { type: 'string', default: '1000' },
    endpoints: { type: 'string', default: '1000' },
    workers: { type: 'string', default: '10' },
    idle: { type: 'string', default: '20' },
    settle: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
  },
});
const agents = Number(values.agents);
const endpoints = Number(values.endpoints);
const perEndpoint = Number(values.workers);
const idleS = Number(values.idle);
const progress = (line: string): void => console.error(`=> ${line}`);

function spec(i: number): EndpointSpec {
  const onGpu = i % 5 !== 0 && (endpoints * perEndpoint * 4) / 5 <= agents * DEVICES_PER_HOST;
  return EndpointSpec.fromPartial({
    name: `e${i}`,
    kind: EndpointKind.QUEUE,
    workersMin: perEndpoint,
    workersMax: perEndpoint,
    idleTimeoutS: 3_600,
    gpuIds: onGpu ? 'AMPERE_80' : '',
    gpuCount: onGpu ? 1 : 0,
    functions: [{ name: `f${i}`, module: 'main.ts', parameters: [], callStyle: CallStyle.WHOLE }],
    maxConcurrency: 1,
  });
}

async function measureFleet() {
  progress('starting the scheduler');
  const scheduler = await SchedulerProcess.start({ CAPSTAN_WORKER_QUOTA: String(endpoints * perEndpoint) });
  const fleet = new SimulatedFleet();
  try {
    progress(`${agents} agents join`);
    let begun = performance.now();
    await fleet.join(scheduler.address, await scheduler.secret('join-token'), agents);
    const joinS = (performance.now() - begun) / 1_000;
    progress(`idle fleet for ${idleS} s`);
    const emptyCores = await coresOver(scheduler.pid, idleS);
    const wanted = endpoints * perEndpoint;
    progress(`${endpoints} endpoints of ${perEndpoint} workers`);
    begun = performance.now();
    const reached = fleet.reached(wanted);
    await scheduler.deploy(
      Array.from({ length: endpoints }, (_, i) => spec(i)),
      50,
    );
    const deployS = (performance.now() - begun) / 1_000;
    await Promise.race([reached, pause(20_000, undefined, { ref: false })]);
    const placedS = (performance.now() - begun) / 1_000;
    const placed = fleet.asked;
    await pause(Number(values.settle) * 1_000);
    progress(`${placed} idle workers for ${idleS} s`);
    const idleCores = await coresOver(scheduler.pid, idleS);
    return { joinS, deployS, placed, placedS, placementsPerSecond: placed / placedS, emptyCores, idleCores };
  } finally {
    fleet.close();
    await scheduler.close();
  }
}

/** Cores that a process uses over some seconds. */
async function coresOver(pid: number, seconds: number): Promise<number> {
  const before = cpuByRole(pid);
  const begun = performance.now();
  await pause(seconds * 1_000);
  const used = coresBetween(before, cpuByRole(pid), (performance.now() - begun) / 1_000);
  return Object.values(used).reduce((sum, cores) => sum + cores, 0);
}

const load = loadavg()[0];
const fleet = await measureFleet();
progress('the scaling tick');
const tick = measureTick(agents, endpoints, perEndpoint);
const machine = { cpu: cpus()[0]?.model.trim() ?? 'unknown', cores: cpus().length, node: process.versions.node, load };
const report = { machine, agents, endpoints, ...fleet, tick };
if (values.json) console.log(JSON.stringify(report, null, 2));
else {
  console.log(
    `${agents} agents joined in ${fleet.joinS.toFixed(1)} s; without work the scheduler uses ${fleet.emptyCores.toFixed(3)} cores`,
  );
  console.log(`${fleet.placed} workers placed and asked for in ${fleet.placedS.toFixed(2)} s: ${Math.round(fleet.placementsPerSecond)}/s`);
  console.log(`with ${fleet.placed} idle workers the scheduler uses ${fleet.idleCores.toFixed(3)} cores`);
  console.log(`a tick over ${endpoints} endpoints: ${tick.settledMs.toFixed(1)} ms settled; ${endpoints} more that cannot be placed:`);
  console.log(`  ${tick.blockedMs.toFixed(1)} ms while nothing changes, ${tick.fullMs.toFixed(1)} ms after a change of the fleet`);
}
if (fleet.placed < endpoints * perEndpoint) process.exitCode = 1;

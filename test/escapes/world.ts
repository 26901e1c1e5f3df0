/** What attackers attack: an agent as a process, a victim of another account, and this host's files, sockets and ports. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { ExecutionContext } from 'ava';

import type { IsolationLevel } from '../../lib/isolation.ts';
import type { AgentConfigInput } from '../../agent/config.ts';
import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { JOIN_TOKEN, type FakeScheduler, type Heard, type HeardOf } from '../agent/fake-scheduler.ts';
import { addBuild, functionSpec, startScheduler } from '../agent/fixtures.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { VICTIM, type Attacker } from './attackers.ts';
import { CHANNEL_ATTACKS } from './channel-attacks.ts';
import { IMAGE, placeOf } from './places.ts';

const AGENT = fileURLToPath(new URL('../agent/agent-process.ts', import.meta.url));
const MEBIBYTE = 1_048_576;
/** Above the bound of every place in a sandbox. */
const FILL_MEBIBYTES = 24;
const BOUND_MEBIBYTES = 16;
/** Within which a list is done, ms: gVisor needs the most. */
const LIST_MS = 120_000;
/** Below the 400 that an attacker tries. */
const PIDS = 300;

export interface Verdict {
  readonly verdict: 'succeeded' | 'refused' | 'broken';
  readonly detail: string;
}
export type Verdicts = Readonly<Record<string, Verdict>>;

export interface World {
  readonly networks: readonly string[];
  /** Runs the list in a worker of its own, removes the worker, and returns the verdicts of the list. */
  attack(attacker: Attacker, network: string): Promise<Verdicts>;
  /** Writes to the channel between worker and agent, each attack in a worker of its own; returns what went wrong. */
  attackChannel(attacker: Attacker, network: string): Promise<string[]>;
  /** What is not as before; empty when all is. */
  damage(): Promise<string[]>;
  /** Whether the command of a release that is a program of the host ran. */
  runsProgramOfHost(): Promise<boolean>;
  /** Pids of processes that attackers left. */
  survivors(): Promise<number[]>;
  /** Whether an attacker killed a process of the victim. */
  lostDecoy(): Promise<boolean>;
}

const reversed = (text: string): string => text.split('').toReversed().join('');

export async function startWorld(t: ExecutionContext, level: IsolationLevel): Promise<World> {
  const mark = `capstan-escapes-${process.pid}-${Math.random().toString(36).slice(2)}`;
  const secrets = {
    agent: `${mark}-of-the-agent`,
    environment: `${mark}-of-the-victim`,
    masterKey: `${mark}-master-key`,
    survivor: `${mark}-survivor`,
    commandLine: 'agent-process.ts',
  };
  const root = await folderOf(t, { 'scheduler/secrets/master-key': secrets.masterKey, 'canary/file': 'as it was' });
  await chmod(root, 0o711);
  await chmod(join(root, 'scheduler'), 0o700);
  await chmod(join(root, 'canary'), 0o755);
  const dataDir = join(root, 'agent-data');
  await mkdir(dataDir, { mode: 0o700 });
  const sharedMemory = `/dev/shm/${mark}`;
  await writeFile(sharedMemory, secrets.masterKey, { mode: 0o600 });
  t.teardown(() => rm(sharedMemory, { force: true }));
  const socketPath = join(root, 'canary/socket');
  const abstractSocket = mark;
  await listenAt(t, socketPath);
  await chmod(socketPath, 0o777);

  const scheduler = await startScheduler(t);
  const place = await placeOf(t, level, abstractSocket);
  const { isEngine, workerApiPort } = place;
  const config: AgentConfigInput = {
    dataDir,
    scheduler: await place.dial(scheduler.address, root),
    joinToken: JOIN_TOKEN,
    logLevel: 'silent',
    nvidiaSmi: '/nonexistent/nvidia-smi',
    spareHosts: 0,
    workerApiPort,
    workerPids: PIDS,
    workerDir: join(root, 'workers'),
    sandboxTmpBytes: BOUND_MEBIBYTES * MEBIBYTE,
    sandboxShmBytes: BOUND_MEBIBYTES * MEBIBYTE,
    containerPids: PIDS,
    containerTmpBytes: BOUND_MEBIBYTES * MEBIBYTE,
    containerShmBytes: BOUND_MEBIBYTES * MEBIBYTE,
    hostEnv: { PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin' },
    ...place.config,
  };
  const [command, ...args] = [...place.enter, process.execPath, AGENT, JSON.stringify(config)];
  const agent = spawn(command, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, AGENT_SECRET: secrets.agent },
  });
  const agentEnded = once(agent, 'exit');
  t.teardown(async () => {
    agent.kill('SIGTERM');
    await agentEnded;
    for (const pid of await processesWith(mark)) kill(pid);
  });
  const hello = await scheduler.hello();

  const victimRelease: Partial<ReleaseSpec> = {
    ...(await addBuild(t, scheduler, VICTIM)),
    releaseId: 'r2',
    endpointId: 'ep2',
    accountId: 'victims',
    runtime: 'process',
    functions: [functionSpec('victim')],
    env: { VICTIM: secrets.environment },
  };
  // Where its processes would not be seen, the victim is a process of the same host.
  const victimRuntime = isEngine && place.showsProcesses ? 'container' : 'process';
  const victimWorker = { workerId: 'w2', releaseId: 'r2', token: 'token-of-the-victim', runtime: victimRuntime };
  const inEngine = isEngine ? { runtime: 'container' } : {};
  scheduler.desire([victimWorker], [victimRelease]);
  await isIdle(scheduler, 'w2');
  let jobs = 0;
  const ask = async (work: string, input: object): Promise<unknown> => {
    const jobId = `victim-${(jobs += 1)}`;
    scheduler.dispatch({ jobId, workerId: 'w2' }, { do: work, ...input });
    const ended = await scheduler.ended(jobId);
    return ended.outcome === 'ATTEMPT_OUTCOME_COMPLETED' ? scheduler.valueOf(ended.output) : ended.error;
  };
  t.is(await ask('start', { secret: secrets.environment, mark: `${mark}-` }), 'started');
  const [victimPid, decoyPid] = await Promise.all(['victim', 'decoy'].map((name) => theOne(`${mark}-${name}`)));
  const victimBuild = await findBuild(dataDir, VICTIM['build.txt']);
  const identityFile = join(dataDir, 'agent/node.json');
  const identity = await readFile(identityFile, 'utf8');
  const [schedulerHost, schedulerPort] = scheduler.address.split(':');
  const targets = {
    ...{ agentPid: agent.pid, victimPid, decoyPid, victimBuild, dataDir, identityFile, schedulerDir: join(root, 'scheduler') },
    ...{ masterKey: join(root, 'scheduler/secrets/master-key'), canaryDir: join(root, 'canary'), sharedMemory },
    ...{ ...place.listening, schedulerHost, schedulerPort: Number(schedulerPort), workerApiPort, socketPath, abstractSocket },
    fillMebibytes: FILL_MEBIBYTES,
    reversed: Object.fromEntries(Object.entries(secrets).map(([name, value]) => [name, reversed(value)])),
  };

  let attacks = 0;
  /** Starts a worker of an attacker; returns its id. */
  const start = async ({ name, files, release }: Attacker, network: string): Promise<string> => {
    attacks += 1;
    const workerId = `w-${name}-${attacks}`;
    const releaseId = `r-${name}-${attacks}`;
    const isCommand = release.functions !== undefined;
    const spec: Partial<ReleaseSpec> = {
      ...(await addBuild(t, scheduler, files)),
      ...{ releaseId, endpointId: `ep-${workerId}`, accountId: 'attackers', functions: [functionSpec('attack')], network },
      env: isCommand ? { TARGETS: JSON.stringify(targets) } : {},
      ...release,
      ...(isEngine && isCommand ? { image: IMAGE, command: ['python3', '/capstan/build/attacks.py', 'stay'] } : {}),
    };
    scheduler.desire([victimWorker, { workerId, releaseId, ...inEngine }], [victimRelease, spec]);
    return workerId;
  };
  const removeAll = async (from: number): Promise<void> => {
    scheduler.desire([victimWorker], [victimRelease]);
    await scheduler.hear('workers', ({ workers }) => workers.length === 1 && workers[0]?.workerId === 'w2', from);
  };
  return {
    networks: (isEngine ? hello.inventory?.isolation?.containerNetworks : hello.inventory?.isolation?.processNetworks) ?? ['host'],
    async attack(attacker, network) {
      const from = scheduler.now;
      const workerId = await start(attacker, network);
      const isCommand = attacker.release.functions !== undefined;
      const verdicts = isCommand ? await printed(scheduler, `ep-${workerId}`) : await returned(scheduler, workerId, targets);
      await removeAll(from);
      return verdicts;
    },
    async attackChannel(attacker, network) {
      const wrong: string[] = [];
      for (const { name, writes } of CHANNEL_ATTACKS) {
        const from = scheduler.now;
        const workerId = await start(attacker, network);
        await isIdle(scheduler, workerId);
        const [held, attack] = [`held-${workerId}`, `attack-${workerId}`];
        scheduler.dispatch({ jobId: held, workerId: 'w2' }, { do: 'hold' });
        await scheduler.hear('started', ({ jobId }) => jobId === held);
        scheduler.dispatch({ jobId: attack, workerId }, { writes: writes(`${held}#1`) });
        const { outcome: end } = await scheduler.ended(attack);
        if (end !== 'ATTEMPT_OUTCOME_WORKER_LOST') wrong.push(`${name}: the attacker ended with ${end}`);
        const { outcome, output, error } = await scheduler.ended(held);
        const value = outcome === 'ATTEMPT_OUTCOME_COMPLETED' ? scheduler.valueOf(output) : error;
        if (value !== 'its own') wrong.push(`${name}: the victim's job ended with ${outcome}: ${String(value)}`);
        await removeAll(from);
      }
      return wrong;
    },
    async damage() {
      const found: string[] = [];
      if (agent.exitCode !== null || agent.signalCode !== null) found.push('the agent ended');
      const alive = (await ask('alive', {})) as { readonly victim?: boolean };
      if (alive.victim !== true) found.push(`the victim answers ${JSON.stringify(alive)}`);
      const unchanged: readonly (readonly [path: string, content: string])[] = [
        [join(root, 'canary/file'), 'as it was'],
        [victimBuild, VICTIM['build.txt']],
        [join(root, 'scheduler/secrets/master-key'), secrets.masterKey],
        [identityFile, identity],
      ];
      for (const [path, content] of unchanged) {
        if ((await readFile(path, 'utf8').catch(() => 'gone')) !== content) found.push(`${path} changed`);
      }
      const canary = (await readdir(join(root, 'canary'))).toSorted();
      if (canary.join() !== 'file,socket') found.push(`the canary's folder holds ${canary.join()}`);
      return found;
    },
    async runsProgramOfHost() {
      const program = join(root, 'program');
      const ran = join(root, 'ran');
      await mkdir(ran);
      await chmod(ran, 0o777);
      await writeFile(program, `#!/bin/sh\ntouch ${ran}/here\nsleep 600 # ${mark}\n`);
      await chmod(program, 0o755);
      const command: Partial<ReleaseSpec> = {
        ...(await addBuild(t, scheduler, { 'build.txt': 'a command' })),
        ...{ releaseId: 'r-host', endpointId: 'ep-host', accountId: 'attackers', runtime: 'process', functions: [], command: [program] },
        ...(isEngine ? { image: IMAGE } : {}),
      };
      scheduler.desire([victimWorker, { workerId: 'w-host', releaseId: 'r-host', ...inEngine }], [victimRelease, command]);
      const isOver = (): boolean =>
        scheduler.heard.items.some(
          (event) => event.$case === 'workers' && event.value.workers.some((each) => each.workerId === 'w-host' && each.failures > 0),
        );
      const has = await until('the command ran or its worker failed', async () => {
        const names = await readdir(ran);
        return names.length > 0 ? { ran: true } : isOver() ? { ran: false } : undefined;
      });
      const from = scheduler.now;
      scheduler.desire([victimWorker], [victimRelease]);
      await scheduler.hear('workers', ({ workers }) => workers.length === 1, from);
      return has.ran;
    },
    survivors: () => processesWith(secrets.survivor),
    async lostDecoy() {
      const alive = (await ask('alive', {})) as { readonly decoy?: boolean };
      return alive.decoy !== true;
    },
  };
}

async function isIdle(scheduler: FakeScheduler, workerId: string): Promise<void> {
  await scheduler.worker(workerId, ({ state }) => state === 'WORKER_STATE_IDLE');
}

async function returned(scheduler: FakeScheduler, workerId: string, targets: object): Promise<Verdicts> {
  await isIdle(scheduler, workerId);
  const jobId = `job-${workerId}-${scheduler.now}`;
  scheduler.dispatch({ jobId, workerId }, targets);
  const isEnd = (event: Heard): event is HeardOf<'ended'> => event.$case === 'ended' && event.value.jobId === jobId;
  const { value: ended } = await scheduler.heard.next(isEnd, 0, LIST_MS);
  if (ended.outcome !== 'ATTEMPT_OUTCOME_COMPLETED') throw new Error(`the attacker ended with ${ended.outcome}: ${ended.error}`);
  return scheduler.valueOf(ended.output) as Verdicts;
}

/** Verdicts that a command printed, from the log of its endpoint. */
function printed(scheduler: FakeScheduler, endpointId: string): Promise<Verdicts> {
  let requestId = 50_000;
  return until(
    'the command printed its verdicts',
    async () => {
      requestId += 1;
      const wanted = requestId;
      scheduler.send({ $case: 'logs', value: { requestId, endpointId, workerId: '', limit: 1_000, afterMs: 0n } });
      const { lines } = await scheduler.hear('logs', (value) => value.requestId === wanted);
      if (!lines.some(({ text }) => text === 'verdicts end')) return undefined;
      const verdicts = lines.flatMap(({ text }) =>
        text.startsWith('verdict ') ? [JSON.parse(text.slice('verdict '.length)) as Verdict & { readonly name: string }] : [],
      );
      return Object.fromEntries(verdicts.map(({ name, verdict, detail }) => [name, { verdict, detail }]));
    },
    LIST_MS,
  );
}

async function listenAt(t: ExecutionContext, path: string): Promise<void> {
  const server = createServer((socket) => socket.on('error', () => undefined).end('hello'));
  server.listen(path);
  await once(server, 'listening');
  t.teardown(() => server.close());
}

/** Living processes with a text in their command line or environment. */
async function processesWith(text: string): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    const contents = await Promise.all(['cmdline', 'environ'].map((file) => readFile(`/proc/${name}/${file}`, 'latin1').catch(() => '')));
    if (contents.some((content) => content.includes(text))) found.push(Number(name));
  }
  return found;
}

async function theOne(text: string): Promise<number> {
  return until(`the process ${text} runs`, async () => (await processesWith(text))[0]);
}

async function findBuild(dataDir: string, content: string): Promise<string> {
  const names = await readdir(dataDir, { recursive: true });
  for (const name of names.filter((each) => each.includes('/cache/') && each.endsWith('/build.txt'))) {
    if ((await readFile(join(dataDir, name), 'utf8')) === content) return join(dataDir, name);
  }
  throw new Error('the agent holds no build of the victim');
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}

/** The whole agent: one session with the scheduler, and the workers that the scheduler requests. */
import { randomUUID } from 'node:crypto';
import { dirname, join } from 'node:path';

import { pino, type Logger } from 'pino';

import pkg from '../package.json' with { type: 'json' };
import { makeFolder } from '../lib/durable.ts';
import { hostOfScheduler } from '../lib/owner/addresses.ts';
import { OwnerFinder } from '../lib/owner/owner-finder.ts';
import { clientCredentials } from '../lib/grpc-tls.ts';
import { acquireLock } from '../lib/lock.mjs';
import { CapstanError } from '../lib/errors.ts';
import type { SchedulerEvent } from '../proto/gen/capstan/v1/nodes.ts';
import { openTracing } from '../lib/telemetry/tracing.ts';
import { messageOf } from '../lib/to-error.ts';
import { visibleText } from '../lib/visible-text.ts';
import { compileBuild } from './artifacts/bytecode.ts';
import { ArtifactCache } from './artifacts/cache.ts';
import { BlobTransfer } from './blobs/blob-transfer.ts';
import { readJoinToken, type AgentConfig } from './config.ts';
import { Engine } from './engine/engine.ts';
import { Gateways } from './invoke/gateways.ts';
import { InventoryKeeper } from './inventory/inventory.ts';
import { KernelLog } from './inventory/kernel-log.ts';
import { NvidiaProbe } from './inventory/nvidia-probe.ts';
import { openPythonEnvironments } from './inventory/python-environment.ts';
import type { DeviceProbe } from './inventory/probe.ts';
import { killLeftovers } from './runtimes/escaped.ts';
import { LogForwarder } from './logs/forwarding/log-forwarder.ts';
import { LogStore } from './logs/log-store.ts';
import { LogWaits } from './logs/log-waits.ts';
import { stageBootstrap, WITH_INSTALLATION } from './runtimes/bootstrap.ts';
import { ContainerRuntime } from './runtimes/container/container-runtime.ts';
import { checkContainerRuntime, ContainerEngine } from './runtimes/container/engine.ts';
import type { Runtime } from './runtimes/runtime.ts';
import { AccountReaders } from './runtimes/reading/account-readers.ts';
import { WorkFolders } from './runtimes/work-folders.ts';
import { ControlGroups } from './sandbox/cgroups/control-groups.ts';
import { readIdentity } from './session/identity.ts';
import { noToken, Session } from './session/session.ts';
import { WorkerApi } from './worker-api/server.ts';
import { HostSoftware } from './host-software.ts';
import { agentVariables, defaultRuntimes, openNodeLevel } from './worker-runtimes.ts';

const PROTOCOL = 1;
const DAY_MS = 86_400_000;
/** Longest wait of the first Hello for the devices, ms: a hanging nvidia-smi must not keep a node offline. */
const FIRST_PROBE_MS = 2_000;
/** Time for the last results to be acknowledged when the agent closes, ms. */
const LAST_ACKS_MS = 2_000;
const LAST_ACKS_POLL_MS = 10;

/** Replacements of default parts, for a test or another runtime. */
export interface AgentDeps {
  readonly log?: Logger;
  readonly runtimes?: readonly Runtime[];
  readonly probe?: DeviceProbe;
}

export interface AgentHandle {
  /** The node's id; absent until it has joined. */
  readonly nodeId: string | undefined;
  /** Resolves with the node's id once it has one; immediately if it joined before. */
  readonly joined: Promise<string>;
  /** Resolves when the node was removed: every worker is gone by then, and the agent has closed itself. */
  readonly removed: Promise<CapstanError>;
  /** Accepts nothing new, lets jobs finish (config `drainMs`), kills what is left. */
  close(): Promise<void>;
}

/**
 * Starts the agent; it serves until closed, whether or not the scheduler is available. Throws DATA_DIR, CONFIG, and
 * CONFLICT when another agent runs on the data folder.
 */
export async function start(config: AgentConfig, deps: AgentDeps = {}): Promise<AgentHandle> {
  const folder = join(config.dataDir, 'agent');
  await prepareFolder(folder);
  const lock = takeFolder(folder);
  try {
    // A configured token file may appear later; a missing setting will not.
    if (config.joinToken === undefined && config.joinTokenFile === undefined && (await readIdentity(folder)) === undefined) throw noToken();
    return await startIn(folder, config, deps, lock);
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function startIn(folder: string, config: AgentConfig, deps: AgentDeps, lock: { release(): void }): Promise<AgentHandle> {
  const log = deps.log ?? pino({ name: 'agent', level: config.logLevel, hooks: { streamWrite: visibleText } }, pino.destination(2));
  const credentials = clientCredentials(config.scheduler, config);
  const tracing = await openTracing(config, { name: 'agent', version: pkg.version, warn: (fields, message) => log.warn(fields, message) });
  const incarnation = randomUUID();
  const forwarder = LogForwarder.open(config, {
    version: pkg.version,
    instanceId: () => session.identity?.nodeId ?? incarnation,
    log,
  });
  if (deps.runtimes === undefined) await checkContainerRuntime(new ContainerEngine(config.containerSocket), config.containerRuntime);
  const work = join(folder, 'work');
  const left = await killLeftovers(folder, work);
  if (left > 0) log.warn({ processes: left }, 'killed processes of an earlier agent');
  const workerApi = await WorkerApi.start({ host: config.workerApiHost, port: config.workerApiPort, log });
  const groups = await ControlGroups.open({ folder, warn: (fields, message) => log.warn(fields, message) });
  // Workers of a root agent may have user ids of their own, which cannot enter its folder.
  const workerDirs = process.getuid?.() === 0 ? [config.workerDir] : [];
  const shared = [WITH_INSTALLATION, ...workerDirs.map((each) => join(each, 'bootstrap'))];
  const bootstrap = await stageBootstrap(join(folder, 'bootstrap'), shared);
  const pythons = await openPythonEnvironments({
    env: config.hostEnv,
    // A bootstrap may exist in an installation that can no longer be written to.
    folders: [dirname(dirname(bootstrap)), ...workerDirs, folder].map((each) => join(each, 'python')),
    log,
  });
  const level = await openNodeLevel(config, { folder, bootstrap, pythons, groups, log });
  const { launcher } = level;
  const software = new HostSoftware({ pythons, launcher, variables: agentVariables(launcher, { folder, bootstrap }) });
  const runtimes =
    deps.runtimes ?? defaultRuntimes(config, { folder, bootstrap, api: workerApi, launcher, baseEnv: software.baseEnv, log });
  software.onChange = (baseEnv) => {
    log.info({ path: baseEnv['PATH'] }, "the host's Python has changed: workers that start from now on run in another one");
    for (const runtime of runtimes) runtime.setBaseEnv?.(baseEnv);
  };
  const readers = new AccountReaders({ bootstrap });
  const containers = runtimes.find((runtime) => runtime instanceof ContainerRuntime);
  const endpoints = new Map<string, KnownEndpoint>();
  const logs = await new LogStore({
    folder: join(folder, 'logs'),
    segmentBytes: config.logFileBytes,
    endpointBytes: config.logEndpointBytes,
    accountBytes: config.logAccountBytes,
    keptMs: config.logDays * DAY_MS,
    accountOf: (endpoint) => endpoints.get(endpoint)?.account ?? '',
    log,
    onLine: (line, trace) => {
      waits.lineAdded(line);
      forwarder?.add({ line, endpointName: endpoints.get(line.endpointId)?.name ?? '', ...(trace === undefined ? {} : { trace }) });
    },
  }).open();
  const waits = new LogWaits(logs, log, (value) => session.send({ event: { $case: 'logs', value } }));
  const finder = new OwnerFinder({ setting: config.scheduler, credentials, log, cell: () => session.cell });
  const blobs = new BlobTransfer(finder, () => session.identity);
  const cache = await ArtifactCache.open({
    ...{ folder: join(folder, 'cache'), maxBytes: config.cacheBytes, blobs, log },
    compile: (build, signal) => compileBuild(build, { env: software.hostEnv, signal }),
  });
  const workFolders = await WorkFolders.open(work, log);

  const schedulerHost = (): string => hostOfScheduler(finder.owner);
  /** Undefined until the scheduler and gateways have told it. */
  let gatewayUrl: string | undefined;
  const inventory = new InventoryKeeper({
    probe: deps.probe ?? nvidiaProbe(config, folder),
    kernelLog: new KernelLog(config.kernelLog),
    runtimes: runtimes.filter((runtime) => runtime !== containers).map(({ name }) => name),
    ...(containers === undefined ? {} : { engine: () => containers.probe() }),
    isolation: {
      processes: level.launcher.level,
      networks: level.networks,
      defaultNetworks: level.defaultNetworks,
      missing: [...level.missing, ...groups.missing],
    },
    builds: () => cache.digests,
    logForwarding: forwarder === undefined ? undefined : () => forwarder.counts,
    unreachableGateways: () => gateways.unreachable,
    gatewayUnknown: () => gatewayUrl === '',
    folder,
    python: software,
    lightMs: config.inventoryMs,
    fullMs: config.inventoryFullMs,
    log,
    onChange: (value) => {
      // The scheduler learns of a lost device before its consequences for the workers.
      session.send({ event: { $case: 'inventory', value } });
      const lost = value.devices.filter(({ healthy }) => !healthy);
      engine.feed({ kind: 'devices', problems: new Map(lost.map(({ uuid, problem }) => [uuid, problem])) });
    },
  });
  const engine = new Engine({
    runtimes: new Map(runtimes.map((runtime) => [runtime.name, runtime])),
    cache,
    blobs,
    workFolders,
    readers,
    log,
    isolation: () => inventory.current.isolation,
    publicUrl: config.publicUrl,
    schedulerHost,
    defaultNetworks: level.defaultNetworks,
    onGatewayUrl: (url) => {
      gatewayUrl = url;
      level.launcher.setGateway(url);
    },
    send: (event) => session.send(event),
    onLogLine: (line) => logs.add(line),
    tracing,
    onServing: () => gateways.workersChanged(),
    onDeviceDoubt: () => inventory.probeSoon(),
    gpuViewMs: config.gpuViewMs,
  });
  const gateways: Gateways = new Gateways({
    tls: config,
    log,
    nodeId: () => session.identity?.nodeId ?? '',
    workers: () => engine.serving(),
    serve: (workerId, request, events) => engine.serve(workerId, request, events),
    schedulerHost,
  });
  const removed = Promise.withResolvers<CapstanError>();
  let closing: Promise<void> | undefined;
  const end = (isRemoved: boolean): Promise<void> => (closing ??= close(isRemoved));
  const session = new Session({
    finder,
    nodeName: config.nodeName,
    folder,
    joinToken: () => readJoinToken(config),
    log,
    hello: () => ({ protocol: PROTOCOL, incarnation, agentVersion: pkg.version, ...engine.hello(), inventory: inventory.current }),
    onEvents: (events) => {
      noteEndpoints(endpoints, events);
      engine.onScheduler(events);
      for (const { event } of events) {
        if (event?.$case === 'logs') waits.request(event.value);
      }
      for (const { event } of events) if (event?.$case === 'gateways') gateways.set(event.value);
    },
    onDisconnected: () => {
      waits.forgetAll();
      engine.feed({ kind: 'disconnected' });
    },
    onCongested: (is) => engine.feed({ kind: 'congested', is }),
    onRejoined: () => engine.feed({ kind: 'rejoined' }),
    onRemoved: (error) => void giveUp(error),
  });

  async function giveUp(error: CapstanError): Promise<void> {
    await end(true);
    removed.resolve(error);
  }

  await Promise.race([inventory.start(), new Promise((resolve) => setTimeout(resolve, FIRST_PROBE_MS).unref())]);
  await session.start();

  async function close(isRemoved: boolean): Promise<void> {
    // Spares may wait for the first address.
    level.launcher.setGateway(config.publicUrl);
    await engine.close(isRemoved ? 0 : config.drainMs);
    gateways.close();
    // Nothing is acknowledged to a removed node.
    if (!isRemoved) await acknowledged(engine);
    engine.abortTransfers();
    await session.close();
    await Promise.all([inventory.close(), cache.close(), ...runtimes.map((runtime) => runtime.close())]);
    await Promise.all([level.launcher.close(), readers.close()]);
    await groups.close();
    await workFolders.close();
    await workerApi.close();
    blobs.close();
    finder.close();
    waits.forgetAll();
    await Promise.all([logs.close(), forwarder?.close(), tracing.close()]);
    lock.release();
    log.info('agent stopped');
  }

  return {
    get nodeId() {
      return session.identity?.nodeId;
    },
    joined: session.nodeId,
    removed: removed.promise,
    close: () => end(false),
  };
}

function nvidiaProbe(config: AgentConfig, folder: string): DeviceProbe {
  return new NvidiaProbe({
    program: config.nvidiaSmi,
    timeoutMs: config.nvidiaSmiTimeoutMs,
    folder: join(folder, 'probe'),
    env: config.hostEnv,
  });
}

async function prepareFolder(folder: string): Promise<void> {
  try {
    await makeFolder(folder, 0o700);
  } catch (error) {
    const reason = messageOf(error);
    throw new CapstanError('DATA_DIR', `cannot create the agent's folder: ${folder} (${reason})`, { cause: error });
  }
}

/** Two agents on one folder would have one node identity: each would kill what the other's workers started. */
function takeFolder(folder: string): { release(): void } {
  const lock = acquireLock(join(folder, 'lock'));
  if ('release' in lock) return lock;
  throw new CapstanError(
    'CONFLICT',
    `another agent is running on the data folder ${dirname(folder)} (process ${lock.heldBy}): stop it, or use another data folder`,
    { field: 'dataDir' },
  );
}

/** Waits briefly for the acknowledgements of the last results: another agent of this node could not send them again. */
async function acknowledged(engine: Engine): Promise<void> {
  for (const end = performance.now() + LAST_ACKS_MS; engine.unacknowledged > 0 && performance.now() < end;) {
    await new Promise((resolve) => setTimeout(resolve, LAST_ACKS_POLL_MS));
  }
}

interface KnownEndpoint {
  /** Absent from schedulers that do not say it. */
  readonly account: string | undefined;
  readonly name: string;
}

/**
 * The endpoints on this node: their accounts, for the quota of their logs, and their names, for forwarded lines. The files of other
 * endpoints remember their account.
 */
function noteEndpoints(known: Map<string, KnownEndpoint>, events: readonly SchedulerEvent[]): void {
  for (const { event } of events) {
    if (event?.$case !== 'desired') continue;
    known.clear();
    for (const { endpointId, accountId, endpointName } of event.value.releases)
      known.set(endpointId, { account: accountId, name: endpointName });
  }
}

/** The agent as a whole: one session with the scheduler, and the workers it asks for. */
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { pino, type Logger } from 'pino';

import { CapstanError } from '../proto/errors.ts';
import type { LogsRequest, SchedulerEvent } from '../proto/gen/capstan/v1/nodes.ts';
import { ArtifactCache } from './artifacts/cache.ts';
import { BlobTransfer } from './blobs/blob-transfer.ts';
import { readJoinToken, type AgentConfig } from './config.ts';
import { Engine } from './engine/engine.ts';
import { InventoryKeeper } from './inventory/inventory.ts';
import { NvidiaProbe } from './inventory/nvidia-probe.ts';
import type { DeviceProbe } from './inventory/probe.ts';
import { LogStore } from './logs/log-store.ts';
import type { Runtime } from './runtimes/runtime.ts';
import { ProcessRuntime } from './runtimes/process/process-runtime.ts';
import { ThreadRuntime } from './runtimes/thread/thread-runtime.ts';
import { Session } from './session/session.ts';

const AGENT_VERSION = '0.1.0';
const PROTOCOL = 1;
/** The first Hello waits this long for the devices, ms: a hanging nvidia-smi must not keep a node away. */
const FIRST_PROBE_MS = 2_000;
/** Time the last results have to be acknowledged when the agent ends, ms. */
const LAST_ACKS_MS = 2_000;
const LAST_ACKS_POLL_MS = 10;
/** Spares of the runtimes that few releases ask for let the agent's own start go first, ms. */
const LATER_SPARES_MS = 1_000;

/** Parts that a test, or a later runtime, puts in the place of the default ones. */
export interface AgentDeps {
  readonly log?: Logger;
  readonly runtimes?: readonly Runtime[];
  readonly probe?: DeviceProbe;
}

export interface AgentHandle {
  /** The node's id; absent until it has joined. */
  readonly nodeId: string | undefined;
  /** Resolves with the node's id once it has one; at once when it joined before. */
  readonly joined: Promise<string>;
  /** Takes nothing new, lets jobs finish (config `drainMs`), kills what is left. */
  close(): Promise<void>;
}

/** Starts the agent; it serves until closed, whether the scheduler is there or not. Throws DATA_DIR, CONFIG. */
export async function start(config: AgentConfig, deps: AgentDeps = {}): Promise<AgentHandle> {
  const log = deps.log ?? pino({ name: 'agent', level: config.logLevel }, pino.destination(2));
  const folder = join(config.dataDir, 'agent');
  await prepareFolder(folder);
  const runtimes = deps.runtimes ?? defaultRuntimes(config);
  const logs = new LogStore(join(folder, 'logs'), config.logFileBytes, log);
  const blobs = new BlobTransfer(config.scheduler, () => session.identity);
  const cache = await ArtifactCache.open({ folder: join(folder, 'cache'), maxBytes: config.cacheBytes, blobs, log });
  const incarnation = randomUUID();

  const inventory = new InventoryKeeper({
    probe: deps.probe ?? nvidiaProbe(config, folder),
    runtimes: runtimes.map(({ name }) => name),
    folder,
    env: config.hostEnv,
    lightMs: config.inventoryMs,
    fullMs: config.inventoryFullMs,
    log,
    onChange: (value) => session.send({ event: { $case: 'inventory', value } }),
  });
  const engine = new Engine({
    runtimes: new Map(runtimes.map((runtime) => [runtime.name, runtime])),
    cache,
    blobs,
    log,
    send: (event) => session.send(event),
    onLogLine: (line) => logs.add(line),
  });
  const session = new Session({
    address: config.scheduler,
    nodeName: config.nodeName,
    folder,
    joinToken: () => readJoinToken(config),
    log,
    hello: () => ({ protocol: PROTOCOL, incarnation, agentVersion: AGENT_VERSION, ...engine.hello(), inventory: inventory.current }),
    onEvents: (events) => {
      engine.onScheduler(events);
      answerLogs(events);
    },
    onDisconnected: () => engine.feed({ on: 'disconnected' }),
    onRejoined: () => engine.feed({ on: 'rejoined' }),
  });

  function answerLogs(events: readonly SchedulerEvent[]): void {
    for (const { event } of events) if (event?.$case === 'logs') answerLogRequest(event.value);
  }

  function answerLogRequest(request: LogsRequest): void {
    session.send({ event: { $case: 'logs', value: { requestId: request.requestId, lines: logs.find(request) } } });
  }

  await Promise.race([inventory.start(), new Promise((resolve) => setTimeout(resolve, FIRST_PROBE_MS).unref())]);
  await session.start();

  async function close(): Promise<void> {
    await engine.close(config.drainMs);
    await acknowledged(engine);
    engine.abortTransfers();
    await session.close();
    await Promise.all([inventory.close(), cache.close(), ...runtimes.map((runtime) => runtime.close())]);
    blobs.close();
    await logs.close();
    log.info('agent ended');
  }

  let closing: Promise<void> | undefined;
  return {
    get nodeId() {
      return session.identity?.nodeId;
    },
    joined: session.nodeId,
    close: () => (closing ??= close()),
  };
}

function defaultRuntimes({ hostEnv: baseEnv, spareHosts }: AgentConfig): Runtime[] {
  return [
    new ThreadRuntime({ baseEnv, spares: spareHosts }),
    // A host without Python has no spares of it; its inventory says so, and no release for Python comes here.
    new ProcessRuntime({ baseEnv, spares: { node: spareHosts, python: spareHosts }, spareDelayMs: LATER_SPARES_MS, python: 'python3' }),
  ];
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
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CapstanError('DATA_DIR', `the agent's folder cannot be made: ${folder} (${reason})`, { cause: error });
  }
}

/** Waits a little for the acknowledgements of the last results: another agent of this node could not send them again. */
async function acknowledged(engine: Engine): Promise<void> {
  for (const end = performance.now() + LAST_ACKS_MS; engine.unacknowledged > 0 && performance.now() < end;) {
    await new Promise((resolve) => setTimeout(resolve, LAST_ACKS_POLL_MS));
  }
}

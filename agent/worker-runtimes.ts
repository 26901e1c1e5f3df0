/** How workers run on this node: its level of isolation, and the runtimes that start them. */
import { dirname, join } from 'node:path';

import type { Logger } from 'pino';

import type { AgentConfig } from './config.ts';
import type { WorkerEnvironments } from './inventory/python-environment.ts';
import { ContainerRuntime } from './runtimes/container/container-runtime.ts';
import { ContainerEngine } from './runtimes/container/engine.ts';
import { AGENT_MARK, agentMark } from './runtimes/escaped.ts';
import { ForeignWorkers } from './runtimes/foreign/foreign-workers.ts';
import { ProcessGpuViews } from './runtimes/hosted/process-gpu-views.ts';
import { ownModules } from './runtimes/own-modules.ts';
import { ProcessRuntime } from './runtimes/process/process-runtime.ts';
import type { Runtime } from './runtimes/runtime.ts';
import { ThreadRuntime } from './runtimes/thread/thread-runtime.ts';
import type { ControlGroups } from './sandbox/cgroups/control-groups.ts';
import type { WorkerLauncher } from './sandbox/launcher.ts';
import { openLevel, type OpenedLevel } from './sandbox/levels/open-level.ts';
import type { WorkerApi } from './worker-api/server.ts';

/** Delay of spares for rarely used runtimes, ms: the agent's own start comes first. */
const LATER_SPARES_MS = 1_000;

interface LevelDeps {
  readonly folder: string;
  readonly bootstrap: string;
  readonly pythons: WorkerEnvironments;
  readonly groups: ControlGroups;
  readonly log: Logger;
}

/** Opens the level of isolation, and logs once what it is and what is missing. */
export async function openNodeLevel(config: AgentConfig, { folder, bootstrap, pythons, groups, log }: LevelDeps): Promise<OpenedLevel> {
  const { dataDir, workerUids } = config;
  const level = await openLevel({
    setting: config.isolation,
    sandbox: {
      folder,
      dataDir,
      uidRange: workerUids,
      env: pythons.own,
      sizes: { tmpBytes: config.sandboxTmpBytes, shmBytes: config.sandboxShmBytes },
      paths: [...config.sandboxPaths, bootstrap],
      spares: config.spareHosts > 0,
      network: { setting: config.workerNetwork, allowed: config.workerNetworkAllow, spares: Math.min(2, config.spareHosts) },
    },
    user: {
      ...{ folder: config.workerDir, dataDir, uids: workerUids, agentFolder: folder },
      ...{ hostEnv: pythons.everyone, reads: [bootstrap, ...pythons.folders] },
    },
    groups,
    pids: config.workerPids,
    log,
  });
  log.info({ isolation: level.launcher.level, network: level.defaultNetworks, networks: level.networks }, 'isolation of workers');
  for (const { without, reason, remedy } of [...level.missing, ...groups.missing]) {
    log.warn({ without, reason, ...(remedy === '' ? {} : { remedy }) }, 'isolation of workers is incomplete');
  }
  return level;
}

interface RuntimeDeps {
  readonly folder: string;
  readonly bootstrap: string;
  readonly api: WorkerApi;
  readonly launcher: WorkerLauncher;
  /** What workers inherit. */
  readonly baseEnv: Readonly<Record<string, string>>;
  readonly log: Logger;
}

/** The runtimes of a node: workers in threads, processes and containers. */
export function defaultRuntimes(config: AgentConfig, { folder, bootstrap, api, launcher, baseEnv, log }: RuntimeDeps): Runtime[] {
  const { spareHosts, workerPingMs: pingMs, workerFetchMs: fetchMs } = config;
  const gpus = new ProcessGpuViews({ program: config.nvidiaSmi, paths: config.sandboxPaths });
  return [
    new ThreadRuntime({ launcher, bootstrap, baseEnv, spares: spareHosts, gpus }),
    new ProcessRuntime({
      launcher,
      bootstrap,
      baseEnv,
      // A host without Python has no Python spares; its inventory reports that, so no Python release is placed here.
      spares: { node: spareHosts, python: spareHosts },
      spareDelayMs: LATER_SPARES_MS,
      python: 'python3',
      foreign: new ForeignWorkers({ api, baseEnv, pingMs, fetchMs }),
      gpus,
    }),
    containerRuntime(config, { folder, bootstrap, api, log }),
  ];
}

interface ContainerRuntimeDeps {
  readonly folder: string;
  readonly bootstrap: string;
  readonly api: WorkerApi;
  readonly log: Logger;
}

function containerRuntime(config: AgentConfig, { folder, bootstrap, api, log }: ContainerRuntimeDeps): ContainerRuntime {
  const {
    nodeName,
    workerPingMs: pingMs,
    workerFetchMs: fetchMs,
    containerNetwork: network,
    containerReadOnly: readOnlyRoots,
    registryAuthFile,
  } = config;
  return new ContainerRuntime({
    engine: new ContainerEngine(config.containerSocket),
    folder,
    bootstrap,
    nodeName,
    network,
    outboundNetwork: config.containerOutboundNetwork,
    readOnlyRoots,
    rules: {
      gpus: config.containerGpus,
      runtime: config.containerRuntime,
      pids: config.containerPids,
      tmpBytes: config.containerTmpBytes,
      shmBytes: config.containerShmBytes,
    },
    spares: { count: config.containerSpares, keptMs: config.containerSpareMs },
    registryAuthFile,
    log,
    // An image brings its own PATH and HOME.
    foreign: { workers: new ForeignWorkers({ api, baseEnv: {}, pingMs, fetchMs }), api },
  });
}

/** What every worker on this node inherits of the agent itself, whatever the host has. */
export function agentVariables(
  launcher: WorkerLauncher,
  { folder, bootstrap }: { readonly folder: string; readonly bootstrap: string },
): Record<string, string> {
  const { folder: build, workFolder } = launcher.placeOf({
    folder: join(folder, 'cache', 'build'),
    workFolder: join(folder, 'work', 'worker'),
  });
  return { ...ownModules(bootstrap, [dirname(build), dirname(workFolder)]), [AGENT_MARK]: agentMark(folder) };
}

/**
 * The `process` runtime: one process per worker with the handlers in its main thread, in Node or Python, depending on
 * the function's module.
 */
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { WorkerLauncher } from '../../sandbox/launcher.ts';
import type { WorkerPorts } from '../../sandbox/network/worker-networks.ts';
import { PlainLauncher } from '../../sandbox/plain-launcher.ts';
import { launchInProcess } from '../foreign/command-process.ts';
import type { Launcher } from '../foreign/launcher.ts';
import { isForeign, type ForeignWorkers } from '../foreign/foreign-workers.ts';
import { HostPool } from '../hosted/host-pool.ts';
import { nodeCommand } from '../hosted/host-program.ts';
import { STOPPED_BY_AGENT } from '../hosted/host-worker.ts';
import type { ProcessGpuViews } from '../hosted/process-gpu-views.ts';
import type { Runtime, RunningWorker, WorkerEvents, WorkerStart } from '../runtime.ts';
import { markOf } from '../escaped.ts';
import { ServerWorker } from '../server/server-worker.ts';
import { siteOnHost } from '../server/site.ts';
import { NODE_READS_AT_START } from '../thread/thread-runtime.ts';
import { languageOf, type Language } from './language.ts';

/** Read at process start by Python itself or by libraries it links. */
export const PYTHON_READS_AT_START = /^(PYTHON|LD_|TZ$|LANG$|LC_|MALLOC_|OPENSSL_|SSL_)/;

const PYTHON_MAIN = fileURLToPath(new URL('python/start.py', import.meta.url));

export interface ProcessRuntimeOptions {
  /** Default: level `none`. */
  readonly launcher?: WorkerLauncher;
  readonly bootstrap: string;
  /** The environment of every host: nothing of the agent's own environment. */
  readonly baseEnv: Readonly<Record<string, string>>;
  /** Number of spare hosts per language. */
  readonly spares: Readonly<Record<Language, number>>;
  /** Delay before the first of them start, ms. */
  readonly spareDelayMs?: number;
  /** Python 3.8 or newer: a name on PATH or a path. */
  readonly python: string;
  /** Runs releases that bring a command of their own; without it they are refused. */
  readonly foreign?: ForeignWorkers;
  /** As in HostPoolOptions. */
  readonly sharesDevices?: boolean;
  /** Absent: workers see the devices as the agent does. */
  readonly gpus?: ProcessGpuViews;
}

export class ProcessRuntime implements Runtime {
  readonly name = 'process';
  readonly #launcher: WorkerLauncher;
  readonly #pools: Readonly<Record<Language, HostPool>>;
  readonly #foreign: ForeignWorkers | undefined;
  #baseEnv: Readonly<Record<string, string>>;
  readonly #gpus: ProcessGpuViews | undefined;
  /** Workers with their own server, each with a promise of its end. */
  readonly #servers = new Map<ServerWorker, Promise<void>>();

  constructor(options: ProcessRuntimeOptions) {
    const {
      launcher = new PlainLauncher(),
      bootstrap,
      baseEnv,
      spares,
      spareDelayMs = 0,
      python,
      foreign,
      sharesDevices = false,
    } = options;
    this.#launcher = launcher;
    this.#foreign = foreign;
    this.#baseEnv = baseEnv;
    this.#gpus = options.gpus;
    const common = { launcher, spareDelayMs, stopTimes: STOPPED_BY_AGENT, sharesDevices, gpus: this.#gpus };
    this.#pools = {
      node: new HostPool({
        ...common,
        program: { ...nodeCommand(bootstrap, 'process/node/main.js'), lifeline: true },
        baseEnv,
        readAtStart: NODE_READS_AT_START,
        spares: spares.node,
      }),
      python: new HostPool({
        ...common,
        program: { command: python, args: [PYTHON_MAIN], lifeline: true, reads: [dirname(PYTHON_MAIN)] },
        baseEnv: ofPython(baseEnv),
        readAtStart: PYTHON_READS_AT_START,
        spares: spares.python,
      }),
    };
  }

  start(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    if (spec.servesHttp === true && isForeign(spec)) return this.#startServer(spec, events);
    const foreign = this.#foreign;
    if (foreign !== undefined && isForeign(spec)) {
      const ports = { reached: [foreign.apiPort], published: [] };
      return foreign.start(
        spec,
        events,
        this.#launcherWith(() => ports),
      );
    }
    return this.#pools[languageOf(spec.folder, spec.functions[0]?.module ?? '')].start(spec, events);
  }

  #startServer(spec: WorkerStart, events: WorkerEvents): RunningWorker {
    const { promise, resolve } = Promise.withResolvers<void>();
    const worker: ServerWorker = new ServerWorker({
      ...events,
      exited: (detail, hardStop, culprit, isUnread) => {
        this.#servers.delete(worker);
        resolve();
        events.exited(detail, hardStop, culprit, isUnread);
      },
    });
    this.#servers.set(worker, promise);
    worker.launch(
      spec,
      { PYTHONUNBUFFERED: '1', ...this.#baseEnv, ...markOf(this.#baseEnv) },
      siteOnHost(spec.env, this.#launcher.placeOf(spec).folder, this.#launcherWith(serverPorts)),
    );
    return worker;
  }

  /** As launchInProcess; the GPUs of each worker can be looked at. */
  #launcherWith(portsOf: (env: Readonly<Record<string, string>>) => WorkerPorts): Launcher {
    const launch = launchInProcess(this.#launcher, portsOf);
    return (spec, env, events) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const exited: typeof events.exited = (detail, isUnread) => {
        resolve();
        events.exited(detail, isUnread);
      };
      const launched = launch(spec, env, {
        preparing: (reason, detail) => events.preparing(reason, detail),
        startFailed: (reason, detail) => events.startFailed(reason, detail),
        started: () => events.started(),
        line: (stream, text) => events.line(stream, text),
        exited,
      });
      this.#gpus?.keep(spec, launched, promise);
      return launched;
    };
  }

  setBaseEnv(baseEnv: Readonly<Record<string, string>>): void {
    this.#baseEnv = baseEnv;
    this.#foreign?.setBaseEnv(baseEnv);
    this.#pools.node.setBaseEnv(baseEnv);
    this.#pools.python.setBaseEnv(ofPython(baseEnv));
  }

  gpuProblem(workerId: string): Promise<string | undefined> {
    return this.#gpus?.problemOf(workerId) ?? Promise.resolve(undefined);
  }

  async close(): Promise<void> {
    const servers = [...this.#servers.values()];
    for (const server of this.#servers.keys()) server.end(true);
    await Promise.all([...servers, this.#foreign?.close(), ...Object.values(this.#pools).map((pool) => pool.close())]);
  }
}

function ofPython(baseEnv: Readonly<Record<string, string>>): Record<string, string> {
  return { ...baseEnv, PYTHONUNBUFFERED: '1' };
}

/** The agent sends requests to the ports that the server was told to listen on. */
function serverPorts({ PORT, PORT_HEALTH }: Readonly<Record<string, string>>): WorkerPorts {
  return { reached: [], published: [...new Set([Number(PORT), Number(PORT_HEALTH)])] };
}
